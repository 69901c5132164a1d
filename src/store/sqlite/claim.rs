//! Taking due rows: read and written in one immediate transaction, which nobody else can enter.

use diesel::SqliteConnection;
use diesel::dsl::{auto_type, sql};
use diesel::prelude::*;
use diesel::sql_types::Bool;

use super::immediately;
use crate::payment::PAYLOAD_VERSION;
use crate::store::schema::outbox;
use crate::store::sql_types::{Id, Moment, Now};
use crate::store::{Claim, HeldRow};

// The partial indexes are used only when these are literals.
const UNSUSPECTED: &str = "outbox.status = 'PENDING' AND lost_leases < 2";
const SUSPECT: &str = "outbox.status = 'PENDING' AND lost_leases >= 2";

/// The rows that a claim may take, oldest first.
#[auto_type(no_type_alias)]
pub(in crate::store) fn due<'a>(claim: &'a Claim, now: Now) -> _ {
    let standing: diesel::expression::SqlLiteral<Bool> = sql(standing(claim));
    let channel: &'a str = claim.channel.as_str();
    let since: Moment = claim.since;
    let held: Vec<Id> = claim.held_ids();
    let limit: i64 = claim.limit_i64();
    let readable: i32 = PAYLOAD_VERSION;
    outbox::table
        .filter(standing)
        .filter(outbox::channel.eq(channel))
        .filter(outbox::processable_after.le(now))
        .filter(outbox::processable_after.ge(since))
        .filter(
            outbox::next_retry_at
                .is_null()
                .or(outbox::next_retry_at.assume_not_null().le(now)),
        )
        .filter(outbox::payload_version.le(readable))
        .filter(outbox::id.ne_all(held))
        .order(outbox::processable_after)
        .limit(limit)
}

fn standing(claim: &Claim) -> &'static str {
    if claim.suspects { SUSPECT } else { UNSUSPECTED }
}

/// A due row as it stands before it is taken.
#[derive(Queryable, Selectable)]
#[diesel(table_name = outbox)]
struct Due {
    id: Id,
    payment_id: Id,
    event_type: String,
    provider: String,
    recipient: String,
    payload: String,
    reference: String,
    attempts: i32,
    deferrals: i32,
    lost_leases: i32,
    replays: i32,
    epoch: i64,
    maybe_sent: bool,
    expires_at: Moment,
    processable_after: Moment,
    // Not who it is: what a hand wrote there need not be an id.
    #[diesel(select_expression = outbox::claimed_by.is_not_null())]
    abandoned: bool,
}

/// Claims due rows for their new holder.
pub fn claim(conn: &mut SqliteConnection, claim: &Claim, now: Now) -> QueryResult<Vec<HeldRow>> {
    immediately(conn, |conn| {
        let found: Vec<Due> = due(claim, now).select(Due::as_select()).load(conn)?;
        found
            .into_iter()
            .map(|due| take(conn, claim, now, due))
            .collect()
    })
}

fn take(conn: &mut SqliteConnection, claim: &Claim, now: Now, due: Due) -> QueryResult<HeldRow> {
    // A name on an ended lease: its holder is gone, and may have sent the row.
    let abandoned = due.abandoned;
    let held = HeldRow {
        id: due.id,
        payment_id: due.payment_id,
        event_type: due.event_type,
        provider: due.provider,
        recipient: due.recipient,
        payload: due.payload,
        reference: due.reference,
        attempts: due.attempts,
        deferrals: due.deferrals,
        lost_leases: due.lost_leases.saturating_add(i32::from(abandoned)),
        replays: due.replays,
        epoch: due.epoch.saturating_add(1),
        maybe_sent: due.maybe_sent || abandoned,
        expired: due.expires_at <= now.embedded(),
        due_since: due.processable_after,
    };
    diesel::update(outbox::table.filter(outbox::id.eq(held.id)))
        .set((
            outbox::epoch.eq(held.epoch),
            outbox::lost_leases.eq(held.lost_leases),
            outbox::maybe_sent.eq(held.maybe_sent),
            outbox::claimed_by.eq(Some(Id(claim.holder))),
            outbox::processable_after.eq(now.plus(claim.lease).embedded()),
            outbox::updated_at.eq(now.embedded()),
        ))
        .execute(conn)?;
    Ok(held)
}
