#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::provider::mock::{Behavior, Fault, RunningMock, Target};
use crate::provider::testing::{
    self, PATIENCE, PHONE, RawServer, answer, client, client_with_timeout, message, summary,
};

const KEY: &str = "sk-live-verySecretKey";

fn at(base_url: Url) -> HttpSms {
    with_client(base_url, client())
}

fn with_client(base_url: Url, client: Client) -> HttpSms {
    let settings = HttpSmsSettings {
        base_url,
        from: Some("0212345678".to_owned()),
        api_key: Some(KEY.into()),
    };
    HttpSms::new(settings, client)
}

fn misbehave(mock: &RunningMock, target: Target, fault: Fault) {
    let behavior = Behavior {
        fault: Some(fault),
        ..Behavior::default()
    };
    mock.set_behavior(target, behavior).unwrap();
}

fn words_of(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Accepted { .. } => "",
        Outcome::Deferred { answer, .. }
        | Outcome::Unknown { answer, .. }
        | Outcome::Rejected { answer, .. }
        | Outcome::Misconfigured { answer } => &answer.text,
    }
}

#[tokio::test]
async fn a_message_arrives_as_it_was_written() {
    let mock = testing::mock();
    let message = message(PHONE);
    let outcome = at(mock.sms_base_url()).send(&message).await;
    let accepted = mock.wait_for(1, PATIENCE).await.unwrap();
    assert_eq!(
        summary(&outcome),
        format!("accepted {:?}", Some(&accepted[0].id))
    );
    assert_eq!(accepted[0].to, PHONE);
    assert_eq!(accepted[0].title.as_deref(), Some("Paid"));
    assert_eq!(
        accepted[0].text.as_deref(),
        Some("Your payment was approved")
    );
    assert_eq!(accepted[0].reference.as_deref(), Some(&*message.reference));
}

#[tokio::test]
async fn every_attempt_is_the_same_request() {
    let mut gateway = RawServer::start(answer("500 x", ""), false).await;
    let adapter = at(gateway.url.clone());
    let message = message(PHONE);
    let mut requests = Vec::new();
    for _ in 0..2 {
        adapter.send(&message).await;
        requests.push(gateway.requests.recv().await.unwrap());
    }
    assert_eq!(requests[0], requests[1]);

    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let head = head.to_ascii_lowercase();
    assert!(
        head.starts_with("post /secret-path/messages http/1.1\r\n"),
        "{head}"
    );
    for header in [
        format!("idempotency-key: {}", message.reference),
        format!("authorization: bearer {}", KEY.to_ascii_lowercase()),
        "content-type: application/json".to_owned(),
    ] {
        assert!(
            head.lines().any(|line| line == header),
            "{header} in {head}"
        );
    }
    let expected = json!({
        "id": &*message.reference,
        "to": PHONE,
        "from": "0212345678",
        "text": "Your payment was approved",
        "title": "Paid",
    });
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
}

#[tokio::test]
async fn what_is_absent_is_null() {
    let mut gateway = RawServer::start(answer("204 x", ""), true).await;
    let settings = HttpSmsSettings {
        base_url: gateway.url.clone(),
        from: None,
        api_key: None,
    };
    let mut message = message(PHONE);
    std::sync::Arc::make_mut(&mut message.payload).title = None;
    HttpSms::new(settings, client()).send(&message).await;
    let request = gateway.requests.recv().await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(
        !head.to_ascii_lowercase().contains("authorization"),
        "{head}"
    );
    let body = serde_json::from_str::<Value>(body).unwrap();
    assert_eq!(
        (&body["from"], &body["title"]),
        (&Value::Null, &Value::Null)
    );
    assert!(body.as_object().unwrap().contains_key("from"));
}

