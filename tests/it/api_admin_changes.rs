//! What operators change: replay and cancel, one row or many.

use std::time::Duration;

use futures_util::future::join_all;
use paybell::provider::mock::{Behavior, Fault, Target};
use serde_json::{Value, json};

use crate::support::app::{ADMIN_TOKEN, Settings, TestApp, notification, payment, sms};
use crate::support::http::Answer;
use crate::support::on_both_databases;
use crate::support::wait::until;

fn refusing() -> Behavior {
    Behavior {
        status: Some(400),
        ..Behavior::default()
    }
}

/// The provider is busy for so long that nothing is tried again during a test.
fn busy() -> Behavior {
    let headers = [("Retry-After".to_owned(), "600".to_owned())].into();
    Behavior {
        status: Some(503),
        headers,
        ..Behavior::default()
    }
}

async fn change(app: &TestApp, id: &str, what: &str, body: &Value) -> Answer {
    let request = app
        .http
        .post(app.url(&format!("/admin/outbox/{id}/{what}")));
    Answer::to(request.bearer_auth(ADMIN_TOKEN).json(body)).await
}

async fn replay(app: &TestApp, id: &str) -> Answer {
    change(app, id, "replay", &json!({})).await
}

async fn cancel(app: &TestApp, id: &str) -> Answer {
    change(app, id, "cancel", &json!({})).await
}

async fn replay_many(app: &TestApp, body: &Value) -> Answer {
    let request = app
        .http
        .post(app.url("/admin/outbox/replay"))
        .bearer_auth(ADMIN_TOKEN);
    Answer::to(request.json(body)).await
}

fn outcomes(row: &Value) -> Vec<&str> {
    let history = row["history"].as_array().unwrap();
    history
        .iter()
        .map(|entry| entry["outcome"].as_str().unwrap())
        .collect()
}

/// A row that ended FAILED because the provider refused it.
async fn failed(app: &TestApp) -> String {
    app.mock.set_behavior(Target::Sms, refusing()).unwrap();
    let id = notification(&app.pay(&sms("order-1", "010-1234-5678")).await, 0);
    app.row_in(&id, "FAILED").await;
    app.mock.clear_behavior(Target::Sms);
    id
}

/// A row that waits for the provider.
async fn waiting(app: &TestApp) -> String {
    app.mock.set_behavior(Target::Sms, busy()).unwrap();
    let id = notification(&app.pay(&sms("order-1", "010-1234-5678")).await, 0);
    until("the row waits", Duration::from_secs(10), async || {
        let row = app.row(&id).await;
        row["next_retry_at"].is_string().then_some(())
    })
    .await;
    app.mock.clear_behavior(Target::Sms);
    id
}

on_both_databases! {
    async fn a_failed_row_is_replayed_with_its_history(database: Database) {
        let app = TestApp::start(database).await;
        let id = failed(&app).await;
        assert!(app.row(&id).await["last_error"].is_string());
        app.mock.set_behavior(Target::Sms, busy()).unwrap();
        let answer = replay(&app, &id).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let row = answer.json();
        assert_eq!((&row["id"], &row["status"], &row["reason"]), (&json!(id), &json!("PENDING"), &json!(null)));
        assert_eq!((&row["attempts"], &row["deferrals"]), (&json!(0), &json!(0)));
        assert_eq!(row["recipient"], "+82*****5678");
        until("the row is tried at once", Duration::from_secs(5), async || {
            (app.row(&id).await["deferrals"] == 1).then_some(())
        })
        .await;
        assert_eq!(outcomes(&app.row(&id).await), ["rejected", "replayed", "deferred"]);
        replay(&app, &id).await.problem(409, "conflict");
    }
}

on_both_databases! {
    /// The gateway must not take a message of known outcome for the earlier one.
    async fn a_row_that_was_sent_is_replayed_only_by_force(database: Database) {
        let app = TestApp::start(database).await;
        let id = notification(&app.pay(&sms("order-1", "010-1234-5678")).await, 0);
        app.row_in(&id, "SENT").await;
        for what in ["replay", "cancel"] {
            change(&app, &id, what, &json!({})).await.problem(409, "conflict");
        }
        change(&app, &id, "cancel", &json!({ "force": true })).await.problem(409, "conflict");
        let answer = change(&app, &id, "replay", &json!({ "force": true })).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let sent = app.mock.wait_for(2, Duration::from_secs(10)).await.unwrap();
        app.row_in(&id, "SENT").await;
        let references: Vec<_> = sent.iter().map(|m| m.reference.clone().unwrap()).collect();
        assert_eq!(references, [id.clone(), format!("{id}.1")]);
        assert_eq!(sent[0].text, sent[1].text);
    }
}

