//! Requests whose outcome nobody knows: the gateway is asked, and exactly one SMS arrives wherever
//! it can be.

use std::time::Duration;

use paybell::provider::mock::{Behavior, Fault, Target};
use serde_json::Value;

use crate::support::app::{Settings, TestApp, notification};
use crate::support::client::outcomes;
use crate::support::database::Database;
use crate::support::load::{one_sms, phone};
use crate::support::on_both_databases;

/// What the provider's answer may take; waits are long enough for a late acceptance to be seen.
fn quick(settings: Settings) -> Settings {
    settings
        .with("PROVIDER_TIMEOUT_MS", 500)
        .with("OUTBOX_LEASE_SECS", 5)
        .with("BACKOFF_BASE_MS", 800)
}

fn fault(fault: Fault) -> Behavior {
    Behavior {
        fault: Some(fault),
        ..Behavior::default()
    }
}

fn status(status: u16) -> Behavior {
    Behavior {
        status: Some(status),
        ..Behavior::default()
    }
}

/// An app whose gateway treats sends and look-ups so.
async fn app_with(
    database: Database,
    sends: Behavior,
    look_ups: Option<Behavior>,
    max_attempts: u32,
) -> TestApp {
    let app = TestApp::start_with(database, |settings| {
        quick(settings)
            .with("OUTBOX_MAX_ATTEMPTS", max_attempts)
            .with("BACKOFF_BASE_MS", 100)
    })
    .await;
    app.mock.set_behavior(Target::Sms, sends).unwrap();
    if let Some(look_ups) = look_ups {
        app.mock.set_behavior(Target::SmsLookup, look_ups).unwrap();
    }
    app
}

/// Posts one SMS and waits until its row has this status.
async fn ends_as(app: &TestApp, status: &str) -> Value {
    let answer = app.pay(&one_sms(0)).await;
    app.row_in(&notification(&answer, 0), status).await
}

on_both_databases! {
    /// Whatever the fault was, one SMS arrives, and the history tells how it was found out.
    async fn each_fault_ends_in_one_sms(database: Database) {
        let app = TestApp::start_with(database, quick).await;
        let found = ["unknown", "found_on_lookup"];
        let resent = ["unknown", "accepted"];
        let late = Behavior { latency_ms: 700, ..fault(Fault::LateAccept) };
        let cases = [
            (fault(Fault::AcceptThenHang), found, 1),
            (fault(Fault::AcceptThenReset), found, 1),
            (late, found, 1),
            (fault(Fault::Hang), resent, 2),
            (fault(Fault::Reset), resent, 2),
            (fault(Fault::NotJson), resent, 2),
            (status(500), resent, 2),
            (status(302), resent, 2),
            (status(408), resent, 2),
        ];
        let mut ids = Vec::new();
        for (n, (behavior, ..)) in cases.iter().enumerate() {
            let once = Behavior { to: Some(phone(n)), times: Some(1), ..behavior.clone() };
            app.mock.set_behavior(Target::Sms, once).unwrap();
            ids.push(notification(&app.pay(&one_sms(n)).await, 0));
        }
        for (n, (_, history, attempts)) in cases.iter().enumerate() {
            let row = app.row_in(&ids[n], "SENT").await;
            assert_eq!(outcomes(&row), *history, "case {n}");
            assert_eq!(row["attempts"], *attempts, "case {n}");
            let messages = app.mock.messages();
            let ours: Vec<_> = messages.iter().filter(|message| message.to == phone(n)).collect();
            assert_eq!(ours.len(), 1, "case {n}");
            assert_eq!(row["provider_message_id"], ours[0].id, "case {n}");
        }
    }
}

on_both_databases! {
    /// A question without an answer costs an attempt, and is asked again before anything is sent.
    async fn a_failed_look_up_costs_an_attempt(database: Database) {
        let reset = Behavior { times: Some(1), ..fault(Fault::Reset) };
        let failing = Behavior { times: Some(2), ..status(500) };
        let app = app_with(database, reset, Some(failing), 20).await;
        let row = ends_as(&app, "SENT").await;
        assert_eq!(outcomes(&row), ["unknown", "unknown", "unknown", "accepted"]);
        assert_eq!(row["attempts"], 4);
        assert_eq!(app.mock.requests(Target::SmsLookup), 3);
        assert_eq!(app.mock.messages().len(), 1);
    }
}

on_both_databases! {
    /// A gateway that cannot be asked gets the same message under the same reference again.
    async fn without_look_ups_the_same_reference_is_sent_again(database: Database) {
        let accepted = Behavior { times: Some(1), ..fault(Fault::AcceptThenReset) };
        let app = app_with(database, accepted, Some(status(405)), 20).await;
        let row = ends_as(&app, "SENT").await;
        assert_eq!(outcomes(&row), ["unknown", "accepted"]);
        let messages = app.mock.messages();
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0].reference, messages[1].reference);
        assert_eq!(messages[0].text, messages[1].text);
    }
}

on_both_databases! {
    /// At the end of the budget there is one last question; its answer decides.
    async fn the_end_of_the_budget_asks_one_last_time(database: Database) {
        let app = app_with(database, fault(Fault::AcceptThenReset), None, 1).await;
        let row = ends_as(&app, "SENT").await;
        assert_eq!(outcomes(&row), ["unknown", "found_on_lookup"]);
        assert_eq!((row["attempts"].clone(), app.mock.messages().len()), (1.into(), 1));
    }
}

on_both_databases! {
    /// The last question is answered with no: the budget is what ended it, and nothing arrived.
    async fn a_last_no_is_the_end_of_the_budget(database: Database) {
        let app = app_with(database, fault(Fault::Reset), None, 1).await;
        let row = ends_as(&app, "FAILED").await;
        assert_eq!(row["reason"], "attempts_exhausted");
        assert_eq!(app.mock.requests(Target::Sms), 1);
        assert_eq!(app.mock.requests(Target::SmsLookup), 1);
    }
}

on_both_databases! {
    /// The last question fails too: FAILED, and it says that the outcome is unknown.
    async fn a_last_question_without_answer_is_an_unknown_end(database: Database) {
        let app = app_with(database, fault(Fault::Reset), Some(status(500)), 2).await;
        let row = ends_as(&app, "FAILED").await;
        assert_eq!(row["reason"], "outcome_unknown");
        // The send, the question that used up the budget, the last question.
        assert_eq!(app.mock.requests(Target::Sms), 1);
        assert_eq!(app.mock.requests(Target::SmsLookup), 2);
    }
}

on_both_databases! {
    /// A gateway that cannot be asked leaves the end as unknown as it is.
    async fn an_end_that_cannot_be_asked_about_is_unknown(database: Database) {
        let app = app_with(database, fault(Fault::Reset), Some(status(501)), 1).await;
        let row = ends_as(&app, "FAILED").await;
        assert_eq!(row["reason"], "outcome_unknown");
        let waited = app.mock.wait_for_requests(Target::Sms, 2, Duration::from_millis(300)).await;
        assert!(!waited, "it was sent beyond its budget");
    }
}
