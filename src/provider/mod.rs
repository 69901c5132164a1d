//! The outside world: one [`Provider`] per dialect, and one [`Outcome`] for whatever it answers.
//!
//! An adapter decides what an answer *means* in a table of its own file; the engine decides what
//! follows from that. Adding a provider is one file and one line where the lanes are composed.

pub mod client;
pub mod fcm;
pub mod mock;
pub mod redact;
pub mod retry_after;
pub mod sms;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod testing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::payment::sms_text::SmsText;
use crate::payment::{Payload, Recipient};

/// One request to a provider. What is sent is built from the outbox row alone, so that every
/// attempt is the same.
#[derive(Debug, Clone)]
pub struct Message {
    /// The outbox row.
    pub outbox_id: Uuid,
    /// The payment it belongs to.
    pub payment_id: Uuid,
    /// Label of the event, for example `PAYMENT_APPROVED`.
    pub event_type: Arc<str>,
    /// Our name for this message at the provider: the same on every attempt, so that the provider
    /// can be asked about it.
    pub reference: Arc<str>,
    /// Whom it goes to.
    pub recipient: Recipient,
    /// What is sent.
    pub payload: Arc<Payload>,
    /// No request may be out past this moment: soon after it the row may be somebody else's. The
    /// engine starts a send only when a whole request fits before it; an adapter that does
    /// something else first, or sends again, looks at it anew.
    pub deadline: Instant,
}

impl Message {
    /// The earliest moment at which a request for it can have begun, by the clock of the process
    /// that recorded it: when its outbox id was made. The epoch when the id does not tell.
    pub fn recorded_at(&self) -> DateTime<Utc> {
        let made = self.outbox_id.get_timestamp().map(|at| at.to_unix());
        made.and_then(|(seconds, nanos)| {
            DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanos)
        })
        .unwrap_or(DateTime::UNIX_EPOCH)
    }
}

/// What a provider (or the way to it) said, kept for people: history and `last_error`.
///
/// The text is already safe to store and to show: no NUL, capped in length, and phone numbers and
/// other long digit runs masked ([`redact::Redactor`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// HTTP status, when there was an answer at all.
    pub http_status: Option<u16>,
    /// The provider's own words, or ours about the connection.
    pub text: String,
}

/// Why a provider will never take this message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// The message or its form was refused.
    Rejected,
    /// The recipient does not exist any more (for example an uninstalled app).
    RecipientUnreachable,
    /// The recipient asked not to be written to.
    RecipientOptedOut,
}

/// How long a question about an earlier request may take: a lease leaves this much room beside the
/// request itself.
pub const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(3);

/// What an attempt to send came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The provider took the message.
    Accepted {
        /// The provider's own id of it, when it gives one.
        provider_message_id: Option<String>,
    },
    /// The provider refused it for good.
    Rejected {
        /// Kind of the refusal.
        reason: RejectReason,
        /// What was said.
        answer: Answer,
    },
    /// Provably not processed; try later, at no cost to the budget of attempts.
    Deferred {
        /// The provider's own wish, not yet capped.
        retry_after: Option<Duration>,
        /// What was said.
        answer: Answer,
    },
    /// Ours to mend (credentials, clock, account): like [`Outcome::Deferred`], and loud.
    Misconfigured {
        /// What was said.
        answer: Answer,
    },
    /// The request went out and nobody knows what became of it.
    Unknown {
        /// The provider's own wish, not yet capped.
        retry_after: Option<Duration>,
        /// What was said.
        answer: Answer,
    },
}

impl Outcome {
    /// Label for metrics and history: a closed set.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::Rejected { .. } => "rejected",
            Self::Deferred { .. } => "deferred",
            Self::Misconfigured { .. } => "misconfigured",
            Self::Unknown { .. } => "unknown",
        }
    }
}

/// What a provider says when asked about an earlier request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookUp {
    /// It accepted the message earlier: it knows the reference.
    Found {
        /// Its own id of the message.
        provider_message_id: Option<String>,
    },
    /// It keeps no reference. These are all messages that fit: same sender, recipient, text and
    /// time. One of them is ours, unless another row holds each of them.
    Candidates {
        /// Its own ids of them, oldest first; never empty.
        provider_message_ids: Vec<String>,
    },
    /// It never saw the reference.
    NeverSeen,
    /// This provider cannot be asked.
    Unsupported,
    /// It could be asked, but the question failed this time.
    Failed {
        /// What was said.
        answer: Answer,
    },
}

/// A dialect spoken to the outside.
///
/// Both calls bound their own time (see [`client::Client`]) and never panic on what they read.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Name written on the rows and in metrics, for example `http` or `fcm`.
    fn name(&self) -> &'static str;

    /// What it can carry, if it carries text messages; requests are held to it.
    fn sms_text(&self) -> SmsText {
        SmsText::Any
    }

    /// Asks the provider to send one message. It is sent again only if the first request was
    /// refused for a cause that is mended at once, and if [`Message::deadline`] allows.
    async fn send(&self, message: &Message) -> Outcome;

    /// Asks whether an earlier request with this message's reference was accepted.
    async fn look_up(&self, message: &Message) -> LookUp;
}