/// Every row of the gateway's table.
#[tokio::test]
async fn every_answer_has_its_meaning() {
    const ID: &str = r#"{"message_id":"gw-1"}"#;
    let deep = "[".repeat(200_000);
    let rejected = "rejected Rejected";
    let later = "Retry-After: 2";
    let table = [
        ("200 x", ID, r#"accepted Some("gw-1")"#),
        ("201 x", ID, r#"accepted Some("gw-1")"#),
        ("202 x", ID, r#"accepted Some("gw-1")"#),
        ("204 x", "", "accepted None"),
        ("200 x", r#"{"message_id":""}"#, "accepted None"),
        ("200 x", r#"{"message_id":"a\u0000b"}"#, "accepted None"),
        ("200 x", r#"{"message_id":7}"#, "unknown None"),
        ("200 x", r#"{"message_id":null}"#, "unknown None"),
        ("200 x", r#"{"error":"ERROR: 14"}"#, "unknown None"),
        ("200 x", "ERROR: 14", "unknown None"),
        ("200 x", "", "unknown None"),
        ("200 x", "<html>Log in</html>", "unknown None"),
        ("200 x", r#"{"message_id":"gw"#, "unknown None"),
        ("200 x", &deep, "unknown None"),
        ("200 x", "[]", "unknown None"),
        ("200 x", "\u{0}\u{1}", "unknown None"),
        ("205 x", "", "unknown None"),
        ("302 x\nLocation: /elsewhere", "", "unknown None"),
        ("304 x", "", "unknown None"),
        ("400 x", r#"{"message":"bad number"}"#, rejected),
        ("401 x", "", "misconfigured"),
        ("402 x", "", rejected),
        ("403 x", "", "misconfigured"),
        ("404 x", "", rejected),
        ("407 x", "", "misconfigured"),
        ("408 x", "", "unknown None"),
        ("409 x", "", rejected),
        ("410 x", "", rejected),
        ("413 x", "", rejected),
        ("422 x", &deep, rejected),
        ("425 x", "", "deferred None"),
        ("429 x", "", "deferred None"),
        ("500 x", ID, "unknown None"),
        ("501 x", "", "unknown None"),
        ("502 x", "<html>Bad Gateway</html>", "unknown None"),
        ("503 x", "", "deferred None"),
        ("504 x", "", "unknown None"),
        ("599 x", "", "unknown None"),
        ("LATER 429", "", "deferred Some(2s)"),
        ("LATER 503", "", "deferred Some(2s)"),
        ("LATER 500", "", "unknown Some(2s)"),
    ];
    for (head, body, expected) in table {
        let head = match head.strip_prefix("LATER ") {
            Some(status) => format!("{status} x\n{later}"),
            None => head.to_owned(),
        };
        let gateway = RawServer::start(answer(&head, body), true).await;
        let outcome = at(gateway.url.clone()).send(&message(PHONE)).await;
        let body = body.chars().take(30).collect::<String>();
        assert_eq!(summary(&outcome), expected, "{head} {body}");
        assert_eq!(gateway.connections(), 1, "{head} {body}");
    }
}

#[tokio::test]
async fn the_words_are_kept_and_masked() {
    let token = format!("{KEY} of {PHONE}");
    let table = [
        (r#"{"message":"bad number"}"#.to_owned(), "bad number"),
        (
            r#"{"error":"no\u0000such\nline"}"#.to_owned(),
            "no such line",
        ),
        (
            r#"{"error":{"code":7}}"#.to_owned(),
            r#"{"error":{"code":7}}"#,
        ),
        ("plain".to_owned(), "plain"),
        (String::new(), "empty body"),
        (
            format!(r#"{{"message":"{token} is invalid"}}"#),
            "*** of ***5678 is invalid",
        ),
        (
            r#"{"message":"cannot send 'Your payment was approved'"}"#.to_owned(),
            "cannot send '***'",
        ),
    ];
    for (body, expected) in table {
        let gateway = RawServer::start(answer("400 x", &body), true).await;
        let outcome = at(gateway.url.clone()).send(&message(PHONE)).await;
        assert_eq!(words_of(&outcome), expected, "{body}");
        assert!(!format!("{outcome:?}").contains(KEY));
    }
}

#[tokio::test]
async fn a_gateway_that_is_not_there_defers() {
    let outcome = at(testing::refusing().await).send(&message(PHONE)).await;
    assert_eq!(summary(&outcome), "deferred None");
    assert!(words_of(&outcome).starts_with("could not connect"));
}

#[tokio::test]
async fn a_request_that_went_out_without_an_answer_is_unknown() {
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
        misbehave(&mock, Target::Sms, fault);
        let client = match fault {
            Fault::Hang | Fault::AcceptThenHang => client_with_timeout(Duration::from_millis(300)),
            _ => client(),
        };
        let adapter = with_client(mock.sms_base_url(), client);
        let message = message(PHONE);
        let outcome = adapter.send(&message).await;
        assert_eq!(summary(&outcome), "unknown None", "{fault:?}");
        assert_eq!(mock.messages().len(), stored, "{fault:?}");

        let look_up = adapter.look_up(&message).await;
        let found = matches!(look_up, LookUp::Found { .. });
        assert_eq!(found, stored == 1, "{fault:?}: {look_up:?}");
        assert!(found || look_up == LookUp::NeverSeen, "{look_up:?}");
    }
}

#[tokio::test]
async fn every_look_up_answer_has_its_meaning() {
    let found = |id: &str| format!("found {id:?}");
    let table = [
        (
            "200 x",
            r#"{"message_id":"gw-1","status":"x"}"#,
            found("gw-1"),
        ),
        ("200 x", r#"{"message_id":7}"#, "failed".to_owned()),
        ("200 x", "<html>Log in</html>", "failed".to_owned()),
        ("200 x", "", "failed".to_owned()),
        ("204 x", "", "failed".to_owned()),
        ("302 x\nLocation: /x", "", "failed".to_owned()),
        ("401 x", "", "failed".to_owned()),
        ("404 x", "", "never seen".to_owned()),
        ("405 x", "", "unsupported".to_owned()),
        ("429 x", "", "failed".to_owned()),
        ("500 x", "", "failed".to_owned()),
        ("501 x", "", "unsupported".to_owned()),
        ("503 x", "", "failed".to_owned()),
    ];
    for (head, body, expected) in table {
        let mut gateway = RawServer::start(answer(head, body), true).await;
        let message = message(PHONE);
        let result = match at(gateway.url.clone()).look_up(&message).await {
            LookUp::Found {
                provider_message_id,
            } => format!("found {:?}", provider_message_id.unwrap()),
            LookUp::Candidates { .. } => "candidates".to_owned(),
            LookUp::NeverSeen => "never seen".to_owned(),
            LookUp::Unsupported => "unsupported".to_owned(),
            LookUp::Failed { .. } => "failed".to_owned(),
        };
        assert_eq!(result, expected, "{head} {body}");
        let request = gateway.requests.recv().await.unwrap();
        let line = format!(
            "GET /secret-path/messages/{} HTTP/1.1\r\n",
            message.reference
        );
        assert!(request.starts_with(&line), "{request}");
    }
}

#[tokio::test]
async fn a_look_up_that_hangs_or_breaks_has_failed() {
    let mock = testing::mock();
    misbehave(&mock, Target::SmsLookup, Fault::Reset);
    let look_up = at(mock.sms_base_url()).look_up(&message(PHONE)).await;
    assert!(matches!(look_up, LookUp::Failed { .. }), "{look_up:?}");

    let nobody = at(testing::refusing().await).look_up(&message(PHONE)).await;
    assert!(matches!(nobody, LookUp::Failed { .. }), "{nobody:?}");

    // The client's own timeout is far longer than a look-up may take.
    misbehave(&mock, Target::SmsLookup, Fault::Hang);
    let started = std::time::Instant::now();
    let look_up = at(mock.sms_base_url()).look_up(&message(PHONE)).await;
    assert!(matches!(look_up, LookUp::Failed { .. }), "{look_up:?}");
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
}
