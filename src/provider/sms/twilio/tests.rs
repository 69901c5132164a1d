#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashSet;
use std::time::Duration;

use super::*;
use crate::provider::mock::credentials::{TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN, TWILIO_FROM};
use crate::provider::mock::{Behavior, Fault, RunningMock, Target};
use crate::provider::sms::testing::{candidates, every_fault, words_of};
use crate::provider::testing::{
    self, PATIENCE, PHONE, RawServer, answer, client, message, summary,
};

fn with_client(base_url: Url, client: Client) -> Twilio {
    let settings = TwilioSettings {
        base_url,
        account_sid: TWILIO_ACCOUNT_SID.to_owned(),
        auth_token: TWILIO_AUTH_TOKEN.into(),
        from: TWILIO_FROM.to_owned(),
    };
    Twilio::new(settings, client)
}

fn at(base_url: Url) -> Twilio {
    with_client(base_url, client())
}

fn like(mock: &RunningMock) -> Twilio {
    at(mock.base_url())
}

#[tokio::test]
async fn a_message_arrives_as_it_was_written() {
    let mock = testing::mock();
    let outcome = like(&mock).send(&message(PHONE)).await;
    let accepted = mock.wait_for(1, PATIENCE).await.unwrap();
    let id = &accepted[0].id;
    assert_eq!(summary(&outcome), format!("accepted {:?}", Some(id)));
    assert_eq!(accepted[0].provider, "twilio");
    assert_eq!(accepted[0].to, PHONE);
    // Twilio knows no subject: no word of the caller's is lost.
    let text = accepted[0].text.as_deref();
    assert_eq!(text, Some("Paid\nYour payment was approved"));
    assert_eq!(accepted[0].reference, None);
}

