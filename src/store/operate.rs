//! What operators do to rows: replay, cancel, and the release of rows that were not sent.

use std::collections::BTreeMap;
use std::time::Duration;

use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::dispatch::{in_transaction, on_either};
use super::error::Conflict;
use super::filter::filtered;
use super::schema::{attempts, outbox, payments};
use super::sql_types::{Id, Moment, Now};
use super::{OutboxFilter, Store, StoreError};
use crate::payment::{Happening, Status};

/// A row before an operator's change.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = outbox)]
pub(super) struct Replayable {
    id: Id,
    recipient: String,
    provider: String,
    reference: String,
    status: String,
    attempts: i32,
    replays: i32,
    epoch: i64,
    claimed_by: Option<Id>,
    maybe_sent: bool,
    processable_after: Moment,
}

/// What an operator wants of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Back to `PENDING`; with `force` also from `SENT`.
    Replay {
        /// Send again what was sent.
        force: bool,
    },
    /// No further attempt; with `force` also while a request is out.
    Cancel {
        /// Do not wait for the holder.
        force: bool,
    },
}

impl Replayable {
    fn lease_left(&self, now: Moment) -> Option<Duration> {
        let left = now.seconds_until(self.processable_after);
        (self.claimed_by.is_some() && left > 0.0).then(|| Duration::from_secs_f64(left))
    }

    /// Whether the change fits the row's state.
    fn permits(&self, change: Change, now: Moment) -> Result<(), StoreError> {
        let status = Status::parse(&self.status);
        match (change, status) {
            (_, None) => refuse(format!(
                "the row's status {:?} is unknown to this version: leave it to the one that wrote it",
                self.status
            )),
            (Change::Replay { .. }, Some(Status::Pending)) => {
                refuse("the row is PENDING: it is tried again by itself".to_owned())
            }
            (Change::Replay { force: false }, Some(Status::Sent)) => refuse(
                "the row is SENT: {\"force\": true} sends it a second time".to_owned(),
            ),
            (Change::Replay { .. }, Some(_)) if self.recipient.is_empty() => refuse(
                "the row's recipient was removed by retention: post the payment's notification anew"
                    .to_owned(),
            ),
            (Change::Cancel { .. }, Some(Status::Sent)) => {
                refuse("the row is SENT: there is nothing left to cancel".to_owned())
            }
            (Change::Cancel { .. }, Some(Status::Canceled)) => {
                refuse("the row is CANCELED already".to_owned())
            }
            (Change::Cancel { force: false }, Some(_)) => match self.lease_left(now) {
                Some(left) => Err(StoreError::Conflict(Conflict {
                    detail: "the row is being sent at this moment: try again when its lease has \
                             ended, or {\"force\": true} cancels what comes after"
                        .to_owned(),
                    retry_after: Some(left),
                })),
                None => Ok(()),
            },
            (Change::Replay { .. } | Change::Cancel { force: true }, Some(_)) => Ok(()),
        }
    }

    /// Due now; but not while a request of a holder may be out, and not before the provider can be
    /// asked about one.
    fn due_after_replay(&self, now: Moment) -> Moment {
        if self.maybe_sent || self.lease_left(now).is_some() {
            self.processable_after.max(now)
        } else {
            now
        }
    }

    /// The provider must not take a message of known outcome for the earlier one. One that it may
    /// have got keeps its reference, so that it can be asked about.
    fn next_reference(&self) -> String {
        if self.maybe_sent || self.claimed_by.is_some() {
            self.reference.clone()
        } else {
            format!("{}.{}", self.id.0, self.replays.saturating_add(1))
        }
    }
}

fn refuse(detail: String) -> Result<(), StoreError> {
    Err(StoreError::Conflict(Conflict {
        detail,
        retry_after: None,
    }))
}

/// Writes one change to a row that was read in the same transaction. The epoch rises, so whoever
/// still holds the row has lost it; a holder's name stays, so that the next claim asks first.
macro_rules! apply {
    ($conn:expr, $row:expr, $change:expr, $now:expr, $now_moment:expr, $give_up:expr) => {{
        let row: &Replayable = $row;
        let now: Now = $now;
        let epoch = row.epoch.saturating_add(1);
        let same_row = outbox::table
            .filter(outbox::id.eq(row.id))
            .filter(outbox::epoch.eq(row.epoch))
            .filter(outbox::status.eq(&row.status));
        let (happening, changed) = match $change {
            Change::Replay { .. } => {
                let due = row.due_after_replay($now_moment);
                let changed = diesel::update(same_row)
                    .set((
                        outbox::status.eq(Status::Pending.as_str()),
                        outbox::reason.eq(None::<String>),
                        outbox::reference.eq(row.next_reference()),
                        outbox::attempts.eq(0),
                        outbox::deferrals.eq(0),
                        outbox::lost_leases.eq(0),
                        outbox::replays.eq(row.replays.saturating_add(1)),
                        outbox::epoch.eq(epoch),
                        outbox::processable_after.eq(due),
                        outbox::next_retry_at.eq(None::<Moment>),
                        outbox::expires_at.eq(now.plus($give_up)),
                        outbox::sent_at.eq(None::<Moment>),
                        outbox::updated_at.eq(now),
                    ))
                    .execute($conn)
                    .await?;
                (Happening::Replayed, changed)
            }
            Change::Cancel { .. } => {
                let changed = diesel::update(same_row)
                    .set((
                        outbox::status.eq(Status::Canceled.as_str()),
                        outbox::reason.eq(None::<String>),
                        outbox::epoch.eq(epoch),
                        outbox::next_retry_at.eq(None::<Moment>),
                        outbox::last_error.eq("canceled by an operator"),
                        outbox::updated_at.eq(now),
                    ))
                    .execute($conn)
                    .await?;
                (Happening::Canceled, changed)
            }
        };
        if changed == 1 {
            diesel::insert_into(attempts::table)
                .values((
                    attempts::outbox_id.eq(row.id),
                    attempts::epoch.eq(epoch),
                    attempts::attempt.eq(row.attempts),
                    attempts::started_at.eq(now),
                    attempts::finished_at.eq(now),
                    attempts::outcome.eq(happening.as_str()),
                    attempts::provider.eq(&row.provider),
                    attempts::times.eq(1),
                ))
                .on_conflict_do_nothing()
                .execute($conn)
                .await?;
        }
        changed == 1
    }};
}

