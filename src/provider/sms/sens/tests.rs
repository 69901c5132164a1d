#![expect(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::json;
use std::collections::HashSet;

use super::*;
use crate::provider::mock::credentials::{
    KOREAN_FROM, SENS_ACCESS_KEY, SENS_SECRET_KEY, SENS_SERVICE_ID,
};
use crate::provider::mock::{RunningMock, Target};
use crate::provider::sms::testing::{candidates, every_fault, words_of};
use crate::provider::testing::{
    self, PATIENCE, PHONE, RawServer, answer, client, message, summary,
};

fn with_client(base_url: Url, client: Client) -> Sens {
    let settings = SensSettings {
        base_url,
        service_id: SENS_SERVICE_ID.to_owned(),
        access_key: SENS_ACCESS_KEY.into(),
        secret_key: SENS_SECRET_KEY.into(),
        from: KOREAN_FROM.to_owned(),
    };
    Sens::new(settings, client)
}

fn at(base_url: Url) -> Sens {
    with_client(base_url, client())
}

fn like(mock: &RunningMock) -> Sens {
    at(mock.base_url())
}

#[test]
fn the_signature_is_the_known_one() {
    let path = "/sms/v2/services/ncp:sms:kr:1:svc/messages";
    assert_eq!(
        sign("SK", "POST", path, "1700000000000", "AK"),
        "QRclVaStNXfrlhOe/iHLMpZXkJJY3+W6jAdj8WK4iM4="
    );
}

#[test]
fn the_window_holds_in_either_time_zone() {
    let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    let (start, end) = window(at("2026-11-30T12:00:00Z"), at("2026-11-30T20:00:00Z"));
    assert_eq!(start, "2026-11-30 12:00:00");
    assert_eq!(end, "2026-12-01 05:00:00");
    let (start, _) = window(DateTime::UNIX_EPOCH, at("2026-11-30T20:00:00Z"));
    assert_eq!(start, "2026-11-01 20:00:00");
}

#[tokio::test]
async fn a_message_arrives_as_it_was_written() {
    let mock = testing::mock();
    let outcome = like(&mock).send(&message(PHONE)).await;
    let accepted = mock.wait_for(1, PATIENCE).await.unwrap();
    let id = &accepted[0].id;
    assert_eq!(summary(&outcome), format!("accepted {:?}", Some(id)));
    assert_eq!(accepted[0].provider, "sens");
    assert_eq!(accepted[0].to, "01012345678");
    assert_eq!(accepted[0].title.as_deref(), Some("Paid"));
    let text = accepted[0].text.as_deref();
    assert_eq!(text, Some("Your payment was approved"));
    assert_eq!(accepted[0].reference, None);
}

#[tokio::test]
async fn the_path_is_signed_as_it_is_sent() {
    let mut gateway = RawServer::start(answer("500 x", ""), true).await;
    at(gateway.url.clone()).send(&message(PHONE)).await;
    let request = gateway.requests.recv().await.unwrap();
    let path = format!("/secret-path/sms/v2/services/{SENS_SERVICE_ID}/messages");
    assert!(request.starts_with(&format!("POST {path} ")), "{request}");
    let header = |name: &str| {
        let mut lines = request.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap().to_owned()
    };
    let timestamp = header("x-ncp-apigw-timestamp");
    let expected = sign(SENS_SECRET_KEY, "POST", &path, &timestamp, SENS_ACCESS_KEY);
    assert_eq!(header("x-ncp-apigw-signature-v2"), expected);
    assert_eq!(header("content-type"), "application/json; charset=utf-8");
}

