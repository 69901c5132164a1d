//! What FCM's table says of the answers to a push, with an access token of Google's.

use paybell::provider::mock::Fault;
use serde_json::{Value, json};

use super::faults::{self, Case, End, body, fault, page, status};
use crate::support::app::TestApp;
use crate::support::google::{key_file, mock_with_tokens, with_key};
use crate::support::on_both_databases;

const UNREACHABLE: End = End::Failed("recipient_unreachable");
const REFUSED: End = End::Failed("rejected");

fn own_code(code: &str) -> Value {
    json!({ "error": { "status": "ABORTED", "details": [{
        "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code,
    }] } })
}

/// FCM cannot be asked: what it took without a word is sent again, under the same tag.
fn faults() -> Vec<Case> {
    vec![
        fault(Fault::Hang, End::Resent),
        fault(Fault::Reset, End::Resent),
        fault(Fault::AcceptThenHang, End::Doubled),
        fault(Fault::AcceptThenReset, End::Doubled),
        fault(Fault::LateAccept, End::Doubled),
        fault(Fault::NotJson, End::Resent),
        fault(Fault::EndlessBody, End::Resent),
        body(200, json!({ "result": "ok" }), End::Resent),
    ]
}

fn answers() -> Vec<Case> {
    let codes = [
        (REFUSED, &["INVALID_ARGUMENT"][..]),
        (
            UNREACHABLE,
            &["UNREGISTERED", "NOT_FOUND", "SENDER_ID_MISMATCH"],
        ),
        (
            End::Misconfigured,
            &[
                "THIRD_PARTY_AUTH_ERROR",
                "APNS_AUTH_ERROR",
                "PERMISSION_DENIED",
            ],
        ),
        (
            End::Deferred,
            &["QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"],
        ),
        (End::Resent, &["INTERNAL"]),
    ];
    let pages = [
        (End::Resent, &[302, 408, 500, 502][..]),
        (End::Misconfigured, &[403, 404, 407]),
        (End::Deferred, &[425, 429, 503]),
        (REFUSED, &[400]),
    ];
    let usual = [
        (400, REFUSED),
        // The project's own key for APNs or web push, not the access token.
        (401, End::Misconfigured),
        (403, UNREACHABLE),
        (404, UNREACHABLE),
        (429, End::Deferred),
        (500, End::Resent),
        (503, End::Deferred),
    ];
    let mut cases: Vec<Case> = usual.map(|(code, end)| status(code, end)).into();
    for (end, codes) in codes {
        cases.extend(codes.iter().map(|code| body(400, own_code(code), end)));
    }
    for (end, codes) in pages {
        cases.extend(codes.iter().map(|code| page(*code, end)));
    }
    // The access token is not taken: replaced, and sent again in the same attempt.
    cases.push(page(401, End::Accepted));
    cases
}

on_both_databases! {
    async fn pushes_end_as_the_table_says(database: Database) {
        let mock = mock_with_tokens();
        let key = key_file(&mock);
        let settings = faults::settings(with_key(&database, &mock, &key));
        let app = TestApp::start_over(database, mock, settings).await;
        let mut cases = faults();
        cases.extend(answers());
        faults::meet_at_sends(&app, "fcm", &cases).await;
        // A device shows the second of two with one tag in place of the first.
        let messages = app.mock.messages();
        for message in &messages {
            let twin = messages.iter().find(|other| other.to == message.to).unwrap();
            assert!(message.reference.is_some());
            assert_eq!(message.reference, twin.reference);
        }
        app.stop().await.0.unwrap();
    }
}