impl Store {
    /// Replays or cancels one row. Returns whether it is there.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when its state does not allow it, or any of the database.
    pub async fn change(
        &self,
        id: Uuid,
        change: Change,
        give_up: Duration,
    ) -> Result<bool, StoreError> {
        in_transaction!(self, |conn, now| {
            let row: Option<Replayable> = outbox::table
                .filter(outbox::id.eq(Id(id)))
                .select(Replayable::as_select())
                .first(conn)
                .await
                .optional()?;
            let Some(row) = row else {
                return Ok::<bool, StoreError>(false);
            };
            let moment: Moment = diesel::select(now).get_result(conn).await?;
            row.permits(change, moment)?;
            if !apply!(conn, &row, change, now, moment, give_up) {
                refuse("the row changed at the same moment: look at it again".to_owned())?;
            }
            Ok(true)
        })
    }

    /// How many rows a filter means.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn matching(&self, filter: &OutboxFilter) -> Result<i64, StoreError> {
        on_either!(self, |conn| {
            let query = outbox::table
                .inner_join(payments::table)
                .select(diesel::dsl::count_star())
                .into_boxed::<Db>();
            filtered!(query, filter).first(conn).await
        })
    }

    /// Replays at most `step` rows that a filter means, with ids above `after`. Returns the last id
    /// looked at, how many were replayed, and whether there may be more.
    ///
    /// # Errors
    /// Any of the database; the step is rolled back.
    pub async fn replay_step(
        &self,
        filter: &OutboxFilter,
        after: Uuid,
        step: i64,
        give_up: Duration,
    ) -> Result<Option<(Uuid, u64)>, StoreError> {
        in_transaction!(self, |conn, now| {
            let query = outbox::table
                .inner_join(payments::table)
                .filter(outbox::id.gt(Id(after)))
                .order(outbox::id)
                .limit(step)
                .select(Replayable::as_select())
                .into_boxed::<Db>();
            let rows: Vec<Replayable> = filtered!(query, filter).load(conn).await?;
            let Some(last) = rows.last().map(|row| row.id.0) else {
                return Ok::<_, StoreError>(None);
            };
            let moment: Moment = diesel::select(now).get_result(conn).await?;
            let change = Change::Replay { force: false };
            let mut replayed = 0;
            for row in rows
                .iter()
                .filter(|row| row.permits(change, moment).is_ok())
            {
                if apply!(conn, row, change, now, moment, give_up) {
                    replayed += 1;
                }
            }
            Ok(Some((last, replayed)))
        })
    }

    /// Lets go of rows whose request has not begun: nobody's, due now, nothing counted.
    ///
    /// # Errors
    /// Any of the database; the rows may have been released all the same.
    pub async fn release(&self, holder: Uuid, rows: &[(Uuid, i64)]) -> Result<(), StoreError> {
        let mut by_epoch: BTreeMap<i64, Vec<Id>> = BTreeMap::new();
        for (id, epoch) in rows {
            by_epoch.entry(*epoch).or_default().push(Id(*id));
        }
        in_transaction!(self, |conn, now| {
            for (epoch, ids) in &mut by_epoch {
                ids.sort_unstable();
                diesel::update(
                    outbox::table
                        .filter(outbox::id.eq_any(&*ids))
                        .filter(outbox::status.eq(Status::Pending.as_str()))
                        .filter(outbox::epoch.eq(*epoch))
                        .filter(outbox::claimed_by.eq(Some(Id(holder)))),
                )
                .set((
                    outbox::claimed_by.eq(None::<Id>),
                    outbox::processable_after.eq(now),
                    outbox::updated_at.eq(now),
                ))
                .execute(conn)
                .await?;
            }
            Ok::<(), StoreError>(())
        })
    }

    /// Notes that a row's lease was lost to another holder.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn remember_lost_lease(
        &self,
        id: Uuid,
        epoch: i64,
        attempt: i32,
        provider: &str,
    ) -> Result<(), StoreError> {
        in_transaction!(self, |conn, now| {
            diesel::insert_into(attempts::table)
                .values((
                    attempts::outbox_id.eq(Id(id)),
                    attempts::epoch.eq(epoch),
                    attempts::attempt.eq(attempt),
                    attempts::started_at.eq(now),
                    attempts::finished_at.eq(now),
                    attempts::outcome.eq(Happening::LeaseLost.as_str()),
                    attempts::provider.eq(provider),
                    attempts::times.eq(1),
                ))
                .on_conflict_do_nothing()
                .execute(conn)
                .await?;
            Ok::<(), StoreError>(())
        })
    }
}
