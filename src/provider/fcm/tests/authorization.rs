//! With a service account: tokens come from the mock's own token endpoint, which checks what
//! Google's checks.

use std::time::Instant;

use super::*;
use crate::provider::mock::{Mock, RunningMock};

fn mock() -> RunningMock {
    let any_port = ([127, 0, 0, 1], 0).into();
    Mock::default().with_google_auth().run(any_port).unwrap()
}

/// The mock's own service account at some FCM.
fn account_at(mock: &RunningMock, base_url: Url, client: Client) -> Fcm {
    let settings = FcmSettings {
        base_url,
        project_id: "shop".to_owned(),
        account: Some(ServiceAccount::parse(&mock.service_account()).unwrap()),
    };
    Fcm::new(settings, client)
}

fn authorized(mock: &RunningMock) -> Fcm {
    account_at(mock, mock.base_url(), client())
}

async fn send(adapter: &Fcm) -> String {
    let outcome = adapter.send(&message(TOKEN)).await;
    match &outcome {
        Outcome::Accepted { .. } => "accepted".to_owned(),
        _ => summary(&outcome),
    }
}

fn behave(mock: &RunningMock, target: Target, body: Value) {
    let behavior: Behavior = serde_json::from_value(body).unwrap();
    mock.set_behavior(target, behavior).unwrap();
}

#[tokio::test]
async fn one_token_serves_many_sends() {
    let mock = mock();
    assert_eq!(send(&at(mock.base_url())).await, "misconfigured");
    let adapter = Arc::new(authorized(&mock));
    let all: Vec<_> = (0..200)
        .map(|_| {
            let adapter = Arc::clone(&adapter);
            tokio::spawn(async move { send(&adapter).await })
        })
        .collect();
    for one in all {
        assert_eq!(one.await.unwrap(), "accepted");
    }
    assert_eq!(mock.messages().len(), 200);
    assert_eq!(mock.requests(Target::Token), 1);
}

#[tokio::test]
async fn a_revoked_token_is_replaced_once_and_the_message_sent_again() {
    let mock = mock();
    let adapter = Arc::new(authorized(&mock));
    assert_eq!(send(&adapter).await, "accepted");
    mock.revoke_tokens();
    let all: Vec<_> = (0..50)
        .map(|_| {
            let adapter = Arc::clone(&adapter);
            tokio::spawn(async move { send(&adapter).await })
        })
        .collect();
    for one in all {
        assert_eq!(one.await.unwrap(), "accepted");
    }
    assert_eq!(mock.messages().len(), 51);
    assert_eq!(mock.requests(Target::Token), 2);
}

#[tokio::test]
async fn a_new_token_that_is_refused_too_is_a_fault_of_the_set_up() {
    let mock = mock();
    let fcm = RawServer::start(answer("401 x", error("UNAUTHENTICATED", None)), false).await;
    let mut requests = fcm.requests;
    let adapter = account_at(&mock, fcm.url.clone(), client());
    assert_eq!(send(&adapter).await, "misconfigured");
    assert_eq!(mock.requests(Target::Token), 2);
    let mut token = async || {
        let request = requests.recv().await.unwrap();
        let mut lines = request.lines();
        let line = lines.find(|line| line.starts_with("authorization: Bearer "));
        line.unwrap().to_owned()
    };
    let (first, second) = (token().await, token().await);
    assert_ne!(first, second);

    // Nor is a token fetched for each send that follows.
    assert_eq!(send(&adapter).await, "misconfigured");
    assert_eq!(token().await, second);
    assert_eq!(mock.requests(Target::Token), 2);
    assert!(requests.try_recv().is_err());
}

#[tokio::test]
async fn only_a_401_about_our_token_asks_for_another() {
    let table = [
        ("401 x", error("UNAUTHENTICATED", None), 2),
        ("401 x", "<html>Unauthorized</html>".to_owned(), 2),
        (
            "401 x",
            error("UNAUTHENTICATED", Some("THIRD_PARTY_AUTH_ERROR")),
            1,
        ),
        (
            "401 x",
            error("UNAUTHENTICATED", Some("APNS_AUTH_ERROR")),
            1,
        ),
        ("403 x", error("PERMISSION_DENIED", None), 1),
        ("407 x", String::new(), 1),
    ];
    for (head, body, sends) in table {
        let mock = mock();
        let mut fcm = RawServer::start(answer(head, &body), true).await;
        let adapter = account_at(&mock, fcm.url.clone(), client());
        assert_eq!(send(&adapter).await, "misconfigured", "{head} {body}");
        assert_eq!(mock.requests(Target::Token), sends, "{head} {body}");
        for _ in 0..sends {
            fcm.requests.recv().await.unwrap();
        }
        assert!(fcm.requests.try_recv().is_err(), "{head} {body}");
    }
}

