//! Writing outcomes: a batch in one statement, its history with it.

use std::collections::HashSet;

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use uuid::Uuid;

use crate::payment::Happening;
use crate::store::sql_types::{Id, UuidSql, micros};
use crate::store::statement::statement;
use crate::store::{HistoryEntry, Settlement};

// The fence is status, epoch and holder. An acceptance is a fact: it is written on any row that
// was not replayed since, unless it is SENT already, or in a state that this version does not know
// and that may stand for more.
const SETTLE: &str = "\
UPDATE outbox AS o
SET status = s.status,
    reason = s.reason,
    attempts = s.attempts,
    deferrals = s.deferrals,
    lost_leases = 0,
    maybe_sent = s.maybe_sent,
    claimed_by = NULL,
    processable_after = now() + s.delay * interval '1 microsecond',
    next_retry_at = CASE WHEN s.status = 'PENDING'
                         THEN now() + s.delay * interval '1 microsecond' END,
    last_error = coalesce(s.last_error, o.last_error),
    provider_message_id = coalesce(s.provider_message_id, o.provider_message_id),
    sent_at = CASE WHEN s.status = 'SENT' THEN now() END,
    updated_at = now()
FROM unnest(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     AS s(id, epoch, replays, status, reason, attempts, deferrals, maybe_sent, delay,
          last_error, provider_message_id)
WHERE o.id = s.id
  AND ((o.status = 'PENDING' AND o.epoch = s.epoch AND o.claimed_by = ?)
       OR (s.status = 'SENT' AND o.status IN ('PENDING', 'FAILED', 'CANCELED') AND o.replays = s.replays))
RETURNING o.id";

statement! {
    /// Writes outcomes and tells which rows took them.
    Settle on Pg => UuidSql;
    sql: SETTLE;
    ids: Array<UuidSql> = Vec<Id>,
    epochs: Array<BigInt> = Vec<i64>,
    replays: Array<Integer> = Vec<i32>,
    statuses: Array<Text> = Vec<&'static str>,
    reasons: Array<Nullable<Text>> = Vec<Option<&'static str>>,
    attempts: Array<Integer> = Vec<i32>,
    deferrals: Array<Integer> = Vec<i32>,
    maybe_sent: Array<Bool> = Vec<bool>,
    delays: Array<BigInt> = Vec<i64>,
    last_errors: Array<Nullable<Text>> = Vec<Option<String>>,
    message_ids: Array<Nullable<Text>> = Vec<Option<String>>,
    holder: UuidSql = Id,
}

// Rows that are free are locked for the length of this statement, those that are gone are not named.
const LOCKED: &str = "\
WITH free AS (
  SELECT id FROM outbox WHERE id = ANY (?) FOR UPDATE SKIP LOCKED
)
SELECT id FROM outbox WHERE id = ANY (?) AND id NOT IN (SELECT id FROM free)";

statement! {
    /// Tells which rows others hold locks on.
    Locked on Pg => UuidSql;
    sql: LOCKED;
    ids: Array<UuidSql> = Vec<Id>,
    again: Array<UuidSql> = Vec<Id>,
}

macro_rules! remember_sql {
    ($on_conflict:literal) => {
        concat!(
            "\
INSERT INTO attempts AS a (outbox_id, epoch, attempt, started_at, finished_at, outcome,
                           http_status, error, provider, provider_message_id, times)
SELECT h.outbox_id, h.epoch, h.attempt,
       now() - h.started_ago * interval '1 microsecond',
       now() - h.finished_ago * interval '1 microsecond',
       h.outcome, h.http_status, h.error, h.provider, h.provider_message_id, 1
FROM unnest(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     AS h(outbox_id, epoch, attempt, started_ago, finished_ago, outcome, http_status, error,
          provider, provider_message_id)
WHERE EXISTS (SELECT FROM outbox WHERE outbox.id = h.outbox_id)
ON CONFLICT ",
            $on_conflict
        )
    };
}

