//! What the outcome tables of the dialects are made of.

use std::ops::RangeInclusive;

use crate::provider::client::Reply;
use crate::provider::redact::Redactor;
use crate::provider::{Outcome, RejectReason};

/// What an answer means for the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Refused for good.
    Rejected(RejectReason),
    /// Provably not processed, and not for good.
    Deferred,
    /// Ours to mend.
    Misconfigured,
    /// May have been processed.
    Unknown,
}

/// The message or its form was refused.
pub const REFUSED: Meaning = Meaning::Rejected(RejectReason::Rejected);

/// The recipient does not want to be written to.
pub const OPTED_OUT: Meaning = Meaning::Rejected(RejectReason::RecipientOptedOut);

/// What HTTP statuses mean; the first row that holds a status counts.
pub type Statuses = [(RangeInclusive<u16>, Meaning)];

/// What a provider's own codes mean.
pub type Codes = [(&'static str, Meaning)];

/// The meaning of a status; what no row holds is unknown.
pub fn of_status(table: &Statuses, status: u16) -> Meaning {
    table
        .iter()
        .find(|(statuses, _)| statuses.contains(&status))
        .map_or(Meaning::Unknown, |(_, meaning)| *meaning)
}

/// The meaning of a code, if the table has it.
pub fn of_code(table: &Codes, code: &str) -> Option<Meaning> {
    table
        .iter()
        .find(|(known, _)| *known == code)
        .map(|(_, meaning)| *meaning)
}

impl Meaning {
    /// The outcome, with the provider's words made safe.
    pub fn outcome(self, reply: &Reply, words: &str, redactor: Redactor) -> Outcome {
        let answer = redactor.answered(reply, words);
        let retry_after = reply.retry_after;
        match self {
            Self::Rejected(reason) => Outcome::Rejected { reason, answer },
            Self::Deferred => Outcome::Deferred {
                retry_after,
                answer,
            },
            Self::Misconfigured => Outcome::Misconfigured { answer },
            Self::Unknown => Outcome::Unknown {
                retry_after,
                answer,
            },
        }
    }
}