on_both_databases! {
    async fn of_ten_replays_at_once_one_wins_and_one_message_goes_out(database: Database) {
        let app = TestApp::start(database).await;
        for round in 1..=3 {
            let id = failed(&app).await;
            let latency = Behavior { latency_ms: 300, ..Behavior::default() };
            app.mock.set_behavior(Target::Sms, latency).unwrap();
            let answers = join_all((0..10).map(|_| replay(&app, &id))).await;
            let won = answers.iter().filter(|answer| answer.status == 200).count();
            assert_eq!(won, 1);
            for answer in answers.iter().filter(|answer| answer.status != 200) {
                answer.problem(409, "conflict");
            }
            app.row_in(&id, "SENT").await;
            assert_eq!(app.mock.messages().len(), round);
        }
    }
}

on_both_databases! {
    async fn a_canceled_row_rests_until_it_is_replayed(database: Database) {
        let app = TestApp::start(database).await;
        let id = waiting(&app).await;
        let answer = cancel(&app, &id).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["status"], "CANCELED");
        assert_eq!(answer.json()["next_retry_at"], json!(null));
        cancel(&app, &id).await.problem(409, "conflict");
        let dead = failed(&app).await;
        assert_eq!(cancel(&app, &dead).await.status, 200);
        assert!(app.mock.messages().is_empty());
        assert_eq!(replay(&app, &id).await.status, 200);
        let row = app.row_in(&id, "SENT").await;
        assert_eq!(outcomes(&row), ["deferred", "canceled", "replayed", "accepted"]);
        assert_eq!(app.row(&dead).await["status"], "CANCELED");
    }
}

on_both_databases! {
    /// The request that is out may still arrive, and that is a fact.
    async fn a_live_lease_holds_a_cancel_off_unless_it_is_forced(database: Database) {
        let app = TestApp::start_with(database, Settings::with_short_leases).await;
        let slow = Behavior { latency_ms: 800, ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, slow).unwrap();
        let id = notification(&app.pay(&sms("order-1", "010-1234-5678")).await, 0);
        assert!(app.mock.wait_for_requests(Target::Sms, 1, Duration::from_secs(5)).await);
        let answer = cancel(&app, &id).await;
        answer.problem(409, "conflict");
        let seconds: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=5).contains(&seconds), "{seconds}");
        let answer = change(&app, &id, "cancel", &json!({ "force": true })).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["status"], "CANCELED");
        let row = app.row_in(&id, "SENT").await;
        assert_eq!(app.mock.messages().len(), 1);
        assert!(row["sent_at"].is_string());
    }
}

on_both_databases! {
    /// A replay of a row whose request may still be out waits for the lease, then asks first.
    async fn a_replay_after_a_forced_cancel_sends_nothing_twice(database: Database) {
        let app = TestApp::start_with(database, Settings::with_short_leases).await;
        let lost = Behavior { fault: Some(Fault::AcceptThenHang), times: Some(1), ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, lost).unwrap();
        let id = notification(&app.pay(&sms("order-1", "010-1234-5678")).await, 0);
        app.mock.wait_for(1, Duration::from_secs(5)).await.unwrap();
        let leased_until = app.row(&id).await["processable_after"].clone();
        assert_eq!(change(&app, &id, "cancel", &json!({ "force": true })).await.status, 200);
        let replayed = replay(&app, &id).await;
        assert_eq!(replayed.status, 200, "{}", replayed.text());
        assert_eq!(replayed.json()["processable_after"], leased_until);
        let row = app.row_in(&id, "SENT").await;
        assert!(outcomes(&row).contains(&"found_on_lookup"), "{row}");
        assert_eq!(app.mock.messages().len(), 1);
    }
}

on_both_databases! {
    async fn many_are_replayed_by_filter(database: Database) {
        let app = TestApp::start(database).await;
        app.mock.set_behavior(Target::Sms, refusing()).unwrap();
        app.mock.set_behavior(Target::Fcm, refusing()).unwrap();
        let mut ids = Vec::new();
        for order in ["order-1", "order-2"] {
            let body = payment(order, &json!([
                { "channel": "sms", "to": "010-1234-5678" }, { "channel": "fcm", "to": "a-registration-token" },
            ]));
            let created = app.pay(&body).await;
            ids.extend([notification(&created, 0), notification(&created, 1)]);
        }
        for id in &ids {
            app.row_in(id, "FAILED").await;
        }
        app.mock.clear_behavior(Target::Sms);
        app.mock.clear_behavior(Target::Fcm);
        let canceled = waiting(&app).await;
        assert_eq!(cancel(&app, &canceled).await.status, 200);

        for (body, matched, replayed) in [
            (json!({ "all": true, "dry_run": true }), 4, 0),
            (json!({ "channel": "fcm", "dry_run": true }), 2, 0),
            (json!({ "status": "FAILED,CANCELED", "dry_run": true }), 5, 0),
            (json!({ "order_id": "order-3" }), 0, 0),
            (json!({ "created_to": "2020-01-01T00:00:00Z", "status": null }), 0, 0),
            (json!({ "order_id": "order-1", "channel": "sms" }), 1, 1),
            (json!({ "order_id": "order-1", "channel": "sms" }), 0, 0),
            (json!({ "all": true }), 3, 3),
            (json!({ "status": "CANCELED" }), 1, 1),
        ] {
            let answer = replay_many(&app, &body).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(answer.json(), json!({ "matched": matched, "replayed": replayed }), "{body}");
            if replayed > 0 {
                until("what was replayed is SENT", Duration::from_secs(10), async || {
                    (app.admin("/admin/outbox/stats").await["by_status"]["PENDING"] == 0).then_some(())
                })
                .await;
            }
        }
        let sent = app.admin("/admin/outbox/stats").await["by_status"]["SENT"].clone();
        assert_eq!((sent, app.mock.messages().len()), (json!(5), 5));
    }
}

