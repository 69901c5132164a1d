//! Which outbox rows an operator means.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::payment::{Channel, Status};

/// Conditions that all hold; `None` and an empty list hold for every row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboxFilter {
    /// Any of these states.
    pub statuses: Vec<Status>,
    /// This channel.
    pub channel: Option<Channel>,
    /// This label.
    pub event_type: Option<String>,
    /// Of this payment.
    pub payment_id: Option<Uuid>,
    /// Of payments with this reference of the caller.
    pub order_id: Option<String>,
    /// Recorded at this moment or later.
    pub created_from: Option<DateTime<Utc>>,
    /// Recorded before this moment.
    pub created_to: Option<DateTime<Utc>>,
}

impl OutboxFilter {
    /// Whether it lets every row through.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The states as SQL. They are our own names, never a caller's text; as literals they let both
    /// databases use the partial indexes.
    pub(super) fn status_sql(&self) -> Option<String> {
        if self.statuses.is_empty() {
            return None;
        }
        let names: Vec<String> = self
            .statuses
            .iter()
            .map(|status| format!("'{status}'"))
            .collect();
        Some(format!("outbox.status IN ({})", names.join(", ")))
    }
}

/// "Any channel but ours" as the ranges between our names, which the claim's index can serve.
pub(super) fn unknown_channel_sql() -> String {
    let mut names: Vec<&str> = Channel::ALL.iter().map(|c| c.as_str()).collect();
    names.sort_unstable();
    let first = names.first().copied().unwrap_or_default();
    let last = names.last().copied().unwrap_or_default();
    let mut ranges = vec![format!("outbox.channel < '{first}'")];
    for pair in names.windows(2) {
        if let [low, high] = pair {
            ranges.push(format!(
                "(outbox.channel > '{low}' AND outbox.channel < '{high}')"
            ));
        }
    }
    ranges.push(format!("outbox.channel > '{last}'"));
    format!("({})", ranges.join(" OR "))
}

/// Adds an [`OutboxFilter`] to a boxed query over `outbox` joined with `payments`.
macro_rules! filtered {
    ($query:expr, $filter:expr) => {{
        let filter: &$crate::store::OutboxFilter = $filter;
        let mut query = $query;
        if let Some(statuses) = filter.status_sql() {
            query = query.filter(diesel::dsl::sql::<diesel::sql_types::Bool>(&statuses));
        }
        if let Some(channel) = filter.channel {
            query = query.filter(outbox::channel.eq(channel.as_str()));
        }
        if let Some(event_type) = &filter.event_type {
            query = query.filter(outbox::event_type.eq(event_type.clone()));
        }
        if let Some(payment_id) = filter.payment_id {
            query = query.filter(outbox::payment_id.eq(Id(payment_id)));
        }
        if let Some(order_id) = &filter.order_id {
            query = query.filter(payments::order_id.eq(order_id.clone()));
        }
        if let Some(from) = filter.created_from {
            query = query.filter(outbox::created_at.ge(Moment::from(from)));
        }
        if let Some(to) = filter.created_to {
            query = query.filter(outbox::created_at.lt(Moment::from(to)));
        }
        query
    }};
}

pub(super) use filtered;
