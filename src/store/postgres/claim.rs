//! Taking due rows: one autocommitted statement, so no lock outlives it.

use diesel::pg::Pg;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text};

use crate::payment::PAYLOAD_VERSION;
use crate::store::Claim;
use crate::store::sql_types::{Id, Moment, MomentSql, UuidSql, micros};
use crate::store::statement::statement;

// A number at its end, which only a hand can have written, must not fail the claim for all.
macro_rules! claim_sql {
    ($suspicion:literal) => {
        concat!(
            "\
WITH due AS (
  SELECT id, processable_after AS due_since, expires_at <= now() AS expired
  FROM outbox
  WHERE channel = ? AND status = 'PENDING' AND ",
            $suspicion,
            "
    AND processable_after <= now() AND processable_after >= ?
    AND (next_retry_at IS NULL OR next_retry_at <= now())
    AND payload_version <= ? AND id <> ALL (?)
  ORDER BY processable_after
  LIMIT ?
  FOR UPDATE SKIP LOCKED
)
UPDATE outbox AS o
SET epoch = least(o.epoch, 9223372036854775806) + 1,
    lost_leases = least(o.lost_leases, 2147483646) + (o.claimed_by IS NOT NULL)::integer,
    maybe_sent = o.maybe_sent OR o.claimed_by IS NOT NULL,
    claimed_by = ?,
    processable_after = now() + ? * interval '1 microsecond',
    updated_at = now()
FROM due
WHERE o.id = due.id
RETURNING o.id, o.payment_id, o.event_type, o.provider, o.recipient, o.payload, o.reference,
          o.attempts, o.deferrals, o.lost_leases, o.replays, o.epoch, o.maybe_sent,
          due.expired, due.due_since"
        )
    };
}

/// The statements whose plans a test looks at.
pub(in crate::store) const CLAIM: &str = claim_sql!("lost_leases < 2");
pub(in crate::store) const CLAIM_SUSPECT: &str = claim_sql!("lost_leases >= 2");

statement! {
    /// Claims rows that nothing speaks against.
    ClaimDue on Pg => (
        UuidSql, UuidSql, Text, Text, Text, Text, Text,
        Integer, Integer, Integer, Integer, BigInt, Bool, Bool, MomentSql,
    );
    sql: CLAIM;
    channel: Text = String,
    since: MomentSql = Moment,
    payload_version: Integer = i32,
    held: Array<UuidSql> = Vec<Id>,
    limit: BigInt = i64,
    holder: Nullable<UuidSql> = Option<Id>,
    lease: BigInt = i64,
}

statement! {
    /// Claims rows whose holders died on them before.
    ClaimSuspect on Pg => (
        UuidSql, UuidSql, Text, Text, Text, Text, Text,
        Integer, Integer, Integer, Integer, BigInt, Bool, Bool, MomentSql,
    );
    sql: CLAIM_SUSPECT;
    channel: Text = String,
    since: MomentSql = Moment,
    payload_version: Integer = i32,
    held: Array<UuidSql> = Vec<Id>,
    limit: BigInt = i64,
    holder: Nullable<UuidSql> = Option<Id>,
    lease: BigInt = i64,
}

macro_rules! from_claim {
    ($statement:ident) => {
        impl From<&Claim> for $statement {
            fn from(claim: &Claim) -> Self {
                Self {
                    channel: claim.channel.as_str().to_owned(),
                    since: claim.since,
                    payload_version: PAYLOAD_VERSION,
                    held: claim.held.iter().copied().map(Id).collect(),
                    limit: claim.limit_i64(),
                    holder: Some(Id(claim.holder)),
                    lease: micros(claim.lease),
                }
            }
        }
    };
}

from_claim!(ClaimDue);
from_claim!(ClaimSuspect);