#[tokio::test]
async fn a_send_that_no_longer_fits_its_lease_is_put_off() {
    let mock = mock();
    let adapter = authorized(&mock);
    let mut message = message(TOKEN);
    // A whole request does not fit any more, so not even a token is waited for.
    message.deadline = Instant::now() + PATIENCE - Duration::from_millis(1);
    let outcome = adapter.send(&message).await;
    assert_eq!(summary(&outcome), "deferred None");
    assert_eq!(mock.messages().len(), 0);

    // It fits once: the first is refused late, and there is no room for the second.
    assert_eq!(send(&adapter).await, "accepted");
    mock.revoke_tokens();
    behave(&mock, Target::Token, json!({ "latency_ms": 300 }));
    message.deadline = Instant::now() + PATIENCE + Duration::from_millis(200);
    let began = Instant::now();
    let outcome = adapter.send(&message).await;
    assert_eq!(summary(&outcome), "deferred None");
    assert!(began.elapsed() < PATIENCE);
    assert_eq!(mock.messages().len(), 1);
    // The token came nevertheless.
    assert!(mock.wait_for_requests(Target::Token, 2, PATIENCE).await);
    assert_eq!(send(&adapter).await, "accepted");
    assert_eq!(mock.requests(Target::Token), 2);
}

/// Every fault of the token endpoint, and that nothing of it stays.
#[tokio::test]
async fn every_fault_of_the_token_endpoint_has_its_outcome() {
    let table = [
        (
            json!({ "status": 400, "body": { "error": "invalid_grant" } }),
            "misconfigured",
        ),
        (json!({ "status": 401 }), "misconfigured"),
        (json!({ "status": 403 }), "misconfigured"),
        (
            json!({ "status": 302, "headers": { "Location": "/mock" } }),
            "misconfigured",
        ),
        (json!({ "status": 500 }), "deferred None"),
        (
            json!({ "status": 503, "headers": { "Retry-After": "7" } }),
            "deferred Some(7s)",
        ),
        (json!({ "status": 429 }), "deferred None"),
        (json!({ "status": 200, "body": [] }), "deferred None"),
        (json!({ "body": { "access_token": "" } }), "deferred None"),
        (json!({ "fault": "reset" }), "deferred None"),
        (json!({ "fault": "not_json" }), "deferred None"),
        (json!({ "fault": "endless_body" }), "deferred None"),
        (json!({ "fault": "hang" }), "deferred None"),
    ];
    for (behavior, expected) in table {
        let mock = mock();
        let client = match behavior["fault"].as_str() {
            Some("hang") => client_with_timeout(Duration::from_millis(300)),
            _ => client(),
        };
        let adapter = account_at(&mock, mock.base_url(), client);
        behave(&mock, Target::Token, behavior.clone());
        assert_eq!(send(&adapter).await, expected, "{behavior}");
        assert_eq!(mock.requests(Target::Token), 1, "{behavior}");
        assert_eq!(mock.messages().len(), 0, "{behavior}");
    }
}

#[tokio::test]
async fn a_token_endpoint_that_is_not_there_puts_off() {
    let mock = mock();
    let mut key: Value = serde_json::from_str(&mock.service_account()).unwrap();
    key["token_uri"] = json!(testing::refusing().await.as_str());
    let settings = FcmSettings {
        base_url: mock.base_url(),
        project_id: "shop".to_owned(),
        account: Some(ServiceAccount::parse(&key.to_string()).unwrap()),
    };
    let outcome = Fcm::new(settings, client()).send(&message(TOKEN)).await;
    let Outcome::Deferred { answer, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let start = "no access token: could not connect";
    assert!(answer.text.starts_with(start), "{}", answer.text);
    assert!(!answer.text.contains("secret-path"), "{}", answer.text);
}

#[tokio::test]
async fn a_clock_or_key_that_is_wrong_is_said_in_googles_words() {
    let mock = mock();
    let mut key: Value = serde_json::from_str(&mock.service_account()).unwrap();
    key["client_email"] = json!("gone@shop.iam.gserviceaccount.com");
    let settings = FcmSettings {
        base_url: mock.base_url(),
        project_id: "shop".to_owned(),
        account: Some(ServiceAccount::parse(&key.to_string()).unwrap()),
    };
    let outcome = Fcm::new(settings, client()).send(&message(TOKEN)).await;
    let Outcome::Misconfigured { answer } = outcome else {
        panic!("{outcome:?}");
    };
    let expected = "no access token: invalid_grant: Invalid grant: account not found";
    assert_eq!(answer.text, expected);
    assert_eq!(answer.http_status, Some(400));
}

#[tokio::test]
async fn the_token_is_hidden_when_fcm_repeats_it() {
    let mock = mock();
    let token = "ya29.SecretAccessToken-0123";
    behave(
        &mock,
        Target::Token,
        json!({ "body": { "access_token": token } }),
    );
    let said = json!({ "error": { "status": "INTERNAL", "message": format!("bad {token}") } });
    let fcm = RawServer::start(answer("500 x", said.to_string()), true).await;
    let adapter = account_at(&mock, fcm.url.clone(), client());
    let outcome = adapter.send(&message(TOKEN)).await;
    let Outcome::Unknown { answer, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(answer.text, "INTERNAL: bad ***");
}

#[tokio::test]
async fn a_short_life_is_told_by_the_endpoint_and_followed() {
    let mock = mock();
    behave(&mock, Target::Token, json!({ "body": { "expires_in": 1 } }));
    let adapter = authorized(&mock);
    // By the mock's clock, too, it is over after a second: every send is accepted all the same.
    let began = Instant::now();
    while mock.requests(Target::Token) < 3 {
        assert_eq!(send(&adapter).await, "accepted");
        assert!(began.elapsed() < PATIENCE, "it is not renewed");
    }
    // Renewed twice, each time after three quarters of its life.
    let used = began.elapsed();
    assert!(used >= Duration::from_millis(1_500), "{used:?}");
}
