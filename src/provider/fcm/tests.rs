#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::provider::RejectReason;
use crate::provider::mock::{Behavior, Fault, Target};
use crate::provider::testing::{
    self, PATIENCE, RawServer, TOKEN, answer, client, client_with_timeout, message, summary,
};

mod authorization;

fn at(base_url: Url) -> Fcm {
    with_client(base_url, client())
}

fn with_client(base_url: Url, client: Client) -> Fcm {
    let settings = FcmSettings {
        base_url,
        project_id: "shop".to_owned(),
        account: None,
    };
    Fcm::new(settings, client)
}

fn error(status: &str, own_code: Option<&str>) -> String {
    let detail = own_code.map(|code| {
        json!({
            "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError",
            "errorCode": code,
        })
    });
    let violations = json!({ "@type": "type.googleapis.com/google.rpc.BadRequest" });
    let details = [Some(violations), detail];
    let details = details.into_iter().flatten().collect::<Vec<_>>();
    json!({ "error": { "message": "words", "status": status, "details": details } }).to_string()
}

fn built(message: &Message) -> Value {
    serde_json::to_value(message::SendRequest::new(message)).unwrap()["message"].clone()
}

#[tokio::test]
async fn a_message_arrives_as_it_was_written() {
    let mock = testing::mock();
    let mut message = message(TOKEN);
    let data = [("screen".to_owned(), "match/07".to_owned())];
    Arc::make_mut(&mut message.payload).data.extend(data);
    let outcome = at(mock.base_url()).send(&message).await;
    let accepted = mock.wait_for(1, PATIENCE).await.unwrap();
    let accepted = &accepted[0];
    assert_eq!(
        summary(&outcome),
        format!("accepted {:?}", Some(&accepted.id))
    );
    assert!(accepted.id.starts_with("projects/shop/messages/"));
    assert_eq!(accepted.to, TOKEN);
    assert_eq!(accepted.title.as_deref(), Some("Paid"));
    assert_eq!(accepted.text.as_deref(), Some("Your payment was approved"));
    assert_eq!(accepted.reference.as_deref(), Some(&*message.reference));
    let expected = json!({
        "screen": "match/07",
        "payment_id": message.payment_id,
        "outbox_id": message.outbox_id,
        "event_type": "PAYMENT_APPROVED",
    });
    assert_eq!(json!(accepted.data), expected);
}

#[tokio::test]
async fn every_attempt_is_the_same_request() {
    let mut fcm = RawServer::start(answer("500 x", ""), false).await;
    let adapter = at(fcm.url.clone());
    let message = message(TOKEN);
    let mut requests = Vec::new();
    for _ in 0..2 {
        adapter.send(&message).await;
        requests.push(fcm.requests.recv().await.unwrap());
    }
    assert_eq!(requests[0], requests[1]);
    let line = "POST /secret-path/v1/projects/shop/messages:send HTTP/1.1\r\n";
    assert!(requests[0].starts_with(line), "{}", requests[0]);
    assert!(!requests[0].to_ascii_lowercase().contains("authorization"));
}

#[test]
fn a_repeat_replaces_what_is_shown() {
    let message = message(TOKEN);
    let built = built(&message);
    let reference = &*message.reference;
    assert_eq!(built["android"]["notification"]["tag"], reference);
    assert_eq!(built["apns"]["headers"]["apns-collapse-id"], reference);
    assert_eq!(built["apns"]["headers"]["apns-priority"], "10");
    assert_eq!(built["android"]["priority"], "HIGH");
}

#[test]
fn a_collapse_id_is_never_longer_than_apns_takes() {
    let mut message = message(TOKEN);
    message.reference = "r".repeat(65).into();
    let built = built(&message);
    let id = built["apns"]["headers"]["apns-collapse-id"]
        .as_str()
        .unwrap();
    assert_eq!(id, message.outbox_id.to_string());
}

#[test]
fn our_own_keys_win() {
    let mut message = message(TOKEN);
    let data = [("outbox_id".to_owned(), "x".to_owned())];
    Arc::make_mut(&mut message.payload).data.extend(data);
    assert_eq!(
        built(&message)["data"]["outbox_id"],
        message.outbox_id.to_string()
    );
}

