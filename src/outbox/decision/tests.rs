//! The state machine as tables: every row state with every outcome and every look-up.

mod look_ups;

use uuid::Uuid;

use super::*;
use crate::store::{Id, Moment};

const PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ATTEMPTS: i32 = 20;

const POLICY: Policy = Policy {
    backoff: Backoff {
        base: Duration::from_secs(1),
        max: Duration::from_secs(600),
    },
    max_attempts: MAX_ATTEMPTS,
    provider_timeout: PROVIDER_TIMEOUT,
};

/// A request that took 2 s, with the longest wait that jitter gives.
const TIMING: Timing = Timing {
    began_ago: Duration::from_secs(2),
    jitter: 1.0,
};

fn row() -> HeldRow {
    HeldRow {
        id: Id(Uuid::from_u128(1)),
        payment_id: Id(Uuid::from_u128(2)),
        event_type: "PAYMENT_APPROVED".to_owned(),
        provider: "http".to_owned(),
        recipient: "+821012345678".to_owned(),
        payload: r#"{"body":"paid"}"#.to_owned(),
        reference: "reference".to_owned(),
        attempts: 0,
        deferrals: 0,
        lost_leases: 0,
        replays: 0,
        epoch: 7,
        maybe_sent: false,
        expired: false,
        due_since: Moment::DISTANT_PAST,
    }
}

fn answer() -> Answer {
    Answer {
        http_status: Some(503),
        text: "busy".to_owned(),
    }
}

fn accepted() -> Outcome {
    Outcome::Accepted {
        provider_message_id: Some("m-1".to_owned()),
    }
}

fn rejected() -> Outcome {
    Outcome::Rejected {
        reason: RejectReason::RecipientUnreachable,
        answer: answer(),
    }
}

fn deferred() -> Outcome {
    Outcome::Deferred {
        retry_after: None,
        answer: answer(),
    }
}

fn misconfigured() -> Outcome {
    Outcome::Misconfigured { answer: answer() }
}

fn unknown() -> Outcome {
    Outcome::Unknown {
        retry_after: None,
        answer: answer(),
    }
}

/// The end that a first look puts to a row.
fn end(row: &HeldRow) -> Settlement {
    match POLICY.begin(row) {
        Beginning::End(settlement) => *settlement,
        other => panic!("{row:?} goes on: {other:?}"),
    }
}

#[test]
fn a_row_begins_by_its_mark_its_budget_and_its_crashes() {
    let cases = [
        (row(), Beginning::Send),
        (
            HeldRow {
                attempts: MAX_ATTEMPTS - 1,
                ..row()
            },
            Beginning::Send,
        ),
        (
            HeldRow {
                maybe_sent: true,
                ..row()
            },
            Beginning::Ask,
        ),
        // One last question, even at the end of either budget.
        (
            HeldRow {
                maybe_sent: true,
                attempts: i32::MAX,
                ..row()
            },
            Beginning::Ask,
        ),
        (
            HeldRow {
                maybe_sent: true,
                expired: true,
                ..row()
            },
            Beginning::Ask,
        ),
        (
            HeldRow {
                maybe_sent: true,
                lost_leases: CRASHED_AT - 1,
                ..row()
            },
            Beginning::Ask,
        ),
    ];
    for (row, expected) in cases {
        assert_eq!(POLICY.begin(&row), expected, "{row:?}");
    }
}

#[test]
fn a_row_without_budget_ends_with_its_reason() {
    let ends = [
        (MAX_ATTEMPTS, false, 0, Reason::AttemptsExhausted),
        (i32::MAX, false, 0, Reason::AttemptsExhausted),
        (0, true, 0, Reason::Expired),
        (i32::MAX, true, 0, Reason::Expired),
        (0, false, CRASHED_AT, Reason::Crashed),
        (i32::MAX, true, i32::MAX, Reason::Crashed),
    ];
    for (attempts, expired, lost_leases, reason) in ends {
        let row = HeldRow {
            attempts,
            expired,
            lost_leases,
            ..row()
        };
        let settlement = end(&row);
        assert_eq!(settlement.status, Status::Failed, "{row:?}");
        assert_eq!(settlement.reason, Some(reason), "{row:?}");
        assert_eq!(settlement.attempts, attempts, "nothing was asked: {row:?}");
        assert!(!settlement.maybe_sent, "{row:?}");
        assert!(settlement.last_error.is_some(), "{row:?}");
    }
}

