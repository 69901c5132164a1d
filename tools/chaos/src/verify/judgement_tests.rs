//! The judgement sees what is wrong, and nothing where nothing is.

use super::super::evidence::{Entry, Shown, ShownNotification, Stats};
use super::*;
use crate::client::{Paid, Promised};

const SMS: &str = "sms-1";
const PUSH: &str = "push-1";

fn at(ms: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::milliseconds(ms)
}

fn rules(stalls: bool) -> Rules {
    Rules {
        stalls,
        leases_end_early: false,
        clouds: true,
        healed: at(5000),
        accepts_within: None,
        latest: None,
    }
}

/// One payment, answered at 1 s; its SMS received at 2 s, its push at 6 s.
fn good() -> Evidence {
    let promised = |id: &str, channel: &str| Promised {
        id: id.to_owned(),
        channel: channel.to_owned(),
    };
    let shown = Shown {
        id: "payment-1".to_owned(),
        notifications: [SMS, PUSH].map(sent).to_vec(),
    };
    Evidence {
        paid: vec![Paid {
            order_id: "order-1".to_owned(),
            payment_id: "payment-1".to_owned(),
            notifications: vec![promised(SMS, "sms"), promised(PUSH, "fcm")],
            answered_at: at(1000),
        }],
        received: [(SMS, 2000), (PUSH, 6000)]
            .map(|(id, ms)| (id.to_owned(), vec![at(ms)]))
            .into(),
        of_order: [("order-1".to_owned(), vec![shown.clone()])].into(),
        by_id: [("payment-1".to_owned(), shown)].into(),
        stats: Stats {
            by_status: [("SENT".to_owned(), 2), ("PENDING".to_owned(), 0)].into(),
            recorded: 2,
            purged: 0,
        },
        ..Evidence::default()
    }
}

fn sent(id: &str) -> ShownNotification {
    ShownNotification {
        id: id.to_owned(),
        status: "SENT".to_owned(),
    }
}

fn row(history: &[(i64, &str)]) -> Row {
    let entry = |(epoch, outcome): &(i64, &str)| Entry {
        epoch: *epoch,
        outcome: (*outcome).to_owned(),
    };
    Row {
        status: "SENT".to_owned(),
        reason: None,
        attempts: 1,
        deferrals: 0,
        history: history.iter().map(entry).collect(),
    }
}

/// Received at 2 s and again at this time, with this history.
fn repeated(id: &str, again: i64, history: &[(i64, &str)]) -> Evidence {
    let mut evidence = good();
    evidence
        .received
        .insert(id.to_owned(), vec![at(2000), at(again)]);
    evidence.rows.insert(id.to_owned(), row(history));
    evidence
}

#[test]
fn nothing_wrong() {
    let judgement = judge(&good(), rules(false));
    assert!(judgement.is_good(), "{judgement:?}");
    assert_eq!(judgement.payments, 1);
}

#[test]
fn times_run_from_the_end_of_the_fault() {
    let mut evidence = good();
    let later = Paid {
        answered_at: at(5400),
        notifications: Vec::new(),
        ..evidence.paid[0].clone()
    };
    evidence.paid.push(later);
    let judgement = judge(&evidence, rules(false));
    assert!((judgement.recovered_s - 1.0).abs() < 1e-9, "{judgement:?}");
    assert_eq!(judgement.accepting_s, Some(0.4));
    assert!((judgement.slowest_s - 5.0).abs() < 1e-9, "{judgement:?}");
}

#[test]
fn a_lost_one() {
    let mut evidence = good();
    evidence.received.remove(SMS);
    let judgement = judge(&evidence, rules(true));
    assert_eq!(judgement.lost, ["sms sms-1"]);
    assert!(!judgement.is_good());
}

#[test]
fn a_doubled_sms_has_no_excuse_where_nothing_stalls() {
    for history in [&[(2, "accepted")][..], &[(1, "unknown"), (2, "accepted")]] {
        let judgement = judge(&repeated(SMS, 9000, history), rules(false));
        assert_eq!(judgement.duplicated.len(), 1, "{judgement:?}");
        assert!(!judgement.is_good());
    }
}

#[test]
fn a_doubled_sms_of_a_stall_needs_a_lost_holder() {
    let lost = judge(&repeated(SMS, 2001, &[(2, "accepted")]), rules(true));
    assert_eq!(lost.stalled.len(), 1, "{lost:?}");
    assert!(lost.is_good());
    for history in [&[][..], &[(1, "accepted")], &[(1, "unknown")]] {
        let none = judge(&repeated(SMS, 2001, history), rules(true));
        assert_eq!(none.duplicated.len(), 1, "{history:?}: {none:?}");
    }
}