#[tokio::test]
async fn a_text_that_is_too_long_is_cut_on_a_character() {
    let mock = testing::mock();
    let mut message = message(TOKEN);
    let payload = Arc::make_mut(&mut message.payload);
    payload.title = Some("제".repeat(200));
    payload.body = "👍".repeat(2_000);
    payload.data = [("k".to_owned(), "v".repeat(2_000))].into();
    let outcome = at(mock.base_url()).send(&message).await;
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");

    let accepted = mock.wait_for(1, PATIENCE).await.unwrap();
    let title = accepted[0].title.as_deref().unwrap();
    let text = accepted[0].text.as_deref().unwrap();
    assert_eq!(title, "제".repeat(200));
    assert!(text.starts_with('👍') && text.ends_with("👍…"), "{text}");
    let data = accepted[0].data.iter();
    let data = data.map(|(key, value)| key.len() + value.len());
    let bytes = title.len() + text.len() + data.sum::<usize>();
    let budget = message::BUDGET_BYTES;
    assert!((budget - "👍".len()..=budget).contains(&bytes), "{bytes}");
}

#[test]
fn a_text_within_the_budget_is_left_alone_and_one_without_room_is_dropped() {
    let mut message = message(TOKEN);
    Arc::make_mut(&mut message.payload).body = "한".repeat(1_000);
    assert_eq!(built(&message)["notification"]["body"], "한".repeat(1_000));

    Arc::make_mut(&mut message.payload).data = [("k".to_owned(), "v".repeat(9_000))].into();
    let built = built(&message);
    assert_eq!(built["notification"]["title"], "");
    assert_eq!(built["notification"]["body"], "");
}