/// Every row of the table.
#[tokio::test]
async fn every_answer_has_its_meaning() {
    let told = |code: &str| json!({ "requestId": "R1", "statusCode": code }).to_string();
    let said = |words: &str| json!({ "errorMessage": words }).to_string();
    let rejected = "rejected Rejected";
    let table = [
        ("202 x", told("202"), r#"accepted Some("R1")"#),
        ("200 x", told("200"), r#"accepted Some("R1")"#),
        (
            "202 x",
            r#"{"requestId":"R1","statusCode":202}"#.to_owned(),
            r#"accepted Some("R1")"#,
        ),
        ("202 x", told("400"), rejected),
        ("202 x", told("401"), "misconfigured"),
        ("202 x", told("429"), "deferred None"),
        ("202 x", told("500"), "unknown None"),
        ("202 x", r#"{"requestId":"R1"}"#.to_owned(), "unknown None"),
        (
            "202 x",
            r#"{"statusCode":"202"}"#.to_owned(),
            "unknown None",
        ),
        ("202 x", "<html>".to_owned(), "unknown None"),
        ("204 x", String::new(), "unknown None"),
        ("302 x\nLocation: /x", String::new(), "unknown None"),
        ("400 x", said("to is invalid"), rejected),
        (
            "400 x",
            r#"{"errors":["content is empty"]}"#.to_owned(),
            rejected,
        ),
        (
            "400 x",
            r#"{"error":{"message":"bad to"}}"#.to_owned(),
            rejected,
        ),
        ("400 x", said("Balance is too low"), "misconfigured"),
        (
            "400 x",
            said("calling number is not registered"),
            "misconfigured",
        ),
        ("400 x", said("invalid from number"), "misconfigured"),
        ("400 x", said("sender is blocked"), "misconfigured"),
        ("400 x", said("등록되지 않은 발신번호"), "misconfigured"),
        ("400 x", said("Invalid timestamp"), "misconfigured"),
        ("400 x", said("service is stopped"), "misconfigured"),
        (
            "400 x",
            r#"{"errors":[{"field: from":1}]}"#.to_owned(),
            "misconfigured",
        ),
        ("400 x", "<html>".to_owned(), "unknown None"),
        ("401 x", String::new(), "misconfigured"),
        ("402 x", String::new(), "misconfigured"),
        ("403 x", said("no"), "misconfigured"),
        ("404 x", said("no"), "misconfigured"),
        ("407 x", String::new(), "misconfigured"),
        ("408 x", String::new(), "unknown None"),
        ("425 x", String::new(), "deferred None"),
        ("429 x\nRetry-After: 2", said("quota"), "deferred Some(2s)"),
        ("500 x", told("202"), "unknown None"),
        ("503 x", String::new(), "unknown None"),
    ];
    for (head, body, expected) in table {
        let gateway = RawServer::start(answer(head, &body), true).await;
        let outcome = at(gateway.url.clone()).send(&message(PHONE)).await;
        assert_eq!(summary(&outcome), expected, "{head} {body}");
    }
}

#[tokio::test]
async fn the_words_are_kept_and_masked() {
    let said = format!("01012345678 {SENS_SECRET_KEY} {SENS_ACCESS_KEY} {SENS_SERVICE_ID}");
    let body = json!({ "errorMessage": said }).to_string();
    let gateway = RawServer::start(answer("400 x", body), true).await;
    let outcome = at(gateway.url.clone()).send(&message(PHONE)).await;
    assert_eq!(words_of(&outcome), "***5678 *** *** ***");
}

#[tokio::test]
async fn every_fault_ends_as_the_table_says() {
    let mock = testing::mock();
    every_fault(
        &mock,
        |client| with_client(mock.base_url(), client),
        candidates,
    )
    .await;
}

#[tokio::test]
async fn a_look_up_reads_every_page_and_asks_for_the_texts() {
    let mock = testing::mock();
    let adapter = like(&mock);
    let wanted = message(PHONE);
    let mut other = message(PHONE);
    std::sync::Arc::make_mut(&mut other.payload).body = "something else".to_owned();
    adapter.send(&wanted).await;
    for _ in 0..11 {
        adapter.send(&other).await;
    }
    adapter.send(&wanted).await;
    let all = mock.messages();
    // The list tells whole seconds: which of two in one second is older, nobody knows.
    let expected = HashSet::from([all[0].id.clone(), all[12].id.clone()]);
    let found: HashSet<String> = candidates(adapter.look_up(&wanted).await)
        .into_iter()
        .collect();
    assert_eq!(found, expected);
    assert_eq!(mock.requests(Target::SmsLookup), 2);
    std::sync::Arc::make_mut(&mut other.payload).body = "never sent".to_owned();
    assert_eq!(adapter.look_up(&other).await, LookUp::NeverSeen);
}

#[tokio::test]
async fn where_no_text_is_told_the_rest_decides() {
    let list =
        json!({ "messages": [{ "requestId": "R1" }, { "requestId": "R2", "content": "x" }] });
    let gateway = RawServer::start(answer("202 x", list.to_string()), true).await;
    let found = at(gateway.url.clone()).look_up(&message(PHONE)).await;
    assert_eq!(candidates(found), ["R1"]);
}

#[tokio::test]
async fn a_list_that_cannot_be_read_to_its_end_proves_nothing() {
    let endless = r#"{"messages":[{"requestId":"R","content":"x"}],"nextToken":"t"}"#;
    for (head, body) in [
        ("200 x", endless),
        ("200 x", "{}"),
        ("200 x", "<html>"),
        ("401 x", r#"{"messages":[]}"#),
        ("404 x", ""),
        ("503 x", ""),
    ] {
        let gateway = RawServer::start(answer(head, body), false).await;
        let found = at(gateway.url.clone()).look_up(&message(PHONE)).await;
        assert!(
            matches!(found, LookUp::Failed { .. }),
            "{head} {body}: {found:?}"
        );
    }
}
