//! What follows when the provider was asked about an earlier request.

use super::*;

fn found() -> LookUp {
    LookUp::Found {
        provider_message_id: Some("m-1".to_owned()),
    }
}

fn failed_look_up() -> LookUp {
    LookUp::Failed { answer: answer() }
}

/// The settlement of a look-up that ends in one.
fn settled(row: &HeldRow, found: LookUp) -> Settlement {
    match POLICY.after_look_up(row, found.clone(), TIMING) {
        AfterLookUp::Settle(settlement) => *settlement,
        AfterLookUp::Send { .. } => panic!("{found:?} lets {row:?} be sent"),
    }
}

#[test]
fn a_look_up_decides_by_what_it_found_and_what_is_left() {
    let fresh = HeldRow {
        maybe_sent: true,
        attempts: 3,
        ..row()
    };
    let known_unsent = POLICY.after_look_up(&fresh, LookUp::NeverSeen, TIMING);
    assert_eq!(known_unsent, AfterLookUp::Send { known_unsent: true });
    let unasked = POLICY.after_look_up(&fresh, LookUp::Unsupported, TIMING);
    assert_eq!(
        unasked,
        AfterLookUp::Send {
            known_unsent: false
        }
    );
    let unanswered = settled(&fresh, failed_look_up());
    assert_eq!(unanswered.status, Status::Pending);
    assert_eq!(unanswered.attempts, 4, "a failed question costs an attempt");
    assert!(unanswered.maybe_sent, "and keeps the mark");
    assert!(!unanswered.delay.is_zero());
}

#[test]
fn what_is_found_is_sent_whatever_is_left_of_the_budget() {
    for (attempts, expired) in [(3, false), (MAX_ATTEMPTS, false), (3, true)] {
        let row = HeldRow {
            maybe_sent: true,
            attempts,
            expired,
            ..row()
        };
        let settlement = settled(&row, found());
        assert_eq!(settlement.status, Status::Sent);
        assert_eq!(settlement.attempts, attempts, "a question is no request");
        assert!(!settlement.maybe_sent);
        assert_eq!(settlement.provider_message_id.as_deref(), Some("m-1"));
        let history = settlement.history.expect("it was not a first try");
        assert_eq!(history.outcome, Happening::FoundOnLookup);
    }
}

#[test]
fn the_last_question_decides_how_a_row_without_budget_ends() {
    // attempts, expired, look-up, reason, attempts after it, mark
    let cases = [
        (
            MAX_ATTEMPTS,
            false,
            LookUp::NeverSeen,
            Reason::AttemptsExhausted,
            MAX_ATTEMPTS,
            false,
        ),
        (3, true, LookUp::NeverSeen, Reason::Expired, 3, false),
        (
            3,
            true,
            LookUp::Unsupported,
            Reason::OutcomeUnknown,
            3,
            true,
        ),
        (
            MAX_ATTEMPTS,
            false,
            failed_look_up(),
            Reason::OutcomeUnknown,
            MAX_ATTEMPTS + 1,
            true,
        ),
        (
            i32::MAX,
            true,
            failed_look_up(),
            Reason::OutcomeUnknown,
            i32::MAX,
            true,
        ),
    ];
    for (attempts, expired, look_up, reason, attempts_after, mark) in cases {
        let row = HeldRow {
            maybe_sent: true,
            attempts,
            expired,
            ..row()
        };
        let settlement = settled(&row, look_up);
        assert_eq!(settlement.status, Status::Failed, "{row:?}");
        assert_eq!(settlement.reason, Some(reason), "{row:?}");
        assert_eq!(settlement.attempts, attempts_after, "{row:?}");
        assert_eq!(settlement.maybe_sent, mark, "{row:?}");
    }
}

/// The last request of the budget went unanswered: the row comes back, to be asked about.
#[test]
fn an_unknown_last_attempt_is_asked_about_before_it_ends() {
    let last = HeldRow {
        attempts: MAX_ATTEMPTS - 1,
        ..row()
    };
    let settlement = POLICY.after_send(&last, unknown(), false, TIMING);
    assert_eq!(settlement.status, Status::Pending);
    let again = HeldRow {
        attempts: settlement.attempts,
        maybe_sent: settlement.maybe_sent,
        ..row()
    };
    assert_eq!(POLICY.begin(&again), Beginning::Ask);
    let failed = settled(&again, failed_look_up());
    assert_eq!(failed.reason, Some(Reason::OutcomeUnknown));
}
