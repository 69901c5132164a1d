//! What the tests of the dialects share.

use std::time::Duration;

use crate::provider::client::Client;
use crate::provider::mock::{Behavior, Fault, RunningMock, Target};
use crate::provider::testing::{PHONE, client, client_with_timeout, message, summary};
use crate::provider::{LookUp, Outcome, Provider};

pub(super) fn words_of(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Accepted { .. } => "",
        Outcome::Deferred { answer, .. }
        | Outcome::Unknown { answer, .. }
        | Outcome::Rejected { answer, .. }
        | Outcome::Misconfigured { answer } => &answer.text,
    }
}

/// What a look-up found; a failed one fails the test.
pub(super) fn candidates(found: LookUp) -> Vec<String> {
    match found {
        LookUp::Candidates {
            provider_message_ids,
        } => provider_message_ids,
        LookUp::Found {
            provider_message_id,
        } => provider_message_id.into_iter().collect(),
        LookUp::NeverSeen => Vec::new(),
        other => panic!("{other:?}"),
    }
}

/// Each fault of the mock leaves the outcome unknown, and the look-up tells whether the message was
/// stored, with its id.
pub(super) async fn every_fault<P: Provider>(
    mock: &RunningMock,
    adapter: impl Fn(Client) -> P,
    ids: impl Fn(LookUp) -> Vec<String>,
) {
    let table = [
        (Fault::Hang, 0),
        (Fault::Reset, 0),
        (Fault::AcceptThenHang, 1),
        (Fault::AcceptThenReset, 1),
        (Fault::LateAccept, 1),
        (Fault::NotJson, 0),
        (Fault::EndlessBody, 0),
    ];
    for (fault, stored) in table {
        mock.forget_messages();
        let late = fault == Fault::LateAccept;
        let behavior = Behavior {
            fault: Some(fault),
            latency_ms: if late { 600 } else { 0 },
            ..Behavior::default()
        };
        mock.set_behavior(Target::Sms, behavior).unwrap();
        let hangs = late || matches!(fault, Fault::Hang | Fault::AcceptThenHang);
        let client = if hangs {
            client_with_timeout(Duration::from_millis(300))
        } else {
            client()
        };
        let message = message(PHONE);
        let outcome = adapter(client).send(&message).await;
        assert_eq!(summary(&outcome), "unknown None", "{fault:?}");
        let arrived = mock
            .wait_for(stored, Duration::from_secs(10))
            .await
            .unwrap();
        assert_eq!(arrived.len(), stored, "{fault:?}");
        let found = adapter(self::client()).look_up(&message).await;
        let expected: Vec<String> = arrived.iter().map(|message| message.id.clone()).collect();
        assert_eq!(ids(found), expected, "{fault:?}");
    }
}
