//! Push with a service account: the access token of Google's endpoint, from the key in a file to
//! the log.
//!
//! `PAYBELL_TEST_SCALE=full` keeps the token endpoint down for five seconds, in the life of a token
//! that is long enough for it.

use std::time::{Duration, Instant};

use paybell::payment::Channel;
use paybell::provider::mock::{Behavior, RunningMock, Target};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::support::app::{TestApp, notification, payment};
use crate::support::client::{Client, outcomes};
use crate::support::database::Database;
use crate::support::google::{key_file, mock_with_tokens, with_key};
use crate::support::load::{all_sent, assert_once_each, figures, post_many, size};
use crate::support::on_both_databases;
use crate::support::process::Process;
use crate::support::wait::until;

const ACCESS_TOKEN: &str = "ya29.access-token-of-the-service-account";
const PATIENCE: Duration = Duration::from_secs(30);

fn push(order_id: &str) -> Value {
    payment(
        order_id,
        &json!([{ "channel": "fcm", "to": "a-registration-token" }]),
    )
}

fn behave(mock: &RunningMock, behavior: Value) {
    let behavior: Behavior = serde_json::from_value(behavior).unwrap();
    mock.set_behavior(Target::Token, behavior).unwrap();
}

/// Waits until the row's history ends with this outcome; returns the row.
async fn row_after(client: &Client, id: &str, outcome: &str) -> Value {
    until(outcome, PATIENCE, async || {
        let row = client.row(id).await;
        (outcomes(&row).last() == Some(&outcome)).then_some(row)
    })
    .await
}

on_both_databases! {
    /// Many pushes, one token, in the project that the key names.
    async fn pushes_arrive_with_one_token(database: Database) {
        let mock = mock_with_tokens();
        let key = key_file(&mock);
        let settings = with_key(&database, &mock, &key);
        let app = TestApp::start_over(database, mock, settings).await;
        for n in 0..20 {
            let answer = app.pay(&push(&format!("order-{n}"))).await;
            let row = app.row_in(&notification(&answer, 0), "SENT").await;
            assert_eq!(row["attempts"], 1);
            assert_eq!(row["history"], json!([]));
        }
        let (ended, mock) = app.stop().await;
        ended.unwrap();
        let arrived = mock.messages();
        assert_eq!(arrived.len(), 20);
        assert!(arrived[0].id.starts_with("projects/demo-project/messages/"));
        assert_eq!(mock.requests(Target::Token), 1);
    }
}

on_both_databases! {
    /// The token endpoint goes away and then refuses the key: no attempt is counted, everything
    /// arrives in the end, and neither token nor key is in the log at `trace`.
    async fn a_token_endpoint_that_fails_costs_nothing_and_nothing_is_told(database: Database) {
        let mock = mock_with_tokens();
        let key = key_file(&mock);
        let settings = with_key(&database, &mock, &key)
            .with("RUST_LOG", "trace")
            .with("BACKOFF_MAX_MS", 500);
        let process = Process::serve(&settings).await;
        let client = process.client();
        behave(&mock, json!({ "body": { "access_token": ACCESS_TOKEN } }));
        let answer = client.pay(&push("order-1")).await;
        client.row_in(&notification(&answer, 0), "SENT").await;

        mock.revoke_tokens();
        behave(&mock, json!({ "status": 503 }));
        let answer = client.pay(&push("order-2")).await;
        let id = notification(&answer, 0);
        let row = row_after(&client, &id, "deferred").await;
        assert_eq!(row["last_error"], "no access token: internal_failure");

        let refusal = json!({ "error": "invalid_grant", "error_description": "Bad key." });
        behave(&mock, json!({ "status": 400, "body": refusal }));
        let row = row_after(&client, &id, "misconfigured").await;
        assert_eq!(row["last_error"], "no access token: invalid_grant: Bad key.");
        assert_eq!((&row["status"], &row["attempts"]), (&json!("PENDING"), &json!(0)));

        // The one that was revoked is no longer taken, and this one is.
        behave(&mock, json!({ "body": { "access_token": format!("{ACCESS_TOKEN}-2") } }));
        let row = client.row_in(&id, "SENT").await;
        assert_eq!(row["attempts"], 1);
        assert_eq!(mock.messages().len(), 2);

        process.signal("TERM");
        let ended = process.ended(PATIENCE).await;
        assert_eq!(ended.code, Some(0), "{:#?}", ended.log);
        assert_untold(&format!("{}{row}", ended.log.join("\n")), &key);
    }
}

/// The tokens given out from now on live so long, and are a while coming.
fn tokens_live(mock: &RunningMock, life: Duration, latency_ms: u64) {
    let body = json!({ "expires_in": life.as_secs() });
    behave(mock, json!({ "body": body, "latency_ms": latency_ms }));
}

/// Pushes come, up to fifty a second, until `over`; returns how many.
async fn pushes_until(client: &Client, over: impl AsyncFn() -> bool) -> usize {
    let mut n = 0;
    let mut turns = tokio::time::interval(Duration::from_millis(20));
    while !over().await {
        turns.tick().await;
        client.pay(&push(&format!("order-{n}"))).await;
        n += 1;
    }
    n
}

/// Every push arrived at its first request, and none ever waited.
async fn assert_none_waited(database: &Database) {
    all_sent(database, PATIENCE).await;
    let others = "SELECT count(*) FROM outbox WHERE attempts <> 1 OR deferrals <> 0";
    assert_eq!(database.number(others).await, 0);
}

