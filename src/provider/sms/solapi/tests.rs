#![expect(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use crate::provider::mock::credentials::{KOREAN_FROM, SOLAPI_API_KEY, SOLAPI_API_SECRET};
use crate::provider::mock::{Behavior, Fault, RunningMock, Target};
use crate::provider::sms::testing::{candidates, every_fault, words_of};
use crate::provider::testing::{
    self, PATIENCE, PHONE, RawServer, answer, client, message, summary,
};

fn with_client(base_url: Url, client: Client) -> Solapi {
    let settings = SolapiSettings {
        base_url,
        api_key: SOLAPI_API_KEY.into(),
        api_secret: SOLAPI_API_SECRET.into(),
        from: KOREAN_FROM.to_owned(),
    };
    Solapi::new(settings, client)
}

fn at(base_url: Url) -> Solapi {
    with_client(base_url, client())
}

fn like(mock: &RunningMock) -> Solapi {
    at(mock.base_url())
}

#[test]
fn the_signature_is_the_documented_one() {
    assert_eq!(
        sign("TESTSECRET", "2026-01-02T03:04:05Z", "0123456789abcdef"),
        "272590d13bdc3652658e042ccb95a1a607b4f9e4f0d1b0ff8bf8be6d328ec969"
    );
}

#[tokio::test]
async fn a_message_arrives_as_it_was_written() {
    let mock = testing::mock();
    let mut message = message(PHONE);
    let outcome = like(&mock).send(&message).await;
    let payload = std::sync::Arc::make_mut(&mut message.payload);
    payload.title = None;
    payload.body = "₩15,000".to_owned();
    like(&mock).send(&message).await;
    let accepted = mock.wait_for(2, PATIENCE).await.unwrap();
    let id = &accepted[0].id;
    assert_eq!(summary(&outcome), format!("accepted {:?}", Some(id)));
    assert_eq!(accepted[0].provider, "solapi");
    assert_eq!(accepted[0].to, "01012345678");
    assert_eq!(accepted[0].title.as_deref(), Some("Paid"));
    let text = accepted[0].text.as_deref();
    assert_eq!(text, Some("Your payment was approved"));
    assert_eq!(accepted[0].reference.as_deref(), Some(&*message.reference));
    assert_eq!(accepted[1].title, None);
    assert_eq!(accepted[1].text.as_deref(), Some("원15,000"));
}

#[tokio::test]
async fn every_attempt_is_signed_anew_and_says_the_same() {
    let mut gateway = RawServer::start(answer("500 x", ""), false).await;
    let adapter = at(gateway.url.clone());
    let message = message(PHONE);
    let mut parts = Vec::new();
    for _ in 0..2 {
        adapter.send(&message).await;
        let request = gateway.requests.recv().await.unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let signed = head.lines().find(|line| line.starts_with("authorization:"));
        parts.push((signed.unwrap().to_owned(), body.to_owned()));
    }
    assert_eq!(parts[0].1, parts[1].1);
    assert_ne!(parts[0].0, parts[1].0);
}

/// Every row of the table: of the request, and of the message in a 200.
#[tokio::test]
async fn every_answer_has_its_meaning() {
    let failed = |code: &str| {
        let failure = json!({ "statusCode": code, "statusMessage": "no" });
        json!({ "failedMessageList": [failure], "messageList": [] }).to_string()
    };
    let listed = |code: &str| {
        let message = json!({ "messageId": "M1", "statusCode": code });
        json!({ "failedMessageList": [], "messageList": [message] }).to_string()
    };
    let alone = |code: &str| json!({ "messageId": "M1", "statusCode": code }).to_string();
    let refused = |code: &str| json!({ "errorCode": code, "errorMessage": "no" }).to_string();
    let counted = |n: u64| json!({ "groupInfo": { "count": { "registeredSuccess": n } } });
    let rejected = "rejected Rejected";
    let accepted = r#"accepted Some("M1")"#;
    let mut table = vec![
        ("200 x", listed("2000"), accepted),
        ("200 x", listed("3000"), accepted),
        ("200 x", listed("4000"), accepted),
        ("201 x", alone("2000"), accepted),
        ("200 x", counted(1).to_string(), "accepted None"),
        ("200 x", counted(0).to_string(), "unknown None"),
        ("200 x", "{}".to_owned(), "unknown None"),
        ("200 x", "<html>".to_owned(), "unknown None"),
        ("204 x", String::new(), "unknown None"),
        ("302 x\nLocation: /x", String::new(), "unknown None"),
        ("403 x", refused("DuplicatedSignature"), "deferred None"),
        ("403 x", refused("InvalidAPIKey"), "misconfigured"),
        ("403 x", refused("SignatureDoesNotMatch"), "misconfigured"),
        ("403 x", refused("RequestTimeTooSkewed"), "misconfigured"),
        ("400 x", refused("NotEnoughBalance"), "misconfigured"),
        ("400 x", refused("1062"), "misconfigured"),
        ("400 x", refused("TooManyRequests"), "deferred None"),
        ("400 x", refused("ValidationError"), rejected),
        ("400 x", "<html>".to_owned(), "unknown None"),
        ("401 x", String::new(), "misconfigured"),
        ("402 x", refused("other"), "misconfigured"),
        ("403 x", refused("other"), "misconfigured"),
        ("404 x", String::new(), "misconfigured"),
        ("407 x", String::new(), "misconfigured"),
        ("408 x", String::new(), "unknown None"),
        ("425 x", String::new(), "deferred None"),
        ("429 x\nRetry-After: 2", String::new(), "deferred Some(2s)"),
        ("500 x", refused("InternalError"), "unknown None"),
        ("503 x", listed("2000"), "unknown None"),
    ];
    for (code, expected) in [
        ("1010", rejected),
        ("1011", rejected),
        ("1020", "misconfigured"),
        ("1024", "deferred None"),
        ("1029", rejected),
        ("1030", "misconfigured"),
        ("1031", rejected),
        ("1060", rejected),
        ("1061", "rejected RecipientOptedOut"),
        ("1062", "misconfigured"),
        ("2024", "deferred None"),
        ("2100", "unknown None"),
        ("2230", "misconfigured"),
        ("2254", rejected),
        ("3010", rejected),
        ("3024", "deferred None"),
        ("3040", "unknown None"),
        ("3041", "deferred None"),
        ("3042", "deferred None"),
        ("3043", "deferred None"),
        ("3053", "deferred None"),
        ("3059", "misconfigured"),
        ("3999", rejected),
        ("9999", "unknown None"),
        ("", "unknown None"),
    ] {
        table.push(("200 x", failed(code), expected));
        table.push(("200 x", listed(code), expected));
    }
    for (head, body, expected) in table {
        let gateway = RawServer::start(answer(head, &body), true).await;
        let outcome = at(gateway.url.clone()).send(&message(PHONE)).await;
        assert_eq!(summary(&outcome), expected, "{head} {body}");
    }
}

