//! What goes into the tables and what comes out of them, as plain Rust.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use diesel::prelude::*;
use uuid::Uuid;

use super::schema::{attempts, outbox, payments};
use super::sql_types::{Id, Moment};
use crate::payment::{Happening, PAYMENT_APPROVED, Payment, Reason, Status};

/// An idempotency key with what it was first used for.
#[derive(Debug, Clone)]
pub struct Idempotency {
    /// The key, unquoted.
    pub key: String,
    /// SHA-256 of the request's meaning.
    pub fingerprint: [u8; 32],
}

/// A payment on its way into the database.
#[derive(Debug, Clone)]
pub struct NewPayment {
    /// The payment with its notifications.
    pub payment: Arc<Payment>,
    /// Set when the caller gave a key.
    pub idempotency: Option<Idempotency>,
    /// The answer, stored so that a repeat gets the same bytes.
    pub response: Bytes,
    /// One birth a notification, in their order.
    pub births: Vec<Birth>,
}

/// How an outbox row comes to life.
#[derive(Debug, Clone, Copy)]
pub struct Birth {
    /// Provider of the channel at this moment.
    pub provider: &'static str,
    /// Born leased by this process (it holds a slot in a lane), or born due for anybody.
    pub leased: bool,
}

/// What became of a payment that was to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is committed, with all its rows.
    Recorded,
    /// Its idempotency key was used for the same request before: the answer of then.
    Replayed(Bytes),
    /// Its idempotency key was used for another request.
    KeyReused,
}

/// A row that this process holds: leased until its lease ends, fenced by its epoch.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct HeldRow {
    /// The outbox id.
    pub id: Id,
    /// Its payment.
    pub payment_id: Id,
    /// A label.
    pub event_type: String,
    /// The provider that it was recorded for.
    pub provider: String,
    /// Whom it goes to.
    pub recipient: String,
    /// JSON of [`crate::payment::Payload`].
    pub payload: String,
    /// Our name for it at the provider.
    pub reference: String,
    /// Requests that were answered or left without an answer.
    pub attempts: i32,
    /// Waits that cost nothing.
    pub deferrals: i32,
    /// Leases that ran out with their holder, since the last settled outcome.
    pub lost_leases: i32,
    /// How often an operator sent it back.
    pub replays: i32,
    /// The fence.
    pub epoch: i64,
    /// Somebody may have sent it already.
    pub maybe_sent: bool,
    /// The give-up time has passed.
    pub expired: bool,
    /// When it became due, for the claim's low-water mark.
    pub due_since: Moment,
}

/// One entry of the history, timed by how long ago it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// What happened.
    pub outcome: Happening,
    /// The number of the attempt, counted as `attempts` counts.
    pub attempt: i32,
    /// How long ago it began.
    pub started_ago: Duration,
    /// How long ago it ended.
    pub finished_ago: Duration,
    /// HTTP status, when there was one.
    pub http_status: Option<i32>,
    /// The provider's words, masked.
    pub error: Option<String>,
    /// Who was asked.
    pub provider: String,
    /// The provider's id of the message.
    pub provider_message_id: Option<String>,
}

/// An outcome as absolute values: writing it twice is writing it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The row.
    pub id: Uuid,
    /// The fence it was held under.
    pub epoch: i64,
    /// Its replays at that time: an acceptance counts unless the row was replayed since.
    pub replays: i32,
    /// The state it ends in.
    pub status: Status,
    /// Why, when `FAILED`.
    pub reason: Option<Reason>,
    /// New count of attempts.
    pub attempts: i32,
    /// New count of deferrals.
    pub deferrals: i32,
    /// Whether somebody may have sent it.
    pub maybe_sent: bool,
    /// How long it waits, when still `PENDING`.
    pub delay: Duration,
    /// New `last_error`; `None` keeps the old one.
    pub last_error: Option<String>,
    /// The provider's id of the message, when accepted.
    pub provider_message_id: Option<String>,
    /// The message was found by its likeness, not by our name for it: if another row holds its id,
    /// it is not this row's.
    pub by_likeness: bool,
    /// The entry for the history; a first attempt that succeeds needs none.
    pub history: Option<HistoryEntry>,
}

impl Settlement {
    /// Whether the message was found by asking, rather than named by the answer to a request.
    pub fn was_found(&self) -> bool {
        self.history
            .as_ref()
            .is_some_and(|entry| entry.outcome == Happening::FoundOnLookup)
    }

