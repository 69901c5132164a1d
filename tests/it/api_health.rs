//! What load balancers and supervisors ask: alive, and ready.

use std::time::Duration;

use paybell::provider::mock::{Behavior, Target};
use serde_json::{Value, json};

use crate::support::app::{TestApp, notification, payment, sms};
use crate::support::database::Database;
use crate::support::http::Answer;
use crate::support::on_both_databases;
use crate::support::wait::until;

fn lane<'a>(ready: &'a Value, channel: &str) -> &'a Value {
    let lanes = ready["delivery"]["lanes"].as_array().unwrap();
    lanes
        .iter()
        .find(|lane| lane["channel"] == channel)
        .unwrap()
}

on_both_databases! {
    async fn readiness_names_every_part(database: Database) {
        let app = TestApp::start(database).await;
        let live = app.get("/health/live").await;
        assert_eq!((live.status, live.json()["status"].clone()), (200, json!("live")));
        let ready = app.get("/health/ready").await;
        assert_eq!(ready.status, 200, "{}", ready.text());
        assert_eq!(ready.header("content-type"), "application/json");
        assert_eq!(ready.header("cache-control"), "no-store");
        let ready = ready.json();
        assert_eq!(ready["status"], "ready");
        assert_eq!(ready["database"]["status"], "up");
        assert_eq!(ready["delivery"]["status"], "up");
        for (channel, provider) in [("sms", "http"), ("fcm", "fcm")] {
            let lane = lane(&ready, channel);
            assert_eq!(lane["provider"], provider);
            assert_eq!(lane["status"], "up");
            assert_eq!(lane["provider_status"], "ok");
            assert!(lane["seconds_since_last_poll"].as_f64().unwrap() < 30.0);
        }
    }
}

on_both_databases! {
    /// Payments can be recorded all the same; restarting an instance would mend nothing.
    async fn a_providers_trouble_is_shown_and_flips_nothing(database: Database) {
        let app = TestApp::start(database).await;
        let echo = json!({ "message": "no account for +821012345678" });
        let refuse = Behavior { status: Some(401), body: Some(echo), ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, refuse).unwrap();
        let busy = Behavior { status: Some(503), ..Behavior::default() };
        app.mock.set_behavior(Target::Fcm, busy).unwrap();
        let both = json!([
            { "channel": "sms", "to": "010-1234-5678" }, { "channel": "fcm", "to": "a-registration-token" },
        ]);
        let created = app.pay(&payment("order-1", &both)).await;
        until("three failures in a row are shown", Duration::from_secs(15), async || {
            let ready = app.get("/health/ready").await;
            assert_eq!(ready.status, 200, "{}", ready.text());
            assert_eq!(app.get("/health/live").await.status, 200);
            assert!(!ready.text().contains("12345678"), "{}", ready.text());
            let ready = ready.json();
            ["sms", "fcm"].iter().all(|channel| {
                let lane = lane(&ready, channel);
                let failures = lane["failures_in_a_row"].as_u64().unwrap();
                let shown = failures == 0 || lane["provider_status"] == "failing" && lane["last_error"].is_string();
                assert!(shown, "{lane}");
                failures >= 3
            })
            .then_some(())
        })
        .await;
        app.mock.clear_behavior(Target::Sms);
        app.mock.clear_behavior(Target::Fcm);
        for n in 0..2 {
            app.row_in(&notification(&created, n), "SENT").await;
        }
        let ready = app.get("/health/ready").await.json();
        for channel in ["sms", "fcm"] {
            assert_eq!(lane(&ready, channel)["provider_status"], "ok");
            assert_eq!(lane(&ready, channel)["failures_in_a_row"], 0);
        }
    }
}

/// Nobody is sent to an instance without a database, and nobody restarts it for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_gone_flips_ready_and_not_live_postgres() {
    let database = Database::postgres().await;
    let app = TestApp::start_with(database.clone(), |s| s.with("DATABASE_TIMEOUT_MS", 1000)).await;
    let before = app.pay(&sms("before", "010-1234-5678")).await;
    app.row_in(&notification(&before, 0), "SENT").await;

    database.cut_off().await;
    let ready = app.get("/health/ready").await;
    assert_eq!(ready.status, 503, "{}", ready.text());
    let body = ready.json();
    assert_eq!(body["status"], "not_ready");
    assert_eq!(body["database"]["status"], "down");
    assert!(
        body["database"]["detail"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
    assert_eq!(body["delivery"]["status"], "up");
    assert_eq!(app.get("/health/live").await.status, 200);
    assert_eq!(app.get("/metrics").await.status, 200);
    let body = sms("during", "010-1234-5678");
    let during = app
        .http
        .post(app.url("/payments"))
        .header("idempotency-key", "during")
        .json(&body);
    let id = before["id"].as_str().unwrap();
    let row = notification(&before, 0);
    for answer in [
        Answer::to(during).await,
        app.get(&format!("/payments/{id}")).await,
        app.get("/payments?order_id=before").await,
        app.admin_get("/admin/outbox").await,
        app.admin_get("/admin/outbox/stats").await,
        app.admin_get(&format!("/admin/outbox/{row}")).await,
    ] {
        answer.problem(503, "unavailable");
        assert_eq!(answer.header("retry-after"), "1");
        // Where the database is and who asks it are nobody's business.
        for secret in ["test_", "postgres", "127.0.0.1"] {
            assert!(!answer.text().contains(secret), "{}", answer.text());
        }
    }

    database.let_in().await;
    until("it is ready again", Duration::from_secs(15), async || {
        (app.get("/health/ready").await.status == 200).then_some(())
    })
    .await;
    let after = app.pay(&sms("after", "010-1234-5678")).await;
    app.row_in(&notification(&after, 0), "SENT").await;
}
