//! Writing outcomes: a batch in one immediate transaction, row by row with kept statements.

use std::collections::HashSet;

use diesel::SqliteConnection;
use diesel::prelude::*;
use uuid::Uuid;

use super::immediately;
use crate::payment::{Happening, Status};
use crate::store::schema::{attempts, outbox};
use crate::store::sql_types::{Id, Now};
use crate::store::{HistoryEntry, Settlement};

/// Writes a batch of outcomes; returns the rows that took theirs.
pub fn settle(
    conn: &mut SqliteConnection,
    holder: Uuid,
    batch: &[Settlement],
    now: Now,
) -> QueryResult<HashSet<Uuid>> {
    immediately(conn, |conn| {
        let mut settled = HashSet::with_capacity(batch.len());
        for settlement in batch {
            if settle_one(conn, holder, settlement, now)? {
                settled.insert(settlement.id);
                if let Some(entry) = &settlement.history {
                    remember(conn, Id(settlement.id), settlement.epoch, entry, now)?;
                }
            }
        }
        Ok(settled)
    })
}

fn settle_one(
    conn: &mut SqliteConnection,
    holder: Uuid,
    settlement: &Settlement,
    now: Now,
) -> QueryResult<bool> {
    let due = now.plus(settlement.delay).embedded();
    let waits = settlement.status == Status::Pending;
    let sent = settlement.status == Status::Sent;
    let changes = (
        outbox::status.eq(settlement.status.as_str()),
        outbox::reason.eq(settlement.reason.map(|reason| reason.as_str())),
        outbox::attempts.eq(settlement.attempts),
        outbox::deferrals.eq(settlement.deferrals),
        outbox::lost_leases.eq(0),
        outbox::maybe_sent.eq(settlement.maybe_sent),
        outbox::claimed_by.eq(None::<Id>),
        outbox::processable_after.eq(due),
        outbox::next_retry_at.eq(waits.then_some(due)),
        outbox::sent_at.eq(sent.then(|| now.embedded())),
        outbox::updated_at.eq(now.embedded()),
    );
    let row = outbox::table.filter(outbox::id.eq(Id(settlement.id)));
    // The fence is status, epoch and holder.
    let held = row
        .filter(outbox::status.eq(Status::Pending.as_str()))
        .filter(outbox::epoch.eq(settlement.epoch))
        .filter(outbox::claimed_by.eq(Some(Id(holder))));
    let mut written = diesel::update(held).set(changes).execute(conn)?;
    if written == 0 && sent {
        // An acceptance is a fact: it is written on any row that was not replayed since. A state
        // that this version does not know may stand for more than SENT.
        let unsent = row
            .filter(outbox::status.eq_any(Status::UNSENT.map(Status::as_str)))
            .filter(outbox::replays.eq(settlement.replays));
        written = diesel::update(unsent).set(changes).execute(conn)?;
    }
    if written == 0 {
        return Ok(false);
    }
    if let Some(error) = &settlement.last_error {
        diesel::update(row)
            .set(outbox::last_error.eq(error))
            .execute(conn)?;
    }
    if let Some(message_id) = &settlement.provider_message_id {
        diesel::update(row)
            .set(outbox::provider_message_id.eq(message_id))
            .execute(conn)?;
    }
    Ok(true)
}

fn remember(
    conn: &mut SqliteConnection,
    id: Id,
    epoch: i64,
    entry: &HistoryEntry,
    now: Now,
) -> QueryResult<()> {
    let values = (
        attempts::outbox_id.eq(id),
        attempts::epoch.eq(epoch),
        attempts::attempt.eq(entry.attempt),
        attempts::started_at.eq(now.minus(entry.started_ago).embedded()),
        attempts::finished_at.eq(now.minus(entry.finished_ago).embedded()),
        attempts::outcome.eq(entry.outcome.as_str()),
        attempts::http_status.eq(entry.http_status),
        attempts::error.eq(entry.error.as_deref()),
        attempts::provider.eq(&entry.provider),
        attempts::provider_message_id.eq(entry.provider_message_id.as_deref()),
        attempts::times.eq(1),
    );
    if entry.outcome == Happening::Deferred {
        // One entry a row, counted up; the epoch guard counts a repeated write once.
        let counted = diesel::update(
            attempts::table
                .filter(attempts::outbox_id.eq(id))
                .filter(attempts::outcome.eq(Happening::Deferred.as_str()))
                .filter(attempts::epoch.lt(epoch)),
        )
        .set((
            attempts::epoch.eq(epoch),
            attempts::attempt.eq(entry.attempt),
            attempts::finished_at.eq(now.minus(entry.finished_ago).embedded()),
            attempts::http_status.eq(entry.http_status),
            attempts::error.eq(entry.error.as_deref()),
            attempts::times.eq(attempts::times + 1),
        ))
        .execute(conn)?;
        if counted > 0 {
            return Ok(());
        }
    }
    diesel::insert_into(attempts::table)
        .values(values)
        .on_conflict_do_nothing()
        .execute(conn)?;
    Ok(())
}