#[test]
fn a_crashing_row_keeps_its_mark_for_the_one_who_replays_it() {
    let row = HeldRow {
        lost_leases: CRASHED_AT,
        maybe_sent: true,
        ..row()
    };
    assert!(end(&row).maybe_sent);
}

#[test]
fn each_outcome_of_a_send_has_its_settlement() {
    // outcome, status, reason, attempts, deferrals, maybe_sent, history
    let cases = [
        (accepted(), Status::Sent, None, 4, 2, false),
        (
            rejected(),
            Status::Failed,
            Some(Reason::RecipientUnreachable),
            4,
            2,
            false,
        ),
        (deferred(), Status::Pending, None, 3, 3, false),
        (misconfigured(), Status::Pending, None, 3, 3, false),
        (unknown(), Status::Pending, None, 4, 2, true),
    ];
    let row = HeldRow {
        attempts: 3,
        deferrals: 2,
        replays: 1,
        ..row()
    };
    for (outcome, status, reason, attempts, deferrals, maybe_sent) in cases {
        let label = outcome.label();
        let settlement = POLICY.after_send(&row, outcome, false, TIMING);
        assert_eq!(settlement.id, row.id.0, "{label}");
        assert_eq!(settlement.epoch, row.epoch, "{label}");
        assert_eq!(settlement.replays, row.replays, "{label}");
        assert_eq!(settlement.status, status, "{label}");
        assert_eq!(settlement.reason, reason, "{label}");
        assert_eq!(settlement.attempts, attempts, "{label}");
        assert_eq!(settlement.deferrals, deferrals, "{label}");
        assert_eq!(settlement.maybe_sent, maybe_sent, "{label}");
        let history = settlement.history.expect(label);
        assert_eq!(history.outcome.as_str(), label);
        assert_eq!(history.attempt, attempts, "{label}");
        assert_eq!(history.started_ago, TIMING.began_ago, "{label}");
        let is_accepted = status == Status::Sent;
        assert_eq!(settlement.last_error.is_some(), !is_accepted, "{label}");
        assert_eq!(settlement.delay.is_zero(), status != Status::Pending);
        let message_id = is_accepted.then(|| "m-1".to_owned());
        assert_eq!(settlement.provider_message_id, message_id, "{label}");
        assert_eq!(history.provider_message_id, message_id, "{label}");
    }
}

#[test]
fn only_an_answer_clears_the_mark() {
    // outcome, mark when nobody could be asked, mark when the provider never saw it
    let cases = [
        (accepted(), false, false),
        (rejected(), true, false),
        (deferred(), true, false),
        (misconfigured(), true, false),
        (unknown(), true, true),
    ];
    let row = HeldRow {
        maybe_sent: true,
        ..row()
    };
    for (outcome, unasked, never_seen) in cases {
        for (known_unsent, mark) in [(false, unasked), (true, never_seen)] {
            let settlement = POLICY.after_send(&row, outcome.clone(), known_unsent, TIMING);
            let label = outcome.label();
            assert_eq!(settlement.maybe_sent, mark, "{label}, {known_unsent}");
        }
    }
}

#[test]
fn a_rejection_names_its_kind() {
    for (kind, reason) in [
        (RejectReason::Rejected, Reason::Rejected),
        (
            RejectReason::RecipientUnreachable,
            Reason::RecipientUnreachable,
        ),
        (RejectReason::RecipientOptedOut, Reason::RecipientOptedOut),
    ] {
        let outcome = Outcome::Rejected {
            reason: kind,
            answer: answer(),
        };
        let settlement = POLICY.after_send(&row(), outcome, false, TIMING);
        assert_eq!(settlement.reason, Some(reason));
    }
}