/// Every row of FCM's table of errors.
#[tokio::test]
async fn every_answer_has_its_meaning() {
    let gone = format!("rejected {:?}", RejectReason::RecipientUnreachable);
    let rejected = format!("rejected {:?}", RejectReason::Rejected);
    let (gone, rejected) = (gone.as_str(), rejected.as_str());
    let name = r#"{"name":"projects/shop/messages/1"}"#.to_owned();
    let accepted = r#"accepted Some("projects/shop/messages/1")"#;
    let minute = "deferred Some(60s)";
    let table = [
        ("200 x", name.clone(), accepted),
        ("200 x", "{}".to_owned(), "unknown None"),
        ("200 x", r#"{"name":7}"#.to_owned(), "unknown None"),
        (
            "200 x",
            error("NOT_FOUND", Some("UNREGISTERED")),
            "unknown None",
        ),
        ("200 x", "<html>Log in</html>".to_owned(), "unknown None"),
        ("204 x", String::new(), "unknown None"),
        ("302 x\nLocation: /x", name, "unknown None"),
        (
            "400 x",
            error("INVALID_ARGUMENT", Some("INVALID_ARGUMENT")),
            rejected,
        ),
        ("400 x", error("INVALID_ARGUMENT", None), rejected),
        ("400 x", "<html>Bad Request</html>".to_owned(), rejected),
        ("404 x", error("NOT_FOUND", Some("UNREGISTERED")), gone),
        ("404 x", error("NOT_FOUND", None), gone),
        (
            "404 x",
            "<html>Not Found</html>".to_owned(),
            "misconfigured",
        ),
        (
            "403 x",
            error("PERMISSION_DENIED", Some("SENDER_ID_MISMATCH")),
            gone,
        ),
        ("403 x", error("PERMISSION_DENIED", None), "misconfigured"),
        (
            "403 x",
            "<html>Forbidden</html>".to_owned(),
            "misconfigured",
        ),
        ("401 x", error("UNAUTHENTICATED", None), "misconfigured"),
        (
            "401 x",
            error("UNAUTHENTICATED", Some("THIRD_PARTY_AUTH_ERROR")),
            "misconfigured",
        ),
        (
            "401 x",
            error("UNAUTHENTICATED", Some("APNS_AUTH_ERROR")),
            "misconfigured",
        ),
        ("401 x", String::new(), "misconfigured"),
        ("407 x", String::new(), "misconfigured"),
        ("408 x", String::new(), "unknown None"),
        ("413 x", String::new(), rejected),
        ("425 x", String::new(), "deferred None"),
        (
            "429 x",
            error("RESOURCE_EXHAUSTED", Some("QUOTA_EXCEEDED")),
            minute,
        ),
        ("429 x", error("RESOURCE_EXHAUSTED", None), minute),
        ("429 x", "<html>Slow down</html>".to_owned(), minute),
        (
            "429 x\nRetry-After: 7",
            error("RESOURCE_EXHAUSTED", None),
            "deferred Some(7s)",
        ),
        (
            "429 x\nRetry-After: soon",
            error("RESOURCE_EXHAUSTED", None),
            minute,
        ),
        (
            "429 x\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT",
            String::new(),
            "deferred Some(0ns)",
        ),
        ("500 x", error("INTERNAL", Some("INTERNAL")), "unknown None"),
        (
            "500 x",
            error("INTERNAL", Some("UNSPECIFIED_ERROR")),
            "unknown None",
        ),
        (
            "502 x",
            "<html>Bad Gateway</html>".to_owned(),
            "unknown None",
        ),
        (
            "503 x",
            error("UNAVAILABLE", Some("UNAVAILABLE")),
            "deferred None",
        ),
        (
            "503 x",
            error("UNAVAILABLE", Some("UNSPECIFIED_ERROR")),
            "deferred None",
        ),
        (
            "503 x\nRetry-After: 9",
            "busy".to_owned(),
            "deferred Some(9s)",
        ),
        ("504 x", error("DEADLINE_EXCEEDED", None), "unknown None"),
        ("400 x", r#"{"error":"UNREGISTERED"}"#.to_owned(), gone),
        (
            "400 x",
            r#"{"error":"something else"}"#.to_owned(),
            rejected,
        ),
        (
            "404 x",
            r#"{"error":{"message":"NOT_FOUND"}}"#.to_owned(),
            gone,
        ),
        ("500 x", "[".repeat(200_000), "unknown None"),
        (
            "500 x",
            r#"{"error":{"details":[7,{"@type":7}]}}"#.to_owned(),
            "unknown None",
        ),
    ];
    for (head, body, expected) in table {
        let fcm = RawServer::start(answer(head, &body), true).await;
        let outcome = at(fcm.url.clone()).send(&message(TOKEN)).await;
        let body = body.chars().take(200).collect::<String>();
        assert_eq!(summary(&outcome), expected, "{head} {body}");
        assert_eq!(fcm.connections(), 1, "{head} {body}");
    }
}

#[tokio::test]
async fn the_words_are_kept_and_masked() {
    let said = format!("The registration token {TOKEN} is not valid");
    let table = [
        (
            error("NOT_FOUND", Some("UNREGISTERED")),
            "UNREGISTERED: words",
        ),
        (
            json!({ "error": { "status": "INVALID_ARGUMENT", "message": said } }).to_string(),
            "INVALID_ARGUMENT: The registration token *** is not valid",
        ),
        (r#"{"error":"UNREGISTERED"}"#.to_owned(), "UNREGISTERED"),
        (
            "<html>Bad Gateway</html>".to_owned(),
            "<html>Bad Gateway</html>",
        ),
        (format!("{} cut", &TOKEN[..20]), "*** cut"),
    ];
    for (body, expected) in table {
        let fcm = RawServer::start(answer("400 x", &body), true).await;
        let Outcome::Rejected { answer, .. } = at(fcm.url.clone()).send(&message(TOKEN)).await
        else {
            panic!("not rejected: {body}");
        };
        assert_eq!(answer.text, expected);
        assert_eq!(answer.http_status, Some(400));
    }
}

#[tokio::test]
async fn no_connection_defers_and_no_answer_is_unknown() {
    let outcome = at(testing::refusing().await).send(&message(TOKEN)).await;
    assert_eq!(summary(&outcome), "deferred None");

    let mock = testing::mock();
    let table = [
        (Fault::Reset, 0),
        (Fault::Hang, 0),
        (Fault::AcceptThenReset, 1),
        (Fault::AcceptThenHang, 1),
        (Fault::NotJson, 0),
        (Fault::EndlessBody, 0),
    ];
    for (fault, stored) in table {
        mock.forget_messages();
        let behavior = Behavior {
            fault: Some(fault),
            ..Behavior::default()
        };
        mock.set_behavior(Target::Fcm, behavior).unwrap();
        let client = match fault {
            Fault::Hang | Fault::AcceptThenHang => client_with_timeout(Duration::from_millis(300)),
            _ => client(),
        };
        let outcome = with_client(mock.base_url(), client)
            .send(&message(TOKEN))
            .await;
        assert_eq!(summary(&outcome), "unknown None", "{fault:?}");
        assert_eq!(mock.messages().len(), stored, "{fault:?}");
    }
}

#[tokio::test]
async fn the_mock_answers_each_status_as_fcm_does() {
    let mock = testing::mock();
    let adapter = at(mock.base_url());
    let table = [
        (400, "rejected Rejected"),
        (401, "misconfigured"),
        (403, "rejected RecipientUnreachable"),
        (404, "rejected RecipientUnreachable"),
        (429, "deferred Some(60s)"),
        (500, "unknown None"),
        (502, "unknown None"),
        (503, "deferred None"),
    ];
    for (status, expected) in table {
        let behavior = Behavior {
            status: Some(status),
            ..Behavior::default()
        };
        mock.set_behavior(Target::Fcm, behavior).unwrap();
        let outcome = adapter.send(&message(TOKEN)).await;
        assert_eq!(summary(&outcome), expected, "{status}");
    }
    assert_eq!(mock.messages().len(), 0);
}

#[tokio::test]
async fn fcm_cannot_be_asked() {
    let adapter = at(testing::refusing().await);
    assert_eq!(adapter.look_up(&message(TOKEN)).await, LookUp::Unsupported);
}
