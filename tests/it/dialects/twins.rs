//! Payments whose messages nobody could tell apart, where a message is found by its likeness alone.

use std::time::Duration;

use paybell::provider::mock::{Behavior, Fault, Target};
use serde_json::{Value, json};

use crate::support::app::{TestApp, notification, payment};
use crate::support::dialect::speaking;
use crate::support::on_both_databases;

fn misbehave(app: &TestApp, fault: Fault, times: u64) {
    let behavior = Behavior {
        fault: Some(fault),
        times: Some(times),
        ..Behavior::default()
    };
    app.mock.set_behavior(Target::Sms, behavior).unwrap();
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