on_both_databases! {
    async fn a_replay_by_filter_takes_more_than_one_step(database: Database) {
        let app = TestApp::start(database.clone()).await;
        let recipients = |n: i32| (0..20).map(|m| json!({ "channel": "fcm", "to": format!("token-{n}-{m}") })).collect::<Vec<_>>();
        app.mock.set_behavior(Target::Fcm, busy()).unwrap();
        let bodies: Vec<_> = (0..60).map(|n| payment("order-1", &json!(recipients(n)))).collect();
        join_all(bodies.iter().map(|body| app.pay(body))).await;
        until("nothing is in flight", Duration::from_secs(20), async || {
            let stats = app.admin("/admin/outbox/stats").await;
            (stats["in_flight"] == 0).then_some(())
        })
        .await;
        database.execute("UPDATE outbox SET status = 'FAILED', reason = 'rejected'").await;
        let answer = replay_many(&app, &json!({ "order_id": "order-1" })).await;
        assert_eq!(answer.json(), json!({ "matched": 1200, "replayed": 1200 }));
        assert_eq!(database.number("SELECT count(*) FROM outbox WHERE status = 'PENDING'").await, 1200);
        assert_eq!(database.number("SELECT count(*) FROM attempts WHERE outcome = 'replayed'").await, 1200);
    }
}

on_both_databases! {
    async fn a_change_that_makes_no_sense_is_refused(database: Database) {
        let app = TestApp::start(database).await;
        let id = failed(&app).await;
        for (body, status, problem) in [
            (json!({}), 422, "invalid"),
            (json!({ "dry_run": true }), 422, "invalid"),
            (json!({ "all": false }), 422, "invalid"),
            (json!({ "status": "SENT" }), 422, "invalid"),
            (json!({ "status": "FAILED,SENT", "all": true }), 422, "invalid"),
            (json!({ "status": "PENDING" }), 422, "invalid"),
            (json!({ "status": "x" }), 400, "bad-parameter"),
            (json!({ "channel": "pigeon" }), 400, "bad-parameter"),
            (json!({ "order_id": "a\u{0}b" }), 400, "bad-parameter"),
            (json!({ "created_from": "today" }), 400, "bad-parameter"),
            (json!({ "all": "true" }), 400, "malformed-body"),
            (json!({ "all": true, "limit": 5 }), 400, "malformed-body"),
            (json!({ "channel": 1 }), 400, "malformed-body"),
            (json!([]), 400, "malformed-body"),
        ] {
            replay_many(&app, &body).await.problem(status, problem);
        }
        for (what, body) in [
            ("replay", json!({ "force": "yes" })), ("replay", json!({ "forced": true })), ("cancel", json!([1])),
            ("replay", json!([true])), ("cancel", json!(null)), ("cancel", json!("x")),
        ] {
            change(&app, &id, what, &body).await.problem(400, "malformed-body");
        }
        let without_body = app.http.post(app.url("/admin/outbox/replay")).bearer_auth(ADMIN_TOKEN);
        Answer::to(without_body).await.problem(415, "unsupported-media-type");
        for unknown in ["x", "%00", "00000000-0000-0000-0000-000000000000"] {
            for what in ["replay", "cancel"] {
                change(&app, unknown, what, &json!({})).await.problem(404, "not-found");
            }
        }
        assert_eq!(app.row(&id).await["status"], "FAILED");
        // No body at all is an empty one, as `curl -X POST` sends it.
        let bare = app.http.post(app.url(&format!("/admin/outbox/{id}/replay")));
        assert_eq!(Answer::to(bare.bearer_auth(ADMIN_TOKEN)).await.status, 200);
    }
}
