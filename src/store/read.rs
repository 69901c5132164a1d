//! Reading the outbox for operators.

use std::collections::HashSet;

use diesel::dsl::{count_star, exists, min, sql, sum};
use diesel::prelude::*;
use diesel::sql_types::Bool;
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::dispatch::{in_snapshot, on_either};
use super::filter::filtered;
use super::rows::{AttemptRow, OutboxRow, Standing};
use super::schema::{attempts, outbox, payments, totals};
use super::sql_types::{Id, Moment};
use super::{HeldRow, OutboxFilter, Store, StoreError};
use crate::payment::{Happening, PAYLOAD_VERSION};

/// A row with its payment's order id.
pub type ListedRow = (OutboxRow, String);

/// One row in full.
pub struct FullRow {
    /// The row and its payment's order id.
    pub row: ListedRow,
    /// JSON of the payload.
    pub payload: String,
    /// Its history, oldest first.
    pub history: Vec<AttemptRow>,
}

/// Rows of one channel in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCount {
    /// As stored: a newer version's names are shown too.
    pub channel: String,
    /// As stored.
    pub status: String,
    /// How many.
    pub rows: i64,
}

impl From<(String, String, i64)> for StatusCount {
    fn from((channel, status, rows): (String, String, i64)) -> Self {
        Self {
            channel,
            status,
            rows,
        }
    }
}

/// The outbox in numbers, all of one moment: the books balance.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// By channel and state.
    pub counts: Vec<StatusCount>,
    /// Claimable now by this version.
    pub due: i64,
    /// Under a live lease.
    pub in_flight: i64,
    /// Age of the longest-due row.
    pub oldest_due_age_seconds: Option<f64>,
    /// `PENDING` rows that are left to a newer version.
    pub newer_version: i64,
    /// Notifications ever recorded.
    pub recorded: i64,
    /// Rows that retention removed.
    pub purged: i64,
}

impl Store {
    /// A page of rows, newest first, `before` excluded.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn outbox_page(
        &self,
        filter: &OutboxFilter,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<ListedRow>, StoreError> {
        let before = Id(before.unwrap_or(Uuid::max()));
        on_either!(self, |conn| {
            let query = outbox::table
                .inner_join(payments::table)
                .filter(outbox::id.lt(before))
                .order(outbox::id.desc())
                .limit(limit)
                .select((OutboxRow::as_select(), payments::order_id))
                .into_boxed::<Db>();
            filtered!(query, filter).load(conn).await
        })
    }

    /// One row with what is sent and what happened.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn outbox_row(&self, id: Uuid) -> Result<Option<FullRow>, StoreError> {
        // One statement is one snapshot: the row is never older than its history, nor newer.
        let found: Vec<(OutboxRow, String, String, Option<AttemptRow>)> =
            on_either!(self, |conn| {
                outbox::table
                    .inner_join(payments::table)
                    .left_join(attempts::table)
                    .filter(outbox::id.eq(Id(id)))
                    .order(attempts::epoch.nullable())
                    .select((
                        OutboxRow::as_select(),
                        payments::order_id,
                        outbox::payload,
                        Option::<AttemptRow>::as_select(),
                    ))
                    .load(conn)
                    .await
            })?;
        let mut history = Vec::with_capacity(found.len());
        let mut first = None;
        for (row, order_id, payload, entry) in found {
            history.extend(entry);
            first.get_or_insert((row, order_id, payload));
        }
        let Some((row, order_id, payload)) = first else {
            return Ok(None);
        };
        Ok(Some(FullRow {
            row: (row, order_id),
            payload,
            history,
        }))
    }

    /// The outbox in numbers.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn stats(&self) -> Result<Stats, StoreError> {
        in_snapshot!(self, |conn, now| {
            let pending = || outbox::table.filter(sql::<Bool>("outbox.status = 'PENDING'"));
            let counts: Vec<(String, String, i64)> = outbox::table
                .group_by((outbox::channel, outbox::status))
                .select((outbox::channel, outbox::status, count_star()))
                .load(conn)
                .await?;
            let (due, oldest): (i64, Option<Moment>) = pending()
                .filter(outbox::processable_after.le(now))
                .filter(outbox::payload_version.le(PAYLOAD_VERSION))
                .select((count_star(), min(outbox::processable_after)))
                .get_result(conn)
                .await?;
            let newer_version: i64 = pending()
                .filter(outbox::payload_version.gt(PAYLOAD_VERSION))
                .count()
                .get_result(conn)
                .await?;
            let in_flight: i64 = pending()
                .filter(outbox::claimed_by.is_not_null())
                .filter(outbox::processable_after.gt(now))
                .count()
                .get_result(conn)
                .await?;
            let recorded: Option<i64> = payments::table
                .select(sum(payments::notification_count))
                .first(conn)
                .await?;
            let purged: i64 = totals::table
                .filter(totals::name.eq("purged"))
                .select(totals::value)
                .first(conn)
                .await?;
            let moment: Moment = diesel::select(now).get_result(conn).await?;
            Ok::<Stats, StoreError>(Stats {
                counts: counts.into_iter().map(StatusCount::from).collect(),
                due,
                in_flight,
                oldest_due_age_seconds: oldest.map(|oldest| oldest.seconds_until(moment)),
                newer_version,
                recorded: recorded.unwrap_or(0),
                purged,
            })
        })
    }

    /// Which of a provider's messages belong to rows already.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn taken_message_ids(
        &self,
        provider: &str,
        message_ids: &[String],
    ) -> Result<HashSet<String>, StoreError> {
        let taken: Vec<Option<String>> = on_either!(self, |conn| {
            outbox::table
                .filter(outbox::provider.eq(provider))
                .filter(outbox::provider_message_id.eq_any(message_ids))
                .select(outbox::provider_message_id)
                .load(conn)
                .await
        })?;
        Ok(taken.into_iter().flatten().collect())
    }

    /// Whether another row to the same recipient found this very message by asking, since `row` was
    /// recorded.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn found_by_another(
        &self,
        row: &HeldRow,
        message_id: &str,
    ) -> Result<bool, StoreError> {
        on_either!(self, |conn| {
            let recorded = outbox::table
                .filter(outbox::id.eq(row.id))
                .select(outbox::created_at)
                .single_value();
            let finders = diesel::alias!(outbox as finders);
            let finder = finders
                .inner_join(attempts::table.on(attempts::outbox_id.eq(finders.field(outbox::id))))
                .filter(finders.field(outbox::provider).eq(&row.provider))
                .filter(finders.field(outbox::provider_message_id).eq(message_id))
                .filter(finders.field(outbox::recipient).eq(&row.recipient))
                .filter(attempts::provider_message_id.eq(message_id))
                .filter(attempts::outcome.eq(Happening::FoundOnLookup.as_str()))
                .filter(attempts::finished_at.nullable().ge(recorded));
            diesel::select(exists(finder)).get_result(conn).await
        })
    }

    /// How rows stand that did not take their outcome.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn standing(&self, ids: &[Uuid]) -> Result<Vec<Standing>, StoreError> {
        let ids: Vec<Id> = ids.iter().copied().map(Id).collect();
        on_either!(self, |conn| {
            outbox::table
                .filter(outbox::id.eq_any(&ids))
                .select((
                    outbox::id,
                    outbox::status,
                    outbox::epoch,
                    outbox::claimed_by,
                    outbox::provider_message_id,
                ))
                .load(conn)
                .await
        })
    }
}