#[test]
fn only_a_plain_first_success_leaves_no_history() {
    let first = POLICY.after_send(&row(), accepted(), false, TIMING);
    assert_eq!(first.history, None);
    for row in [
        HeldRow {
            attempts: 1,
            ..row()
        },
        HeldRow {
            deferrals: 1,
            ..row()
        },
        HeldRow {
            replays: 1,
            ..row()
        },
        HeldRow {
            maybe_sent: true,
            ..row()
        },
    ] {
        let settlement = POLICY.after_send(&row, accepted(), false, TIMING);
        assert!(settlement.history.is_some(), "{row:?}");
    }
}

#[test]
fn an_unknown_row_is_not_due_before_the_provider_must_have_answered() {
    for began_ago in [0, 1, 9, 10, 60].map(Duration::from_secs) {
        let timing = Timing {
            began_ago,
            jitter: 0.0,
        };
        let settlement = POLICY.after_send(&row(), unknown(), false, timing);
        assert!(
            began_ago + settlement.delay >= PROVIDER_TIMEOUT,
            "begun {began_ago:?} ago, due in {:?}",
            settlement.delay
        );
    }
}

#[test]
fn waits_grow_with_every_try_and_never_overflow() {
    let wait = |attempts: i32, deferrals: i32| {
        let row = HeldRow {
            attempts,
            deferrals,
            ..row()
        };
        POLICY.after_send(&row, deferred(), false, TIMING)
    };
    assert_eq!(wait(0, 0).delay, Duration::from_secs(1));
    assert_eq!(wait(1, 1).delay, Duration::from_secs(4));
    for tries in [63, 64, i32::MAX - 1, i32::MAX] {
        assert_eq!(wait(tries, 0).delay, POLICY.backoff.max, "{tries} attempts");
        assert_eq!(wait(0, tries).delay, POLICY.backoff.max, "{tries} waits");
        assert_eq!(wait(tries, tries).delay, POLICY.backoff.max, "{tries} both");
    }
    assert_eq!(wait(0, i32::MAX).deferrals, i32::MAX);
    for (attempts, after) in [(63, 64), (64, 65), (i32::MAX, i32::MAX)] {
        let row = HeldRow { attempts, ..row() };
        for outcome in [accepted(), rejected(), unknown()] {
            let settlement = POLICY.after_send(&row, outcome, false, TIMING);
            assert_eq!(settlement.attempts, after);
        }
    }
}

#[test]
fn a_providers_wish_is_a_floor_and_has_a_cap() {
    let hint = |seconds| Some(Duration::from_secs(seconds));
    for (retry_after, least, most) in [(hint(30), 30, 38), (hint(86_400), 600, 750)] {
        for outcome in [
            Outcome::Deferred {
                retry_after,
                answer: answer(),
            },
            Outcome::Unknown {
                retry_after,
                answer: answer(),
            },
        ] {
            let delay = POLICY.after_send(&row(), outcome, false, TIMING).delay;
            let bounds = Duration::from_secs(least)..=Duration::from_secs(most);
            assert!(bounds.contains(&delay), "{retry_after:?}: {delay:?}");
        }
    }
}

#[test]
fn an_unreadable_row_fails_visibly_and_keeps_its_mark() {
    for maybe_sent in [false, true] {
        let row = HeldRow {
            maybe_sent,
            ..row()
        };
        let settlement = POLICY.unreadable(&row, "cannot be read".to_owned());
        assert_eq!(settlement.status, Status::Failed);
        assert_eq!(settlement.reason, Some(Reason::Unreadable));
        assert_eq!(settlement.maybe_sent, maybe_sent);
    }
}
