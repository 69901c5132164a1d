//! What becomes of a push while there is no access token.

use futures_util::future::join_all;
use paybell::provider::mock::{Behavior, Fault, Target};
use serde_json::json;

use super::faults::{self, Case, End, body, fault, page, status};
use crate::support::app::TestApp;
use crate::support::database::Database;
use crate::support::google::{key_file, mock_with_tokens, with_key};
use crate::support::on_both_databases;

/// Nothing has gone out: no attempt is counted, and nothing arrives twice.
fn faults() -> Vec<Case> {
    let mut cases = vec![
        fault(Fault::Hang, End::Deferred),
        fault(Fault::Reset, End::Deferred),
        fault(Fault::NotJson, End::Deferred),
        fault(Fault::EndlessBody, End::Deferred),
        body(200, json!({ "access_token": 7 }), End::Deferred),
        body(400, json!({ "error": "internal_failure" }), End::Deferred),
    ];
    cases.push(page(503, End::Deferred));
    for code in [408, 429] {
        cases.push(status(code, End::Deferred));
    }
    for code in [302, 400, 401] {
        cases.push(status(code, End::Misconfigured));
    }
    cases
}

/// The first request for a token meets the case: an app has one token for all.
async fn meet(database: Database, case: Case) {
    let mock = mock_with_tokens();
    let key = key_file(&mock);
    let settings =
        faults::settings(with_key(&database, &mock, &key)).with("DATABASE_MAX_CONNECTIONS", 2);
    let once = Behavior {
        times: Some(1),
        ..case.behavior.clone()
    };
    mock.set_behavior(Target::Token, once).unwrap();
    let app = TestApp::start_over(database, mock, settings).await;
    let cases = [case];
    let ids = faults::post(&app, "fcm", &cases).await;
    faults::all_end(&app, "fcm", &cases, &ids).await;
    let (ended, mock) = app.stop().await;
    ended.unwrap();
    assert_eq!(mock.requests(Target::Token), 2);
}

on_both_databases! {
    async fn a_push_without_a_token_waits_at_no_cost(database: Database) {
        let mut met = Vec::new();
        for case in faults() {
            met.push(meet(database.another().await, case));
        }
        join_all(met).await;
    }
}
