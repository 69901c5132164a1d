#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::ErrorKind;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::provider::client::{Client, Failure, Reply, endpoint};
use crate::provider::testing::{self, PATIENCE, PHONE, TOKEN, client, client_with_timeout};

mod dialects;
mod formats;
mod google;

const OTHER_PHONE: &str = "+821087654321";

async fn control(mock: &RunningMock, method: &str, path: &str, body: &str) -> Reply {
    let mut url = mock.base_url();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    url.set_path(path);
    url.set_query((!query.is_empty()).then_some(query));
    let method = method.parse().unwrap();
    let body = body.to_owned();
    let client = client();
    let reply = client.call(|http| http.request(method, url).body(body));
    reply.await.unwrap()
}

fn sms(to: &str) -> Value {
    json!({ "id": "ref", "to": to, "from": null, "text": "hello", "title": null })
}

async fn send(mock: &RunningMock, client: &Client, body: &Value) -> Result<Reply, Failure> {
    let url = endpoint(&mock.sms_base_url(), &["messages"]);
    let key = body["id"].as_str().unwrap_or_default().to_owned();
    let call = client.call(|http| http.post(url).header("Idempotency-Key", key).json(body));
    call.await
}

async fn send_ok(mock: &RunningMock, to: &str) -> u16 {
    send(mock, &client(), &sms(to)).await.unwrap().status
}

async fn push(mock: &RunningMock, body: &Value) -> Reply {
    let path = ["v1", "projects", "shop", "messages:send"];
    let url = endpoint(&mock.base_url(), &path);
    client()
        .call(|http| http.post(url).json(body))
        .await
        .unwrap()
}

fn status(status: u16) -> Behavior {
    Behavior {
        status: Some(status),
        ..Behavior::default()
    }
}

#[tokio::test]
async fn duplicates_are_listed_and_the_first_is_found() {
    let mock = testing::mock();
    let first = send(&mock, &client(), &sms(PHONE)).await.unwrap();
    let second = send(&mock, &client(), &sms(PHONE)).await.unwrap();
    assert_ne!(first.json(), second.json());
    assert_eq!(mock.messages().len(), 2);
    assert_eq!(mock.requests(Target::Sms), 2);
    let found = control(&mock, "GET", "/sms/messages/ref", "").await;
    assert_eq!((found.status, found.json()), (200, first.json()));

    mock.forget_messages();
    let gone = control(&mock, "GET", "/sms/messages/ref", "").await;
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn what_was_accepted_is_listed_and_forgotten() {
    let mock = testing::mock();
    send_ok(&mock, PHONE).await;
    send_ok(&mock, OTHER_PHONE).await;
    push(
        &mock,
        &json!({ "message": { "token": TOKEN, "data": { "k": "v" } } }),
    )
    .await;

    let all = control(&mock, "GET", "/mock/messages", "")
        .await
        .json()
        .unwrap();
    assert_eq!(all.as_array().unwrap().len(), 3);
    let first = mock.messages()[0].clone();
    let expected = json!({
        "id": first.id,
        "channel": "sms",
        "provider": "http",
        "to": PHONE,
        "title": null,
        "text": "hello",
        "data": {},
        "reference": "ref",
        "received_at": first.received_at.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
    });
    assert_eq!(all[0], expected);
    assert_eq!(all[2]["data"], json!({ "k": "v" }));

    let path = format!("/mock/messages?channel=sms&to=%2B{}", &OTHER_PHONE[1..]);
    let some = control(&mock, "GET", &path, "").await.json().unwrap();
    assert_eq!(some, json!([all[1]]));
    let pushes = control(&mock, "GET", "/mock/messages?channel=fcm", "").await;
    assert_eq!(pushes.json().unwrap(), json!([all[2]]));

    assert_eq!(
        control(&mock, "DELETE", "/mock/messages", "").await.status,
        204
    );
    assert_eq!(mock.messages().len(), 0);
}

#[tokio::test]
async fn a_behaviour_for_a_recipient_wins_and_is_used_up() {
    let mock = testing::mock();
    let put = async |body: Value| {
        let body = body.to_string();
        let reply = control(&mock, "PUT", "/mock/behavior/sms", &body).await;
        assert_eq!(reply.status, 204);
    };
    put(json!({ "status": 503, "headers": { "Retry-After": "2" } })).await;
    put(json!({ "to": PHONE, "times": 9, "status": 400 })).await;
    put(json!({ "to": PHONE, "times": 2, "status": 500, "body": { "error": "x" } })).await;

    for expected in [500, 500, 503] {
        assert_eq!(send_ok(&mock, PHONE).await, expected);
    }
    let other = send(&mock, &client(), &sms(OTHER_PHONE)).await.unwrap();
    assert_eq!(other.status, 503);
    assert_eq!(other.retry_after, Some(Duration::from_secs(2)));
    assert_eq!(mock.messages().len(), 0);

    let clear = control(&mock, "DELETE", "/mock/behavior/sms", "").await;
    assert_eq!(clear.status, 204);
    assert_eq!(send_ok(&mock, PHONE).await, 200);
    assert_eq!(mock.requests(Target::Sms), 5);
}

#[tokio::test]
async fn only_what_is_accepted_is_stored() {
    let mock = testing::mock();
    let body = |body| Behavior {
        body: Some(body),
        ..Behavior::default()
    };
    let table = [
        (status(201), 1),
        (status(204), 1),
        (status(302), 0),
        (status(400), 0),
        (body(json!({ "message_id": "mine" })), 1),
        (body(json!({ "error": "ERROR: 14" })), 0),
    ];
    for (row, (behavior, stored)) in table.into_iter().enumerate() {
        mock.forget_messages();
        mock.set_behavior(Target::Sms, behavior).unwrap();
        send_ok(&mock, PHONE).await;
        assert_eq!(mock.messages().len(), stored, "row {row}");
    }
}

#[tokio::test]
async fn nothing_is_stored_for_a_client_that_has_left() {
    let mock = testing::mock();
    let slow = |to: &str, latency_ms| Behavior {
        to: Some(to.to_owned()),
        latency_ms,
        ..Behavior::default()
    };
    mock.set_behavior(Target::Sms, slow(PHONE, 400)).unwrap();
    mock.set_behavior(Target::Sms, slow(OTHER_PHONE, 800))
        .unwrap();
    let hasty = client_with_timeout(Duration::from_millis(150));
    send(&mock, &hasty, &sms(PHONE)).await.err().unwrap();
    // Sent later and slower, so that the first would be there by now.
    assert_eq!(send_ok(&mock, OTHER_PHONE).await, 200);
    let stored = mock.messages();
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].to, OTHER_PHONE);
}