#[tokio::test]
async fn the_words_are_kept_and_masked() {
    let said = format!("01012345678, {SOLAPI_API_SECRET}, {SOLAPI_API_KEY}");
    let body = json!({ "errorCode": "ValidationError", "errorMessage": said }).to_string();
    let gateway = RawServer::start(answer("400 x", body), true).await;
    let outcome = at(gateway.url.clone()).send(&message(PHONE)).await;
    assert_eq!(words_of(&outcome), "ValidationError: ***5678, ***, ***");
}

#[tokio::test]
async fn what_is_no_number_is_refused_without_a_request() {
    let gateway = RawServer::start(answer("500 x", ""), true).await;
    let adapter = at(gateway.url.clone());
    let outcome = adapter.send(&message("token")).await;
    assert_eq!(summary(&outcome), "rejected Rejected");
    assert_eq!(gateway.connections(), 0);
}

#[tokio::test]
async fn every_fault_ends_as_the_table_says() {
    let mock = testing::mock();
    let exact = |found: LookUp| {
        let by_reference = matches!(found, LookUp::Found { .. } | LookUp::NeverSeen);
        assert!(by_reference, "{found:?}");
        candidates(found)
    };
    every_fault(&mock, |client| with_client(mock.base_url(), client), exact).await;
}

#[tokio::test]
async fn a_look_up_finds_our_reference_on_any_page() {
    let mock = testing::mock();
    let adapter = like(&mock);
    let wanted = message(PHONE);
    adapter.send(&wanted).await;
    for _ in 0..10 {
        adapter.send(&message(PHONE)).await;
    }
    let expected = vec![mock.messages()[0].id.clone()];
    assert_eq!(candidates(adapter.look_up(&wanted).await), expected);
    // The same text under other references is not ours.
    assert_eq!(adapter.look_up(&message(PHONE)).await, LookUp::NeverSeen);
}

#[tokio::test]
async fn without_references_the_text_decides() {
    let item = |id: &str, text: &str, code: &str, at: &str| json!({ "messageId": id, "text": text, "statusCode": code, "dateCreated": at });
    let text = "Your payment was approved";
    let list = json!({ "messageList": [
        item("M2", text, "4000", "2026-11-30T12:00:02Z"),
        item("M1", text, "2000", "2026-11-30T12:00:01Z"),
        item("M3", "other", "2000", "2026-11-30T12:00:00Z"),
        item("M4", text, "1062", "2026-11-30T12:00:00Z"),
    ], "nextKey": null });
    let gateway = RawServer::start(answer("200 x", list.to_string()), true).await;
    let found = at(gateway.url.clone()).look_up(&message(PHONE)).await;
    assert_eq!(candidates(found), ["M1", "M2"]);
}

#[tokio::test]
async fn a_list_that_cannot_be_read_to_its_end_proves_nothing() {
    let endless = r#"{"messageList":[{"messageId":"x"}],"nextKey":"k"}"#;
    for (head, body) in [
        ("200 x", endless),
        ("200 x", "{}"),
        ("200 x", "<html>"),
        ("403 x", r#"{"messageList":{}}"#),
        ("503 x", ""),
    ] {
        let gateway = RawServer::start(answer(head, body), false).await;
        let found = at(gateway.url.clone()).look_up(&message(PHONE)).await;
        assert!(
            matches!(found, LookUp::Failed { .. }),
            "{head} {body}: {found:?}"
        );
    }
    let mock = testing::mock();
    let behavior = Behavior {
        fault: Some(Fault::EndlessBody),
        ..Behavior::default()
    };
    mock.set_behavior(Target::SmsLookup, behavior).unwrap();
    let found = like(&mock).look_up(&message(PHONE)).await;
    assert!(matches!(found, LookUp::Failed { .. }), "{found:?}");
}
