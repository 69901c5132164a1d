//! What the janitor does: giving up, parking what nobody can send, removing what is old.

use std::time::Duration;

use diesel::dsl::{auto_type, case_when, sql};
use diesel::expression::SqlLiteral;
use diesel::prelude::*;
use diesel::sql_types::Bool;
use diesel_async::RunQueryDsl;

use super::dispatch::in_transaction;
use super::filter::unknown_channel_sql;
use super::schema::{attempts, outbox, totals};
use super::sql_types::{Id, Moment, Retold};
use super::{Store, StoreError};
use crate::payment::{Channel, PAYLOAD_VERSION, Reason, Status};

const PENDING: &str = "outbox.status = 'PENDING'";
const REMOVABLE: &str = "outbox.status IN ('SENT', 'CANCELED')";

/// A row that was last written so much later than now was written by a clock that was ahead.
const AHEAD: Duration = Duration::from_secs(1);

/// Moments further off than this are nobody's clock, and are not calculated with.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Pending rows that this version reads: those of a newer one are left to it.
#[auto_type(no_type_alias)]
fn ours() -> _ {
    let pending: SqlLiteral<Bool> = sql(PENDING);
    let readable: i32 = PAYLOAD_VERSION;
    pending.and(outbox::payload_version.le(readable))
}

/// What a sweep over pending rows needs to know.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// Channels that this instance delivers.
    pub channels: Vec<Channel>,
    /// No row of ours is ever due later than this from now.
    pub latest_due: Duration,
    /// Length of a lease: a holder that may be alive keeps its row for at least as long.
    pub lease: Duration,
    /// A row that was tried less than this ago is not asked about yet: its request may still be on
    /// its way, and "never seen" would prove nothing.
    pub askable_after: Duration,
}

/// Ends pending rows in one way, keeping what a provider said last.
macro_rules! fail {
    ($conn:expr, $rows:expr, $reason:expr, $text:expr, $now:expr) => {
        diesel::update($rows)
            .set((
                outbox::status.eq(Status::Failed.as_str()),
                outbox::reason.eq($reason.as_str()),
                // A name on the row: its holder may have sent it, and a replay must ask first.
                outbox::maybe_sent.eq(outbox::maybe_sent.or(outbox::claimed_by.is_not_null())),
                outbox::claimed_by.eq(None::<Id>),
                outbox::next_retry_at.eq(None::<Moment>),
                outbox::last_error.eq(case_when(
                    outbox::last_error.is_null(),
                    $text.into_sql::<diesel::sql_types::Nullable<diesel::sql_types::Text>>(),
                )
                .otherwise(outbox::last_error)),
                outbox::updated_at.eq($now),
            ))
            .execute($conn)
            .await?
    };
}

