//! The judgement: pure, so that it can be shown to see what is wrong.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::evidence::{Evidence, Row};

/// A dead holder's row is taken by nobody before its lease ends, which is at least so long after
/// its request: the rest of a lease that a request needs.
const LEAST_WAIT: TimeDelta = TimeDelta::milliseconds(1500);

/// What a fault excuses.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// A process may have been stopped between its last look at the lease and its write.
    pub stalls: bool,
    /// A clock that is set forward may end the lease of a dead holder early.
    pub leases_end_early: bool,
    /// An outcome may be unknown.
    pub clouds: bool,
    /// When the fault was over.
    pub healed: DateTime<Utc>,
    /// Within what time of that a payment must be answered 201.
    pub accepts_within: Option<Duration>,
    /// How long after its 201 a notification may be received at the latest.
    pub latest: Option<Duration>,
}

/// A repeat and why it was not to be avoided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The notification.
    pub id: String,
    /// `sms` or `fcm`.
    pub channel: String,
    /// How often it was received.
    pub times: usize,
    /// What the row's history says.
    pub why: String,
}

/// What became of a run.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Judgement {
    /// Payments answered 201.
    pub payments: usize,
    /// Promised, and never received.
    pub lost: Vec<String>,
    /// Received more than once without an excuse.
    pub duplicated: Vec<String>,
    /// Repeated because the outcome was unknown and the provider cannot be asked.
    pub unaskable: Vec<Explained>,
    /// Repeated by a process that was stopped between its last look and its write.
    pub stalled: Vec<Explained>,
    /// Not SENT in the end, with the status.
    pub stuck: Vec<String>,
    /// Whatever else is wrong.
    pub wrong: Vec<String>,
    /// From the end of the fault until the last notification that was owed then was received.
    pub recovered_s: f64,
    /// The longest time from a 201 to the first receipt of a notification of that payment.
    pub slowest_s: f64,
    /// From the end of the fault until the next payment was answered 201.
    pub accepting_s: Option<f64>,
}

impl Judgement {
    /// Whether the promise was kept.
    pub fn is_good(&self) -> bool {
        self.lost.is_empty()
            && self.duplicated.is_empty()
            && self.stuck.is_empty()
            && self.wrong.is_empty()
    }
}

/// Judges a run.
pub fn judge(evidence: &Evidence, rules: Rules) -> Judgement {
    let mut judgement = Judgement {
        payments: evidence.paid.len(),
        ..Judgement::default()
    };
    payments(evidence, &mut judgement);
    notifications(evidence, rules, &mut judgement);
    balance(evidence, &mut judgement);
    times(evidence, rules.healed, &mut judgement);
    limits(rules, &mut judgement);
    if let Some(found) = &evidence.check {
        judgement.wrong.push(format!("paybell check: {found}"));
    }
    judgement
}

/// Every payment answered 201 is there once, as it was answered.
fn payments(evidence: &Evidence, judgement: &mut Judgement) {
    for paid in &evidence.paid {
        let order = &paid.order_id;
        let there = evidence.of_order.get(order).map_or(&[][..], Vec::as_slice);
        let ids: Vec<&str> = there.iter().map(|shown| shown.id.as_str()).collect();
        if ids != [paid.payment_id.as_str()] {
            let text = format!(
                "{order} was answered {}, and is there as {ids:?}",
                paid.payment_id
            );
            judgement.wrong.push(text);
        }
        let Some(shown) = evidence.by_id.get(&paid.payment_id) else {
            judgement.wrong.push(format!(
                "payment {} of {order} is not there",
                paid.payment_id
            ));
            continue;
        };
        let shown: HashSet<&String> = shown.notifications.iter().map(|one| &one.id).collect();
        let promised: HashSet<&String> = paid.notifications.iter().map(|one| &one.id).collect();
        if shown != promised {
            judgement.wrong.push(format!(
                "{order} has other notifications than it was answered"
            ));
        }
    }
    let statuses = evidence
        .by_id
        .values()
        .flat_map(|shown| &shown.notifications);
    for one in statuses.filter(|one| one.status != "SENT") {
        let reason = evidence
            .rows
            .get(&one.id)
            .and_then(|row| row.reason.as_deref());
        let reason = reason.unwrap_or("no reason");
        judgement
            .stuck
            .push(format!("{} is {} ({reason})", one.id, one.status));
    }
}

