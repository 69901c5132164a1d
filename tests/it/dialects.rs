//! Every dialect of text messages, end to end: nothing is sent twice that can be asked about.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use paybell::provider::mock::{Behavior, Fault, Target};
use serde_json::{Value, json};

use crate::support::app::{TestApp, notification, payment, sms};
use crate::support::dialect::speaking;
use crate::support::on_both_databases;

fn misbehave(app: &TestApp, fault: Fault, times: u64) {
    let late = fault == Fault::LateAccept;
    let behavior = Behavior {
        fault: Some(fault),
        times: Some(times),
        // Longer than a request may take, and shorter than the wait before the question.
        // Otherwise long enough that all are out before the first fails: then the breaker stops none.
        latency_ms: if late { 950 } else { 500 },
        ..Behavior::default()
    };
    app.mock.set_behavior(Target::Sms, behavior).unwrap();
}

/// Fifty recipients, each with a payment; all must be SENT, each by one message.
async fn each_gets_one(app: TestApp, dialect: &str) {
    const RECIPIENTS: u64 = 50;
    for fault in [
        Fault::AcceptThenHang,
        Fault::AcceptThenReset,
        Fault::LateAccept,
    ] {
        app.mock.forget_messages();
        misbehave(&app, fault, RECIPIENTS);
        let bodies: Vec<_> = (0..RECIPIENTS)
            .map(|n| sms(&format!("{fault:?}-{n}"), &format!("010-5555-{n:04}")))
            .collect();
        let answers = join_all(bodies.iter().map(|body| app.pay(body))).await;
        let rows: Vec<_> = answers
            .iter()
            .map(|answer| notification(answer, 0))
            .collect();
        for row in &rows {
            app.row_in(row, "SENT").await;
        }
        let mut by_recipient = HashMap::new();
        for message in app.mock.messages() {
            *by_recipient.entry(message.to.clone()).or_insert(0) += 1;
        }
        let once = by_recipient.values().all(|count| *count == 1);
        assert!(once, "{dialect} {fault:?}: {by_recipient:?}");
        assert_eq!(by_recipient.len(), rows.len(), "{dialect} {fault:?}");
    }
    app.stop().await.0.unwrap();
}

on_both_databases! {
    async fn the_generic_gateway_gets_each_message_once(database: Database) {
        each_gets_one(speaking(database, "http").await, "http").await;
    }
}

on_both_databases! {
    async fn twilio_gets_each_message_once(database: Database) {
        each_gets_one(speaking(database, "twilio").await, "twilio").await;
    }
}

on_both_databases! {
    async fn solapi_gets_each_message_once(database: Database) {
        each_gets_one(speaking(database, "solapi").await, "solapi").await;
    }
}

on_both_databases! {
    async fn sens_gets_each_message_once(database: Database) {
        each_gets_one(speaking(database, "sens").await, "sens").await;
    }
}

/// Two payments that nobody could tell apart, both accepted without an answer.
async fn twins_are_two_messages(app: TestApp) {
    misbehave(&app, Fault::AcceptThenHang, 2);
    let twin = payment(
        "the-same",
        &json!([{ "channel": "sms", "to": "010-1234-5678", "body": "the same" }]),
    );
    let (one, other) = tokio::join!(app.pay(&twin), app.pay(&twin));
    let mut ids = Vec::new();
    for answer in [one, other] {
        let row = app.row_in(&notification(&answer, 0), "SENT").await;
        ids.push(row["provider_message_id"].clone());
    }
    assert!(ids.iter().all(Value::is_string), "{ids:?}");
    assert_ne!(ids[0], ids[1]);
    assert_eq!(app.mock.messages().len(), 2);
    app.stop().await.0.unwrap();
}

on_both_databases! {
    async fn twins_at_twilio_are_two_messages(database: Database) {
        twins_are_two_messages(speaking(database, "twilio").await).await;
    }
}

on_both_databases! {
    async fn twins_at_solapi_are_two_messages(database: Database) {
        twins_are_two_messages(speaking(database, "solapi").await).await;
    }
}

on_both_databases! {
    async fn twins_at_sens_are_two_messages(database: Database) {
        twins_are_two_messages(speaking(database, "sens").await).await;
    }
}

on_both_databases! {
    /// Of two twins only one arrived: the one found is not found again, and the other is sent.
    async fn a_twin_that_did_not_arrive_is_sent(database: Database) {
        let app = speaking(database, "twilio").await;
        misbehave(&app, Fault::Hang, 1);
        let twin = payment(
            "the-same",
            &json!([{ "channel": "sms", "to": "010-1234-5678", "body": "the same" }]),
        );
        let lost = app.pay(&twin).await;
        let seen = app.mock.wait_for_requests(Target::Sms, 1, Duration::from_secs(10)).await;
        assert!(seen);
        let arrived = app.pay(&twin).await;
        app.row_in(&notification(&arrived, 0), "SENT").await;
        app.row_in(&notification(&lost, 0), "SENT").await;
        assert_eq!(app.mock.messages().len(), 2);
        app.stop().await.0.unwrap();
    }
}

on_both_databases! {
    /// What a Korean carrier cannot print is told to the client, not to the carrier.
    async fn an_emoji_is_refused_where_it_cannot_be_sent(database: Database) {
        let app = speaking(database, "solapi").await;
        let happy = json!([{ "channel": "sms", "to": "010-1234-5678", "body": "paid 😀" }]);
        let answer = app.post(&payment("order-1", &happy)).await;
        assert_eq!(answer.status(), 422);
        let problem: Value = answer.json().await.unwrap();
        assert_eq!(problem["errors"][0]["pointer"], "/notifications/0/body");
        let detail = problem["errors"][0]["detail"].as_str().unwrap();
        assert!(detail.contains("U+1F600"), "{detail}");
        app.stop().await.0.unwrap();
    }
}