impl Store {
    /// Ends what has passed its give-up time. A row that may have been sent is made due instead: its
    /// lane asks about it one last time; where no lane does, it ends too.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn give_up(&self, sweep: &Sweep) -> Result<usize, StoreError> {
        let channels: Vec<&str> = sweep.channels.iter().map(|c| c.as_str()).collect();
        in_transaction!(self, |conn, now| {
            let overdue = || {
                outbox::table
                    .filter(ours())
                    .filter(outbox::expires_at.le(now))
            };
            let never_sent = overdue()
                .filter(outbox::maybe_sent.eq(false))
                .filter(outbox::claimed_by.is_null());
            let text = "not accepted within the give-up time";
            let mut ended = fail!(conn, never_sent, Reason::Expired, text, now);
            let unaskable = overdue()
                .filter(outbox::processable_after.le(now))
                .filter(outbox::channel.ne_all(&channels));
            let text = "may have been sent, and its channel is not configured any more";
            ended += fail!(conn, unaskable, Reason::OutcomeUnknown, text, now);
            let askable = overdue()
                .filter(outbox::processable_after.gt(now))
                .filter(outbox::updated_at.le(now.minus(sweep.askable_after)))
                .filter(outbox::claimed_by.is_null());
            diesel::update(askable)
                .set((
                    outbox::processable_after.eq(now),
                    outbox::next_retry_at.eq(None::<Moment>),
                ))
                .execute(conn)
                .await?;
            Ok::<_, StoreError>(ended)
        })
    }

    /// Retells the moments of at most `step` rows that a clock wrote which was ahead: they wait for as
    /// long as they were meant to, from now on.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn retell(&self, sweep: &Sweep, step: i64) -> Result<usize, StoreError> {
        in_transaction!(self, |conn, now| {
            let live = now.live();
            let (first, last) = (now.minus(CENTURY), now.plus(CENTURY));
            let ahead = || {
                outbox::table
                    .filter(ours())
                    .filter(outbox::updated_at.gt(live.plus(AHEAD)))
                    .filter(outbox::updated_at.lt(last))
                    .filter(outbox::processable_after.between(first, last))
                    .filter(
                        outbox::next_retry_at
                            .is_null()
                            .or(outbox::next_retry_at.assume_not_null().between(first, last)),
                    )
            };
            let mut ids: Vec<Id> = ahead().limit(step).select(outbox::id).load(conn).await?;
            if ids.is_empty() {
                return Ok::<usize, StoreError>(0);
            }
            ids.sort_unstable();
            let due = Retold::new(live, "processable_after");
            let full_lease = live.plus(sweep.lease);
            let held = outbox::claimed_by.is_not_null();
            let retold = diesel::update(ahead().filter(outbox::id.eq_any(&ids)))
                .set((
                    outbox::processable_after.eq(case_when(
                        held.and(due.lt(full_lease)),
                        full_lease,
                    )
                    .when(due.lt(live), live)
                    .otherwise(due)),
                    outbox::next_retry_at.eq(Retold::new(live, "next_retry_at").nullable()),
                    outbox::updated_at.eq(live),
                ))
                .execute(conn)
                .await?;
            Ok(retold)
        })
    }

    /// Pulls back rows that are due later than any wait of ours: a wrong clock or hand wrote them. One
    /// with a holder waits for a lease: the holder may be alive.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn pull_back(&self, sweep: &Sweep) -> Result<usize, StoreError> {
        let latest = sweep.latest_due;
        in_transaction!(self, |conn, now| {
            let now = now.live();
            let held = outbox::claimed_by.is_not_null();
            let pulled = diesel::update(
                outbox::table.filter(ours()).filter(
                    outbox::processable_after
                        .gt(now.plus(latest))
                        .or(outbox::next_retry_at
                            .is_not_null()
                            .and(outbox::next_retry_at.assume_not_null().gt(now.plus(latest)))),
                ),
            )
            .set((
                outbox::processable_after.eq(case_when(held, now.plus(sweep.lease)).otherwise(now)),
                outbox::next_retry_at.eq(None::<Moment>),
                outbox::updated_at.eq(now),
            ))
            .execute(conn)
            .await?;
            Ok::<_, StoreError>(pulled)
        })
    }

    /// Parks rows of channels that no version here knows, so that they are seen.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn park_unknown_channels(&self) -> Result<usize, StoreError> {
        let unknown = unknown_channel_sql();
        in_transaction!(self, |conn, now| {
            let strangers = outbox::table.filter(ours()).filter(sql::<Bool>(&unknown));
            let text = "this version knows no such channel";
            let parked = fail!(conn, strangers, Reason::Unreadable, text, now);
            Ok::<_, StoreError>(parked)
        })
    }

    /// Removes at most `step` rows that are `SENT` or `CANCELED` for longer than `retention`, and
    /// counts them in the same transaction. Returns how many.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn purge(&self, retention: Duration, step: i64) -> Result<usize, StoreError> {
        in_transaction!(self, |conn, now| {
            let mut old: Vec<Id> = outbox::table
                .filter(sql::<Bool>(REMOVABLE))
                .filter(outbox::updated_at.le(now.minus(retention)))
                .order(outbox::updated_at)
                .limit(step)
                .select(outbox::id)
                .load(conn)
                .await?;
            if old.is_empty() {
                return Ok::<usize, StoreError>(0);
            }
            old.sort_unstable();
            // A row that was replayed meanwhile is not removable any more.
            let removed = diesel::delete(
                outbox::table
                    .filter(outbox::id.eq_any(&old))
                    .filter(sql::<Bool>(REMOVABLE)),
            )
            .execute(conn)
            .await?;
            let counted = i64::try_from(removed).unwrap_or(i64::MAX);
            diesel::update(totals::table.filter(totals::name.eq("purged")))
                .set(totals::value.eq(totals::value + counted))
                .execute(conn)
                .await?;
            Ok(removed)
        })
    }

    /// Blanks personal data of at most `step` rows that are `FAILED` for longer than `age`.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn blank_failed(&self, age: Duration, step: i64) -> Result<usize, StoreError> {
        in_transaction!(self, |conn, now| {
            let old: Vec<Id> = outbox::table
                .filter(sql::<Bool>("outbox.status = 'FAILED'"))
                .filter(outbox::updated_at.le(now.minus(age)))
                .filter(outbox::recipient.ne(""))
                .order(outbox::id)
                .limit(step)
                .select(outbox::id)
                .load(conn)
                .await?;
            diesel::update(attempts::table.filter(attempts::outbox_id.eq_any(&old)))
                .set(attempts::error.eq(None::<String>))
                .execute(conn)
                .await?;
            let blanked = diesel::update(
                outbox::table
                    .filter(outbox::id.eq_any(&old))
                    .filter(sql::<Bool>("outbox.status = 'FAILED'")),
            )
            .set((
                outbox::recipient.eq(""),
                outbox::payload.eq(r#"{"body":""}"#),
                outbox::last_error.eq(None::<String>),
            ))
            .execute(conn)
            .await?;
            Ok::<_, StoreError>(blanked)
        })
    }
}
