//! What each dialect makes of the answers to a question about an earlier send.
//!
//! Each case costs two failures, the send's and the question's, and ten in a row open the breaker:
//! so there are few at a time, and a healthy send in between.

use std::time::Duration;

use paybell::provider::mock::{Behavior, Fault, Target};
use serde_json::json;

use super::faults::{self, Case, End, body, fault, page, status};
use super::in_each_dialect;
use crate::support::database::Database;
use crate::support::dialect::speaking_with;

const PATIENCE: Duration = Duration::from_secs(10);

/// No answer, or one that is none.
fn faults() -> Vec<Case> {
    vec![
        fault(Fault::Hang, End::FoundLater),
        fault(Fault::Reset, End::FoundLater),
        fault(Fault::NotJson, End::FoundLater),
        fault(Fault::EndlessBody, End::FoundLater),
        body(200, json!({ "unexpected": true }), End::FoundLater),
    ]
}

/// Only a generic gateway may have no look-up, or say that it never saw the message.
fn answers(dialect: &str) -> Vec<Case> {
    let none = match dialect {
        "http" => End::Doubled,
        _ => End::FoundLater,
    };
    vec![
        status(404, none),
        status(405, none),
        status(501, none),
        page(403, End::FoundLater),
        status(429, End::FoundLater),
        status(503, End::FoundLater),
    ]
}

in_each_dialect! {
    async fn questions_without_an_answer_are_asked_again(database: Database, dialect: &str) {
        all_end(database, dialect, faults()).await;
    }
}

in_each_dialect! {
    async fn questions_that_are_refused_are_asked_again(database: Database, dialect: &str) {
        all_end(database, dialect, answers(dialect)).await;
    }
}

/// Each send was accepted and reset, and the first question about it meets the case: a question
/// that failed is asked again before anything is sent.
async fn all_end(database: Database, dialect: &str, cases: Vec<Case>) {
    let app = speaking_with(database, dialect, faults::settings).await;
    for (n, case) in cases.iter().enumerate() {
        let recipient = faults::recipient("sms", n);
        let accepted = Behavior {
            to: Some(recipient.clone()),
            times: Some(1),
            fault: Some(Fault::AcceptThenReset),
            ..Behavior::default()
        };
        app.mock.set_behavior(Target::Sms, accepted).unwrap();
        let question = faults::at(&recipient, case);
        app.mock.set_behavior(Target::SmsLookup, question).unwrap();
    }
    let ids = faults::post(&app, "sms", &cases).await;
    let accepted = app.mock.wait_for(cases.len(), PATIENCE).await;
    assert!(accepted.is_some(), "not accepted");
    faults::neighbour_is_sent(&app, "sms", 2 * cases.len()).await;
    faults::all_end(&app, "sms", &cases, &ids).await;
    app.stop().await.0.unwrap();
}