    /// In place of a message that another row has: the row stays in doubt and comes back.
    pub fn asked_again(&self, delay: Duration) -> Self {
        Self {
            status: Status::Pending,
            reason: None,
            maybe_sent: true,
            delay,
            provider_message_id: None,
            by_likeness: false,
            history: None,
            ..self.clone()
        }
    }
}

/// What the row looks like after a settlement that wrote nothing.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct Standing {
    /// The row.
    pub id: Id,
    /// Its state as stored.
    pub status: String,
    /// Its fence.
    pub epoch: i64,
    /// Its holder.
    pub claimed_by: Option<Id>,
    /// The message that it was sent as.
    pub provider_message_id: Option<String>,
}

/// A payment as stored.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = payments)]
pub struct PaymentRow {
    /// UUIDv7.
    pub id: Id,
    /// The caller's reference.
    pub order_id: String,
    /// Minor units.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
    /// `APPROVED`.
    pub status: String,
    /// Free text.
    pub description: Option<String>,
    /// Notifications it was recorded with; retention may have removed some since.
    pub notification_count: i32,
    /// When it was approved.
    pub created_at: Moment,
}

/// A notification as its payment shows it.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = outbox)]
pub struct NotificationRow {
    /// The outbox id.
    pub id: Id,
    /// Its payment.
    pub payment_id: Id,
    /// Its channel as stored.
    pub channel: String,
    /// Whom it goes to, unmasked.
    pub recipient: String,
    /// Its state as stored.
    pub status: String,
    /// Why it failed.
    pub reason: Option<String>,
    /// When the provider accepted it.
    pub sent_at: Option<Moment>,
}

/// An outbox row as operators see it.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = outbox)]
pub struct OutboxRow {
    /// The outbox id.
    pub id: Id,
    /// Its payment.
    pub payment_id: Id,
    /// A label.
    pub event_type: String,
    /// Its channel as stored.
    pub channel: String,
    /// Whom it goes to, unmasked.
    pub recipient: String,
    /// Its state as stored.
    pub status: String,
    /// Why it failed.
    pub reason: Option<String>,
    /// Requests that were answered or left without an answer.
    pub attempts: i32,
    /// Waits that cost nothing.
    pub deferrals: i32,
    /// The lease, or the moment from which anybody may claim it.
    pub processable_after: Moment,
    /// Set while it waits for its retry.
    pub next_retry_at: Option<Moment>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The provider that it was recorded for.
    pub provider: String,
    /// The provider's id of the message.
    pub provider_message_id: Option<String>,
    /// Its holder.
    pub claimed_by: Option<Id>,
    /// When it was recorded.
    pub created_at: Moment,
    /// When it last changed.
    pub updated_at: Moment,
    /// When the provider accepted it.
    pub sent_at: Option<Moment>,
}

/// A history entry as stored.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = attempts)]
pub struct AttemptRow {
    /// The fence it happened under.
    pub epoch: i64,
    /// Number of the attempt.
    pub attempt: i32,
    /// When it began.
    pub started_at: Moment,
    /// When it ended.
    pub finished_at: Moment,
    /// What happened.
    pub outcome: String,
    /// HTTP status.
    pub http_status: Option<i32>,
    /// The provider's words, masked.
    pub error: Option<String>,
    /// Who was asked.
    pub provider: String,
    /// The provider's id of the message.
    pub provider_message_id: Option<String>,
    /// How often, for a deferral.
    pub times: i32,
}

/// An outbox row about to be born.
pub struct BirthRow<'a> {
    /// The outbox id.
    pub id: Id,
    /// A label.
    pub event_type: &'static str,
    /// Which lane carries it.
    pub channel: &'static str,
    /// The channel's provider at this moment.
    pub provider: &'static str,
    /// Whom it goes to.
    pub recipient: &'a str,
    /// JSON of the payload.
    pub payload: String,
    /// Whether this process holds it from the start.
    pub leased: bool,
}

impl NewPayment {
    /// How many notifications it has.
    pub fn notification_count(&self) -> i32 {
        i32::try_from(self.payment.notifications.len()).unwrap_or(i32::MAX)
    }

    /// Its outbox rows.
    pub fn rows(&self) -> impl Iterator<Item = BirthRow<'_>> {
        self.payment
            .notifications
            .iter()
            .zip(&self.births)
            .map(|(notification, birth)| BirthRow {
                id: Id(notification.id),
                event_type: PAYMENT_APPROVED,
                channel: notification.channel.as_str(),
                provider: birth.provider,
                recipient: notification.recipient.as_str(),
                payload: notification.payload.to_json(),
                leased: birth.leased,
            })
    }
}
