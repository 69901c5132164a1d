//! What must hold of every row, as data: what is wrong, and the rows of which it is true.

/// A rule about one row of a table.
pub(super) struct Rule {
    /// What is wrong with a row that it finds.
    pub(super) wrong: &'static str,
    /// SQL that is true of such a row, the same on both databases.
    pub(super) found_by: &'static str,
}

const fn rule(wrong: &'static str, found_by: &'static str) -> Rule {
    Rule { wrong, found_by }
}

/// Faults of outbox rows. Their names are those of [`crate::payment::Status`] and
/// [`crate::payment::Reason`]; a test compares them.
pub(super) const OUTBOX: &[Rule] = &[
    rule(
        "its status is unknown to this version, so nothing touches it",
        "status NOT IN ('PENDING', 'SENT', 'FAILED', 'CANCELED')",
    ),
    rule(
        "SENT without the time of it",
        "status = 'SENT' AND sent_at IS NULL",
    ),
    rule(
        "SENT, and marked as if that were not known",
        "status = 'SENT' AND maybe_sent",
    ),
    rule(
        "ended, and still held by an instance",
        "status IN ('SENT', 'FAILED') AND claimed_by IS NOT NULL",
    ),
    rule(
        "ended, and waiting for another try",
        "status IN ('SENT', 'FAILED', 'CANCELED') AND next_retry_at IS NOT NULL",
    ),
    rule(
        "FAILED without a reason that this version knows",
        "status = 'FAILED' AND (reason IS NULL OR reason NOT IN ('rejected', \
         'recipient_unreachable', 'recipient_opted_out', 'attempts_exhausted', 'expired', \
         'outcome_unknown', 'unreadable', 'crashed'))",
    ),
    rule(
        "a reason to fail, and not FAILED",
        "status IN ('PENDING', 'SENT', 'CANCELED') AND reason IS NOT NULL",
    ),
    rule(
        "a time of sending, and not SENT",
        "status IN ('PENDING', 'FAILED', 'CANCELED') AND sent_at IS NOT NULL",
    ),
    rule(
        "due before its own retry",
        "status = 'PENDING' AND claimed_by IS NULL AND next_retry_at > processable_after",
    ),
    rule(
        "held, and never claimed",
        "claimed_by IS NOT NULL AND epoch < 1",
    ),
    rule(
        "a counter below zero",
        "attempts < 0 OR deferrals < 0 OR lost_leases < 0 OR replays < 0 OR epoch < 0",
    ),
    rule(
        "its history is of a later lease than its own",
        "EXISTS (SELECT 1 FROM attempts a WHERE a.outbox_id = outbox.id AND a.epoch > outbox.epoch)",
    ),
    rule(
        "accepted by its history, and not SENT",
        "status IN ('PENDING', 'FAILED') AND EXISTS (SELECT 1 FROM attempts a \
         WHERE a.outbox_id = outbox.id AND a.outcome IN ('accepted', 'found_on_lookup') \
         AND NOT EXISTS (SELECT 1 FROM attempts r WHERE r.outbox_id = outbox.id \
                         AND r.outcome = 'replayed' AND r.epoch > a.epoch))",
    ),
    rule(
        "it belongs to no payment",
        "NOT EXISTS (SELECT 1 FROM payments WHERE payments.id = outbox.payment_id)",
    ),
    rule(
        "nobody to send it to",
        "status = 'PENDING' AND recipient = ''",
    ),
];

/// What is no fault and worth knowing.
pub(super) const NOTES: &[Rule] = &[
    rule(
        "written by a newer version, which has to deliver it",
        "status = 'PENDING' AND payload_version > 1",
    ),
    rule(
        "waiting for a channel that this version does not know: the next sweep fails it",
        "status = 'PENDING' AND payload_version <= 1 AND channel NOT IN ('sms', 'fcm')",
    ),
];

/// Faults of payments.
pub(super) const PAYMENTS: &[Rule] = &[
    rule(
        "it has more notifications than were recorded with it",
        "notification_count < (SELECT count(*) FROM outbox WHERE outbox.payment_id = payments.id)",
    ),
    rule("its amount is not above zero", "amount < 1"),
    rule(
        "it has no stored answer for a repeat",
        "length(response) = 0",
    ),
    rule(
        "an idempotency key without the request that it stands for, or the reverse",
        "(idempotency_key IS NULL) <> (fingerprint IS NULL)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payment::{Channel, PAYLOAD_VERSION, Reason, Status};

    /// Whether the SQL of some rule lists exactly these names.
    fn is_listed(rules: &[Rule], names: &[&str]) -> bool {
        let list = format!("NOT IN ('{}')", names.join("', '"));
        rules.iter().any(|rule| rule.found_by.contains(&list))
    }

    #[test]
    fn the_names_are_those_of_the_program() {
        assert!(is_listed(OUTBOX, &Status::ALL.map(Status::as_str)));
        assert!(is_listed(OUTBOX, &Reason::ALL.map(Reason::as_str)));
        assert!(is_listed(NOTES, &Channel::ALL.map(Channel::as_str)));
        let newer = format!("payload_version > {PAYLOAD_VERSION}");
        assert!(NOTES.iter().any(|note| note.found_by.contains(&newer)));
    }
}
