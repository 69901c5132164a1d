//! The states of a notification, and why it may end badly.

use std::fmt;

/// Where a notification stands. `PENDING` → `SENT`, `FAILED` or `CANCELED`; a replay takes the last
/// two back to `PENDING`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Waiting: for its holder, for its retry, or for a channel that is not configured.
    Pending,
    /// Accepted by the provider.
    Sent,
    /// A dead letter: visible, with a reason, and replayable.
    Failed,
    /// Stopped by an operator.
    Canceled,
}

impl Status {
    /// Every status, in the order of a notification's life.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Sent, Self::Failed, Self::Canceled];

    /// Every status that an acceptance can end.
    pub const UNSENT: [Self; 3] = [Self::Pending, Self::Failed, Self::Canceled];

    /// The name in JSON, in the database and in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Sent => "SENT",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
        }
    }

    /// Reads a stored or typed name; `None` for one that this version does not know.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a notification is `FAILED`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The provider refused the message for good.
    Rejected,
    /// The recipient does not exist any more.
    RecipientUnreachable,
    /// The recipient asked not to be written to.
    RecipientOptedOut,
    /// Every allowed attempt was answered badly.
    AttemptsExhausted,
    /// The give-up time passed.
    Expired,
    /// A request went out, and nobody can say what became of it.
    OutcomeUnknown,
    /// This version cannot read the row.
    Unreadable,
    /// The process died every time it held the row.
    Crashed,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::Rejected,
        Self::RecipientUnreachable,
        Self::RecipientOptedOut,
        Self::AttemptsExhausted,
        Self::Expired,
        Self::OutcomeUnknown,
        Self::Unreadable,
        Self::Crashed,
    ];

    /// The name in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::RecipientUnreachable => "recipient_unreachable",
            Self::RecipientOptedOut => "recipient_opted_out",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::Expired => "expired",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Unreadable => "unreadable",
            Self::Crashed => "crashed",
        }
    }
}

/// One kind of entry in a notification's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Happening {
    /// The provider took the message.
    Accepted,
    /// The provider refused it for good.
    Rejected,
    /// Provably not processed; one entry a row, counted up.
    Deferred,
    /// The request went out and was not answered, or a question about it was not.
    Unknown,
    /// Our own set-up was refused.
    Misconfigured,
    /// The provider knew an earlier request.
    FoundOnLookup,
    /// Another instance took the row over.
    LeaseLost,
    /// An operator sent it back to `PENDING`.
    Replayed,
    /// An operator stopped it.
    Canceled,
}

impl Happening {
    /// The name in JSON and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Deferred => "deferred",
            Self::Unknown => "unknown",
            Self::Misconfigured => "misconfigured",
            Self::FoundOnLookup => "found_on_lookup",
            Self::LeaseLost => "lease_lost",
            Self::Replayed => "replayed",
            Self::Canceled => "canceled",
        }
    }
}