#[test]
fn a_doubled_push_needs_an_unknown_outcome_or_a_lost_holder() {
    for history in [
        &[(1, "unknown")][..],
        &[(2, "accepted")],
        &[(1, "lease_lost")],
    ] {
        let explained = judge(&repeated(PUSH, 9000, history), rules(false));
        assert_eq!(explained.unaskable.len(), 1, "{history:?}: {explained:?}");
        assert_eq!(explained.unaskable[0].times, 2);
        assert!(explained.is_good());
    }
    for history in [&[][..], &[(1, "accepted")], &[(1, "deferred")]] {
        let bad = judge(&repeated(PUSH, 9000, history), rules(false));
        assert_eq!(bad.duplicated.len(), 1, "{history:?}: {bad:?}");
    }
}

#[test]
fn a_dead_holders_push_is_not_sent_again_before_its_lease_ends() {
    let early = repeated(PUSH, 2100, &[(2, "accepted")]);
    let judgement = judge(&early, rules(false));
    assert_eq!(judgement.duplicated.len(), 1, "{judgement:?}");
    let clock_set_forward = Rules {
        leases_end_early: true,
        ..rules(false)
    };
    assert_eq!(judge(&early, clock_set_forward).unaskable.len(), 1);
}

#[test]
fn where_nothing_fails_nothing_is_excused() {
    let clear = Rules {
        clouds: false,
        ..rules(false)
    };
    for history in [&[(1, "unknown")][..], &[(2, "accepted")]] {
        let judgement = judge(&repeated(PUSH, 9000, history), clear);
        assert_eq!(judgement.duplicated.len(), 1, "{judgement:?}");
    }
}

#[test]
fn a_repeat_whose_row_is_not_there_has_no_excuse() {
    let mut evidence = repeated(PUSH, 9000, &[]);
    evidence.rows.clear();
    assert_eq!(judge(&evidence, rules(true)).duplicated.len(), 1);
}

#[test]
fn a_stuck_one() {
    let mut evidence = good();
    let pending = ShownNotification {
        status: "PENDING".to_owned(),
        ..sent(SMS)
    };
    if let Some(shown) = evidence.by_id.get_mut("payment-1") {
        shown.notifications[0] = pending;
    }
    let judgement = judge(&evidence, rules(false));
    assert_eq!(judgement.stuck, ["sms-1 is PENDING (no reason)"]);
    assert!(!judgement.is_good());
}

/// Makes something wrong.
type Spoil = fn(&mut Evidence);

#[test]
fn whatever_else_is_wrong() {
    let cases: [(&str, Spoil); 8] = [
        ("recorded", |e| e.stats.recorded = 3),
        ("recorded; there are", |e| e.stats.purged = 1),
        ("promised", |e| e.paid[0].notifications.truncate(1)),
        ("is there as []", |e| e.of_order.clear()),
        ("is there as", |e| {
            let twice = e.of_order["order-1"][0].clone();
            e.of_order
                .entry("order-1".to_owned())
                .or_default()
                .push(twice);
        }),
        ("is not there", |e| e.by_id.clear()),
        ("never promised", |e| {
            e.received.insert("made-up".to_owned(), vec![at(1)]);
        }),
        ("paybell check", |e| {
            e.check = Some("row 1 is odd".to_owned())
        }),
    ];
    for (says, spoil) in cases {
        let mut evidence = good();
        spoil(&mut evidence);
        let judgement = judge(&evidence, rules(false));
        let told = judgement.wrong.iter().any(|wrong| wrong.contains(says));
        assert!(told, "{says}: {judgement:?}");
        assert!(!judgement.is_good());
    }
}

#[test]
fn what_takes_too_long_is_wrong() {
    let within = |accepts: Option<u64>, latest: Option<u64>| {
        let mut evidence = good();
        let mut second = evidence.paid[0].clone();
        second.answered_at = at(8000);
        second.notifications.clear();
        evidence.paid.push(second);
        let rules = Rules {
            accepts_within: accepts.map(Duration::from_secs),
            latest: latest.map(Duration::from_secs),
            ..rules(false)
        };
        let mut judgement = Judgement::default();
        times(&evidence, rules.healed, &mut judgement);
        limits(rules, &mut judgement);
        judgement.wrong
    };
    assert!(within(Some(3), Some(5)).is_empty());
    assert_eq!(
        within(Some(2), None),
        ["no payment accepted for 3.0 s after the fault"]
    );
    assert_eq!(
        within(None, Some(4)),
        ["a notification came 5.0 s after its 201"]
    );
}
