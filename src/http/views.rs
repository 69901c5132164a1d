//! What is shown, as JSON. Recipients are masked here, once.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::payment::recipient::mask;
use crate::payment::{Channel, Payment, Status};
use crate::store::{
    AttemptRow, FullRow, Id, ListedRow, Moment, NotificationRow, PaymentRow, PaymentView, Stats,
};

/// A payment as its client sees it.
#[derive(Debug, Serialize)]
pub struct PaymentBody<'a> {
    id: Uuid,
    status: &'a str,
    order_id: &'a str,
    amount: i64,
    currency: String,
    description: Option<&'a str>,
    created_at: String,
    notifications: Vec<NotificationBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notifications_removed: Option<usize>,
}

/// A notification of it.
#[derive(Debug, Serialize)]
pub struct NotificationBody {
    id: Uuid,
    channel: String,
    to: String,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_at: Option<Option<String>>,
}

impl<'a> From<&'a Payment> for PaymentBody<'a> {
    /// As it is at birth: the first answer, and that of every repeat.
    fn from(payment: &'a Payment) -> Self {
        let notifications = payment
            .notifications
            .iter()
            .map(|notification| NotificationBody {
                id: notification.id,
                channel: notification.channel.to_string(),
                to: notification.recipient.masked(),
                status: Status::Pending.to_string(),
                reason: None,
                sent_at: None,
            })
            .collect();
        Self {
            id: payment.id,
            status: "APPROVED",
            order_id: &payment.order_id,
            amount: payment.amount,
            currency: payment.currency.to_string(),
            description: payment.description.as_deref(),
            created_at: rfc3339(payment.created_at),
            notifications,
            notifications_removed: None,
        }
    }
}

impl<'a> From<&'a PaymentView> for PaymentBody<'a> {
    fn from((payment, rows): &'a PaymentView) -> Self {
        let notifications: Vec<_> = rows.iter().map(NotificationBody::from).collect();
        Self {
            id: payment.id.0,
            status: &payment.status,
            order_id: &payment.order_id,
            amount: payment.amount,
            currency: payment.currency.clone(),
            description: payment.description.as_deref(),
            created_at: moment(payment.created_at),
            notifications_removed: removed(payment, rows),
            notifications,
        }
    }
}

fn removed(payment: &PaymentRow, rows: &[NotificationRow]) -> Option<usize> {
    let recorded = usize::try_from(payment.notification_count).unwrap_or(0);
    Some(recorded.saturating_sub(rows.len())).filter(|removed| *removed > 0)
}

impl From<&NotificationRow> for NotificationBody {
    fn from(row: &NotificationRow) -> Self {
        Self {
            id: row.id.0,
            channel: row.channel.clone(),
            to: mask(&row.recipient),
            status: row.status.clone(),
            reason: Some(row.reason.clone()),
            sent_at: Some(row.sent_at.map(moment)),
        }
    }
}

/// A page of a list.
#[derive(Debug, Serialize)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where the next page begins; `null` on the last.
    pub next_cursor: Option<String>,
}

/// An outbox row as operators see it.
#[derive(Debug, Serialize)]
pub struct RowBody<'a> {
    id: Uuid,
    payment_id: Uuid,
    order_id: &'a str,
    event_type: &'a str,
    channel: &'a str,
    recipient: String,
    status: &'a str,
    reason: Option<&'a str>,
    attempts: i32,
    deferrals: i32,
    processable_after: String,
    next_retry_at: Option<String>,
    last_error: Option<&'a str>,
    provider: &'a str,
    provider_message_id: Option<&'a str>,
    claimed_by: Option<Uuid>,
    created_at: String,
    updated_at: String,
    sent_at: Option<String>,
}

impl<'a> From<&'a ListedRow> for RowBody<'a> {
    fn from((row, order_id): &'a ListedRow) -> Self {
        Self {
            id: row.id.0,
            payment_id: row.payment_id.0,
            order_id,
            event_type: &row.event_type,
            channel: &row.channel,
            recipient: mask(&row.recipient),
            status: &row.status,
            reason: row.reason.as_deref(),
            attempts: row.attempts,
            deferrals: row.deferrals,
            processable_after: moment(row.processable_after),
            next_retry_at: row.next_retry_at.map(moment),
            last_error: row.last_error.as_deref(),
            provider: &row.provider,
            provider_message_id: row.provider_message_id.as_deref(),
            claimed_by: row.claimed_by.map(|Id(id)| id),
            created_at: moment(row.created_at),
            updated_at: moment(row.updated_at),
            sent_at: row.sent_at.map(moment),
        }
    }
}

/// A row with what is sent and what happened.
#[derive(Debug, Serialize)]
pub struct FullRowBody<'a> {
    #[serde(flatten)]
    row: RowBody<'a>,
    payload: &'a RawValue,
    history: Vec<HistoryBody<'a>>,
}

impl<'a> FullRowBody<'a> {
    /// The body; a payload that is no JSON is shown as `null`.
    pub fn of(full: &'a FullRow) -> Self {
        Self {
            row: RowBody::from(&full.row),
            payload: serde_json::from_str(&full.payload).unwrap_or(RawValue::NULL),
            history: full.history.iter().map(HistoryBody::from).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
struct HistoryBody<'a> {
    epoch: i64,
    attempt: i32,
    started_at: String,
    finished_at: String,
    outcome: &'a str,
    http_status: Option<i32>,
    error: Option<&'a str>,
    provider: &'a str,
    provider_message_id: Option<&'a str>,
    times: i32,
}

impl<'a> From<&'a AttemptRow> for HistoryBody<'a> {
    fn from(row: &'a AttemptRow) -> Self {
        Self {
            epoch: row.epoch,
            attempt: row.attempt,
            started_at: moment(row.started_at),
            finished_at: moment(row.finished_at),
            outcome: &row.outcome,
            http_status: row.http_status,
            error: row.error.as_deref(),
            provider: &row.provider,
            provider_message_id: row.provider_message_id.as_deref(),
            times: row.times,
        }
    }
}

/// The outbox in numbers.
#[derive(Debug, Serialize)]
pub struct StatsBody {
    by_status: BTreeMap<String, i64>,
    by_channel: BTreeMap<String, BTreeMap<String, i64>>,
    due: i64,
    in_flight: i64,
    oldest_due_age_seconds: Option<f64>,
    newer_version: i64,
    recorded: i64,
    purged: i64,
}

impl From<&Stats> for StatsBody {
    fn from(stats: &Stats) -> Self {
        let none = || -> BTreeMap<String, i64> {
            Status::ALL.iter().map(|s| (s.to_string(), 0)).collect()
        };
        let mut by_status = none();
        let mut by_channel: BTreeMap<String, BTreeMap<String, i64>> = Channel::ALL
            .iter()
            .map(|c| (c.to_string(), none()))
            .collect();
        for count in &stats.counts {
            *by_status.entry(count.status.clone()).or_default() += count.rows;
            let channel = by_channel.entry(count.channel.clone()).or_insert_with(none);
            *channel.entry(count.status.clone()).or_default() += count.rows;
        }
        Self {
            by_status,
            by_channel,
            due: stats.due,
            in_flight: stats.in_flight,
            oldest_due_age_seconds: stats.oldest_due_age_seconds,
            newer_version: stats.newer_version,
            recorded: stats.recorded,
            purged: stats.purged,
        }
    }
}

fn moment(moment: Moment) -> String {
    rfc3339(moment.to_datetime())
}

fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}