#[tokio::test]
async fn a_late_acceptance_comes_whether_or_not_the_client_stays() {
    let mock = testing::mock();
    let late = Behavior {
        latency_ms: 300,
        fault: Some(Fault::LateAccept),
        ..Behavior::default()
    };
    mock.set_behavior(Target::Sms, late).unwrap();
    let hasty = client_with_timeout(Duration::from_millis(100));
    send(&mock, &hasty, &sms(PHONE)).await.err().unwrap();
    assert_eq!(mock.messages().len(), 0);
    assert_eq!(mock.wait_for(1, PATIENCE).await.unwrap()[0].to, PHONE);

    let reply = send(&mock, &client(), &sms(PHONE)).await.unwrap();
    assert_eq!(reply.json().unwrap()["message_id"], mock.messages()[1].id);
}

#[tokio::test]
async fn a_reset_is_a_reset() {
    let mock = testing::mock();
    let reset = Behavior {
        fault: Some(Fault::Reset),
        ..Behavior::default()
    };
    mock.set_behavior(Target::SmsLookup, reset).unwrap();
    let mut stream = TcpStream::connect(mock.addr()).await.unwrap();
    let request = b"GET /sms/messages/x HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let error = stream.read_to_end(&mut answer).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(answer, b"");
}

#[tokio::test]
async fn a_bad_order_is_refused_in_words() {
    let mock = testing::mock();
    let table = [
        (
            "/mock/behavior/mail",
            "{}",
            404,
            "sms, fcm, sms_lookup, token",
        ),
        ("/mock/behavior/sms", "", 400, "cannot be read"),
        ("/mock/behavior/sms", r#"{"statsu":503}"#, 400, "statsu"),
        ("/mock/behavior/sms", r#"{"status":"503"}"#, 400, "503"),
        (
            "/mock/behavior/sms",
            r#"{"fault":"explode"}"#,
            400,
            "accept_then_hang",
        ),
        ("/mock/behavior/sms", r#"{"latency_ms":-1}"#, 400, "-1"),
        ("/mock/behavior/sms", r#"{"times":0}"#, 422, "times"),
        ("/mock/behavior/sms", r#"{"status":100}"#, 422, "100"),
        ("/mock/behavior/sms", r#"{"status":1000}"#, 422, "1000"),
        (
            "/mock/behavior/sms",
            r#"{"headers":{"a b":"c"}}"#,
            422,
            "a b",
        ),
        (
            "/mock/behavior/sms",
            r#"{"headers":{"a":"b\nc"}}"#,
            422,
            "\"a\"",
        ),
        (
            "/mock/behavior/sms_lookup",
            r#"{"fault":"late_accept"}"#,
            422,
            "stores",
        ),
        ("/mock/behavior/token", r#"{"to":"x"}"#, 422, "recipient"),
    ];
    for (path, body, status, word) in table {
        let reply = control(&mock, "PUT", path, body).await;
        let problem = reply.json().unwrap();
        assert_eq!(reply.status, status, "{path} {body}");
        assert_eq!(problem["status"], status, "{path} {body}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(word), "{path} {body}: {detail}");
    }
    assert_eq!(send_ok(&mock, PHONE).await, 200);
    let reply = control(&mock, "GET", "/mock/messages?channel=mail", "").await;
    assert_eq!(reply.status, 400);
    let reply = control(&mock, "GET", "/mock/messages?chanel=sms", "").await;
    assert_eq!(reply.status, 400);
}

#[tokio::test]
async fn waiting_ends_with_the_event_or_the_timeout() {
    let mock = testing::mock();
    assert!(mock.wait_for(1, Duration::from_millis(20)).await.is_none());
    let behavior = Behavior {
        fault: Some(Fault::Hang),
        ..Behavior::default()
    };
    mock.set_behavior(Target::Sms, behavior).unwrap();
    let (client, body) = (client(), sms(PHONE));
    tokio::select! {
        _ = send(&mock, &client, &body) => panic!("it should hang"),
        seen = mock.wait_for_requests(Target::Sms, 1, PATIENCE) => assert!(seen),
    }
    mock.clear_behavior(Target::Sms);
    send_ok(&mock, PHONE).await;
    assert_eq!(mock.wait_for(1, PATIENCE).await.unwrap().len(), 1);
}

#[tokio::test]
async fn stopping_frees_the_port() {
    let mock = testing::mock();
    send_ok(&mock, PHONE).await;
    let addr = mock.addr();
    mock.stop().await;
    let again = Mock::default().workers(2).run(addr).unwrap();
    assert_eq!(send_ok(&again, PHONE).await, 200);
}