on_both_databases! {
    /// Two hundred pushes that all find the token over have one new one made for them, and wait for
    /// it: none fails and none is put off.
    async fn a_token_that_is_over_is_replaced_once_for_all(database: Database) {
        let mock = mock_with_tokens();
        let key = key_file(&mock);
        let process = Process::serve(&with_key(&database, &mock, &key)).await;
        let client = process.client();
        let life = Duration::from_secs(1);
        tokens_live(&mock, life, 0);
        client.row_in(&notification(&client.pay(&push("first")).await, 0), "SENT").await;
        mock.forget_messages();
        // The next one lives on, and comes when all are there to wait for it.
        tokens_live(&mock, Duration::from_secs(3_600), 1_000);
        let asked = *mock.request_times(Target::Token).last().unwrap();
        tokio::time::sleep_until((asked + life).into()).await;
        let posted = post_many(&[client], 200, 200, |n| push(&format!("order-{n}"))).await;
        assert_none_waited(&database).await;
        assert_once_each(&mock, &posted, Channel::Fcm);
        figures(&format!("{} token requests for 200 pushes", mock.requests(Target::Token) - 1));
        assert_eq!(mock.requests(Target::Token), 2);
    }
}

on_both_databases! {
    /// Pushes that keep coming while a token grows old and ends have one new one made, before the
    /// old one ends.
    async fn a_token_is_renewed_once_under_way(database: Database) {
        let mock = mock_with_tokens();
        let key = key_file(&mock);
        // Each push takes a while, so that many are out at any moment.
        let slow = Behavior { latency_ms: 400, ..Behavior::default() };
        mock.set_behavior(Target::Fcm, slow).unwrap();
        let process = Process::serve(&with_key(&database, &mock, &key)).await;
        let client = process.client();
        let life = Duration::from_secs(4);
        tokens_live(&mock, life, 0);
        client.row_in(&notification(&client.pay(&push("first")).await, 0), "SENT").await;
        tokens_live(&mock, Duration::from_secs(3_600), 300);
        let ends = *mock.request_times(Target::Token).last().unwrap() + life;
        let over = ends + Duration::from_secs(1);
        let n = pushes_until(&client, async || Instant::now() > over).await;
        assert_none_waited(&database).await;
        assert!(n >= 100, "{n} pushes are too few to show anything");
        let asked = mock.request_times(Target::Token);
        figures(&format!("{n} pushes, renewed {:?} before the end", ends - asked[1]));
        assert_eq!(asked.len(), 2);
        assert!(asked[1] < ends, "nobody asked before the old one was over");
    }
}

on_both_databases! {
    /// The token endpoint is down while the old token lives: no push notices.
    async fn a_token_endpoint_that_is_down_for_a_while_puts_nothing_off(database: Database) {
        let mock = mock_with_tokens();
        let key = key_file(&mock);
        let process = Process::serve(&with_key(&database, &mock, &key)).await;
        let client = process.client();
        // Renewed when a quarter is left: longer than it is down, with the pause that follows.
        let life = Duration::from_secs(size(16, 40).try_into().unwrap());
        let outage = Duration::from_secs(size(2, 5).try_into().unwrap());
        tokens_live(&mock, life, 0);
        client.row_in(&notification(&client.pay(&push("first")).await, 0), "SENT").await;
        behave(&mock, json!({ "status": 503 }));
        let asked = |n| mock.request_times(Target::Token).get(n).copied();
        let ends = asked(0).unwrap() + life;
        let down = async || asked(1).is_some_and(|first| first.elapsed() > outage);
        let before = pushes_until(&client, down).await;
        let failed = mock.requests(Target::Token) - 1;
        tokens_live(&mock, Duration::from_secs(3_600), 0);
        let after = pushes_until(&client, async || Instant::now() > ends).await;
        assert_none_waited(&database).await;
        let requests = mock.requests(Target::Token);
        figures(&format!(
            "{} pushes, down for {outage:?}: {failed} token requests failed, {requests} in all",
            1 + before + after
        ));
        assert!(failed > 1, "it was hardly down");
        assert_eq!(requests, 1 + failed + 1);
    }
}

/// Neither the token, nor a piece of the key, nor a signed request: not as text, not as bytes.
fn assert_untold(text: &str, key: &NamedTempFile) {
    assert!(text.contains("refuses the service-account key"), "{text}");
    let key: Value = serde_json::from_slice(&std::fs::read(key.path()).unwrap()).unwrap();
    let pem = key["private_key"].as_str().unwrap();
    let pieces = pem.lines().map(|line| &line[..line.len().min(16)]);
    // How the header of every JSON Web Token begins.
    for secret in pieces.chain([&ACCESS_TOKEN[..16], "eyJhbGci"]) {
        let bytes: Vec<String> = secret.bytes().map(|byte| byte.to_string()).collect();
        for spelling in [secret, &bytes.join(", "), &bytes.join(",")] {
            assert!(!text.contains(spelling), "{spelling} is told");
        }
    }
}

/// A bad key is a fault of the configuration, told at once and without its content.
#[tokio::test]
async fn a_bad_key_stops_the_start() {
    let mock = mock_with_tokens();
    let key = key_file(&mock);
    let text = std::fs::read_to_string(key.path()).unwrap();
    std::fs::write(key.path(), text.replace("client_email", "client_mail")).unwrap();
    let program = env!("CARGO_BIN_EXE_paybell");
    let run = tokio::process::Command::new(program)
        .arg("serve")
        .env_clear()
        .env("GOOGLE_APPLICATION_CREDENTIALS", key.path())
        .current_dir(std::env::temp_dir())
        .output();
    let output = tokio::time::timeout(PATIENCE, run).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("lacks client_email: give the path"), "{told}");
    assert!(!told.contains("PRIVATE KEY"), "{told}");
}