macro_rules! remember_statement {
    ($(#[$meta:meta])* $name:ident, $on_conflict:literal) => {
        statement! {
            $(#[$meta])*
            $name on Pg => ();
            sql: remember_sql!($on_conflict);
            ids: Array<UuidSql> = Vec<Id>,
            epochs: Array<BigInt> = Vec<i64>,
            attempts: Array<Integer> = Vec<i32>,
            started_ago: Array<BigInt> = Vec<i64>,
            finished_ago: Array<BigInt> = Vec<i64>,
            outcomes: Array<Text> = Vec<&'static str>,
            http_statuses: Array<Nullable<Integer>> = Vec<Option<i32>>,
            errors: Array<Nullable<Text>> = Vec<Option<String>>,
            providers: Array<Text> = Vec<String>,
            message_ids: Array<Nullable<Text>> = Vec<Option<String>>,
        }

        impl $name {
            fn of(entries: &[(Id, i64, &HistoryEntry)]) -> Self {
                Self {
                    ids: entries.iter().map(|(id, ..)| *id).collect(),
                    epochs: entries.iter().map(|(_, epoch, _)| *epoch).collect(),
                    attempts: entries.iter().map(|(.., h)| h.attempt).collect(),
                    started_ago: entries.iter().map(|(.., h)| micros(h.started_ago)).collect(),
                    finished_ago: entries.iter().map(|(.., h)| micros(h.finished_ago)).collect(),
                    outcomes: entries.iter().map(|(.., h)| h.outcome.as_str()).collect(),
                    http_statuses: entries.iter().map(|(.., h)| h.http_status).collect(),
                    errors: entries.iter().map(|(.., h)| h.error.clone()).collect(),
                    providers: entries.iter().map(|(.., h)| h.provider.clone()).collect(),
                    message_ids: entries
                        .iter()
                        .map(|(.., h)| h.provider_message_id.clone())
                        .collect(),
                }
            }
        }
    };
}

remember_statement!(
    /// Adds history entries, each once.
    Remember,
    "DO NOTHING"
);

remember_statement!(
    /// Adds or counts up deferrals, one entry a row; the epoch guard counts a repeated write once.
    RememberDeferrals,
    "(outbox_id) WHERE outcome = 'deferred' DO UPDATE
SET epoch = excluded.epoch, attempt = excluded.attempt, finished_at = excluded.finished_at,
    http_status = excluded.http_status, error = excluded.error, times = a.times + 1
WHERE a.epoch < excluded.epoch"
);

/// Writes a batch of outcomes, sorted by id so that two instances lock in one order.
///
/// Returns the rows that took theirs. Runs inside the caller's transaction when it has history.
pub async fn settle(
    conn: &mut AsyncPgConnection,
    holder: Uuid,
    batch: &[Settlement],
) -> QueryResult<HashSet<Uuid>> {
    let settled: Vec<Id> = Settle {
        ids: batch.iter().map(|s| Id(s.id)).collect(),
        epochs: batch.iter().map(|s| s.epoch).collect(),
        replays: batch.iter().map(|s| s.replays).collect(),
        statuses: batch.iter().map(|s| s.status.as_str()).collect(),
        reasons: batch.iter().map(|s| s.reason.map(|r| r.as_str())).collect(),
        attempts: batch.iter().map(|s| s.attempts).collect(),
        deferrals: batch.iter().map(|s| s.deferrals).collect(),
        maybe_sent: batch.iter().map(|s| s.maybe_sent).collect(),
        delays: batch.iter().map(|s| micros(s.delay)).collect(),
        last_errors: batch.iter().map(|s| s.last_error.clone()).collect(),
        message_ids: batch
            .iter()
            .map(|s| s.provider_message_id.clone())
            .collect(),
        holder: Id(holder),
    }
    .load(conn)
    .await?;
    let settled: HashSet<Uuid> = settled.into_iter().map(|id| id.0).collect();
    remember(conn, batch, &settled).await?;
    Ok(settled)
}

/// Which of these rows others hold locks on.
pub async fn locked(conn: &mut AsyncPgConnection, ids: &[Uuid]) -> QueryResult<HashSet<Uuid>> {
    let ids: Vec<Id> = ids.iter().copied().map(Id).collect();
    let again = ids.clone();
    let locked: Vec<Id> = Locked { ids, again }.load(conn).await?;
    Ok(locked.into_iter().map(|id| id.0).collect())
}

async fn remember(
    conn: &mut AsyncPgConnection,
    batch: &[Settlement],
    settled: &HashSet<Uuid>,
) -> QueryResult<()> {
    let (deferrals, others): (Vec<_>, Vec<_>) = batch
        .iter()
        .filter(|s| settled.contains(&s.id))
        .filter_map(|s| s.history.as_ref().map(|h| (Id(s.id), s.epoch, h)))
        .partition(|(.., h)| h.outcome == Happening::Deferred);
    if !deferrals.is_empty() {
        RememberDeferrals::of(&deferrals).execute(conn).await?;
    }
    if !others.is_empty() {
        Remember::of(&others).execute(conn).await?;
    }
    Ok(())
}