/// Every row of the table.
#[tokio::test]
async fn every_answer_has_its_meaning() {
    let code = |code: u32| format!(r#"{{"code":{code},"message":"no","status":400}}"#);
    let rejected = "rejected Rejected";
    let table = [
        (
            "201 x",
            r#"{"sid":"SM1"}"#.to_owned(),
            r#"accepted Some("SM1")"#,
        ),
        (
            "200 x",
            r#"{"sid":"SM1"}"#.to_owned(),
            r#"accepted Some("SM1")"#,
        ),
        ("201 x", r#"{"sid":null}"#.to_owned(), "unknown None"),
        ("201 x", "<html>".to_owned(), "unknown None"),
        ("204 x", String::new(), "unknown None"),
        ("302 x\nLocation: /x", String::new(), "unknown None"),
        ("401 x", code(20003), "misconfigured"),
        ("400 x", code(20003), "misconfigured"),
        ("403 x", code(20005), "misconfigured"),
        ("429 x\nRetry-After: 2", code(20429), "deferred Some(2s)"),
        ("500 x", code(20500), "unknown None"),
        ("503 x", code(20503), "unknown None"),
        ("400 x", code(21211), rejected),
        ("400 x", code(21212), "misconfigured"),
        ("400 x", code(21408), "misconfigured"),
        ("403 x", code(21408), "misconfigured"),
        ("400 x", code(21603), "misconfigured"),
        ("400 x", code(21606), "misconfigured"),
        ("400 x", code(21608), rejected),
        ("400 x", code(21610), "rejected RecipientOptedOut"),
        ("400 x", code(21611), "deferred None"),
        ("429 x", code(21611), "deferred None"),
        ("400 x", code(21612), rejected),
        ("400 x", code(21614), rejected),
        ("400 x", code(21617), rejected),
        ("400 x", code(21659), "misconfigured"),
        ("403 x", code(30002), "misconfigured"),
        ("400 x", code(99999), rejected),
        ("400 x", r#"{"message":"no code"}"#.to_owned(), rejected),
        (
            "400 x",
            "<html>Bad Request</html>".to_owned(),
            "unknown None",
        ),
        ("401 x", String::new(), "misconfigured"),
        ("403 x", String::new(), "misconfigured"),
        ("404 x", code(20404), "misconfigured"),
        ("405 x", String::new(), "misconfigured"),
        ("407 x", String::new(), "misconfigured"),
        ("408 x", code(1), "unknown None"),
        ("425 x", String::new(), "deferred None"),
        ("429 x", "<html>".to_owned(), "deferred None"),
        ("500 x", r#"{"sid":"SM1"}"#.to_owned(), "unknown None"),
        ("502 x", "<html>".to_owned(), "unknown None"),
        ("503 x\nRetry-After: 2", String::new(), "unknown Some(2s)"),
    ];
    for (head, body, expected) in table {
        let gateway = RawServer::start(answer(head, &body), true).await;
        let outcome = at(gateway.url.clone()).send(&message(PHONE)).await;
        assert_eq!(summary(&outcome), expected, "{head} {body}");
    }
}

#[tokio::test]
async fn the_words_are_kept_and_masked() {
    let body = format!(
        r#"{{"code":21211,"message":"{PHONE} at {TWILIO_ACCOUNT_SID} with {TWILIO_AUTH_TOKEN}"}}"#
    );
    let gateway = RawServer::start(answer("400 x", body), true).await;
    let outcome = at(gateway.url.clone()).send(&message(PHONE)).await;
    assert_eq!(words_of(&outcome), "21211: ***5678 at *** with ***");
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
async fn a_look_up_reads_every_page_and_takes_what_fits() {
    let mock = testing::mock();
    let adapter = like(&mock);
    let wanted = message(PHONE);
    adapter.send(&wanted).await;
    let other = message_with_body("something else");
    for _ in 0..7 {
        adapter.send(&other).await;
    }
    adapter.send(&wanted).await;
    adapter.send(&message("+821087654321")).await;
    let all = mock.messages();
    // The list tells whole seconds: which of two in one second is older, nobody knows.
    let expected = HashSet::from([all[0].id.clone(), all[8].id.clone()]);
    let found: HashSet<String> = candidates(adapter.look_up(&wanted).await)
        .into_iter()
        .collect();
    assert_eq!(found, expected);
    assert!(mock.requests(Target::SmsLookup) >= 2);
    let unknown = message_with_body("never sent");
    assert_eq!(adapter.look_up(&unknown).await, LookUp::NeverSeen);
}

fn message_with_body(body: &str) -> Message {
    let mut message = message(PHONE);
    std::sync::Arc::make_mut(&mut message.payload).body = body.to_owned();
    message
}

#[tokio::test]
async fn a_message_from_before_the_payment_is_not_a_find() {
    let listed = |at: &str| {
        format!(
            r#"{{"messages":[{{"sid":"SM1","body":"Paid\nYour payment was approved ",
            "date_created":"{at}"}}],"next_page_uri":null}}"#
        )
    };
    let now = Utc::now();
    let hour_ago = now - Duration::from_secs(3600);
    let table = [
        (now.to_rfc2822(), vec!["SM1".to_owned()]),
        (hour_ago.to_rfc2822(), vec![]),
    ];
    for (created, expected) in table {
        let gateway = RawServer::start(answer("200 x", listed(&created)), true).await;
        let found = at(gateway.url.clone()).look_up(&message(PHONE)).await;
        assert_eq!(candidates(found), expected, "{created}");
    }
}

#[tokio::test]
async fn a_list_that_cannot_be_read_to_its_end_proves_nothing() {
    let endless = r#"{"messages":[],"next_page_uri":"/x?Page=1"}"#;
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
    let mock = testing::mock();
    let behavior = Behavior {
        fault: Some(Fault::Hang),
        ..Behavior::default()
    };
    mock.set_behavior(Target::SmsLookup, behavior).unwrap();
    let found = like(&mock).look_up(&message(PHONE)).await;
    assert!(matches!(found, LookUp::Failed { .. }), "{found:?}");
}