/// Each was received, and once.
fn notifications(evidence: &Evidence, rules: Rules, judgement: &mut Judgement) {
    let mut promised = HashSet::new();
    for one in evidence.paid.iter().flat_map(|paid| &paid.notifications) {
        promised.insert(&one.id);
        let receipts = evidence
            .received
            .get(&one.id)
            .map_or(&[][..], Vec::as_slice);
        if receipts.is_empty() {
            judgement.lost.push(format!("{} {}", one.channel, one.id));
        } else if receipts.len() > 1 {
            let row = evidence.rows.get(&one.id);
            let why = row.and_then(|row| excuse(row, &one.channel, receipts, rules));
            let explained = why.map(|why| Explained {
                id: one.id.clone(),
                channel: one.channel.clone(),
                times: receipts.len(),
                why,
            });
            match explained {
                Some(explained) if one.channel == "sms" => judgement.stalled.push(explained),
                Some(explained) => judgement.unaskable.push(explained),
                None => judgement.duplicated.push(format!(
                    "{} {} was received {} times: {}",
                    one.channel,
                    one.id,
                    receipts.len(),
                    row.map_or_else(|| "no row".to_owned(), story)
                )),
            }
        }
    }
    for id in evidence.received.keys().filter(|id| !promised.contains(id)) {
        judgement
            .wrong
            .push(format!("{id} was received and never promised"));
    }
}

/// Why a repeat was not to be avoided, from the row's history.
fn excuse(row: &Row, channel: &str, receipts: &[DateTime<Utc>], rules: Rules) -> Option<String> {
    let possible = match channel {
        "sms" => rules.stalls, // This provider is asked first.
        _ => rules.clouds,
    };
    if !possible {
        return None;
    }
    let has = |outcome: &str| row.history.iter().any(|entry| entry.outcome == outcome);
    let unknown = channel != "sms" && has("unknown");
    let waited = receipts.windows(2).all(|two| two[1] - two[0] >= LEAST_WAIT);
    let at_any_time = rules.stalls || rules.leases_end_early;
    let holder_lost = (at_any_time || waited) && (has("lease_lost") || left_no_outcome(row));
    let why = match (unknown, holder_lost) {
        (true, _) => "a request went unanswered",
        (false, true) => "a holder was lost with its request",
        (false, false) => return None,
    };
    Some(format!("{why}: {}", story(row)))
}

/// Whether there was a lease that nothing is known of: each outcome takes one.
fn left_no_outcome(row: &Row) -> bool {
    let leases = row.history.iter().map(|entry| entry.epoch).max();
    leases.unwrap_or(0) > row.attempts + row.deferrals
}

fn story(row: &Row) -> String {
    let mut story = format!("{}, {} attempts", row.status, row.attempts);
    for entry in &row.history {
        story.push_str(&format!(", {} in lease {}", entry.outcome, entry.epoch));
    }
    story
}

/// Recorded = sent + failed + canceled + pending + purged, and as many as the client knows of.
fn balance(evidence: &Evidence, judgement: &mut Judgement) {
    let stats = &evidence.stats;
    let by_status: BTreeMap<&String, &i64> = stats.by_status.iter().collect();
    let there: i64 = by_status.values().copied().sum();
    if stats.recorded != there + stats.purged {
        judgement.wrong.push(format!(
            "{} rows were recorded; there are {by_status:?} and {} purged",
            stats.recorded, stats.purged
        ));
    }
    let promised: usize = evidence
        .paid
        .iter()
        .map(|paid| paid.notifications.len())
        .sum();
    if i64::try_from(promised) != Ok(stats.recorded) {
        let text = format!(
            "{promised} notifications were promised, {} recorded",
            stats.recorded
        );
        judgement.wrong.push(text);
    }
}

fn times(evidence: &Evidence, healed: DateTime<Utc>, judgement: &mut Judgement) {
    let owed = evidence
        .paid
        .iter()
        .filter(|paid| paid.answered_at <= healed);
    let owed = owed.flat_map(|paid| &paid.notifications);
    let first = owed.filter_map(|one| evidence.received.get(&one.id)?.first());
    let last = first.max().map_or(0.0, |last| seconds(*last - healed));
    judgement.recovered_s = last.max(0.0);
    let waits = evidence.paid.iter().flat_map(|paid| {
        let each = paid.notifications.iter();
        let firsts = each.filter_map(|one| evidence.received.get(&one.id)?.first());
        firsts.map(|first| seconds(*first - paid.answered_at))
    });
    judgement.slowest_s = waits.fold(0.0, f64::max);
    let answers = evidence.paid.iter().map(|paid| paid.answered_at);
    let next = answers.filter(|at| *at > healed).min();
    judgement.accepting_s = next.map(|at| seconds(at - healed));
}

/// Nothing took longer than the fault allows.
fn limits(rules: Rules, judgement: &mut Judgement) {
    if let Some(within) = rules.accepts_within {
        match judgement.accepting_s {
            Some(after) if after <= within.as_secs_f64() => {}
            Some(after) => judgement.wrong.push(format!(
                "no payment accepted for {after:.1} s after the fault"
            )),
            None => judgement
                .wrong
                .push("no payment accepted after the fault".to_owned()),
        }
    }
    if let Some(latest) = rules.latest
        && judgement.slowest_s > latest.as_secs_f64()
    {
        let slowest = judgement.slowest_s;
        judgement
            .wrong
            .push(format!("a notification came {slowest:.1} s after its 201"));
    }
}

fn seconds(time: TimeDelta) -> f64 {
    time.as_seconds_f64()
}

#[cfg(test)]
#[path = "judgement_tests.rs"]
mod tests;
