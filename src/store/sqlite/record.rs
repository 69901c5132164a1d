//! A batch of payments in one immediate transaction, row by row with kept statements.

use diesel::SqliteConnection;
use diesel::prelude::*;

use super::immediately;
use crate::payment::{PAYLOAD_VERSION, Status};
use crate::store::schema::{outbox, payments};
use crate::store::sql_types::{Id, Moment, Now};
use crate::store::verdict::{Known, Verdicts};
use crate::store::{Lease, NewPayment, Verdict};

/// Records a batch; one verdict a payment, in the batch's order.
pub fn record(
    conn: &mut SqliteConnection,
    batch: &[NewPayment],
    lease: &Lease,
    now: Now,
) -> QueryResult<Vec<Verdict>> {
    immediately(conn, |conn| {
        let mut recorded = Vec::with_capacity(batch.len());
        for new in batch {
            if insert_payment(conn, new)? {
                insert_rows(conn, new, lease, now)?;
                recorded.push(Id(new.payment.id));
            }
        }
        let mut verdicts = Verdicts::new(batch, recorded);
        for new in verdicts.missing() {
            verdicts.learn(known(conn, new)?);
        }
        verdicts.finish()
    })
}

fn insert_payment(conn: &mut SqliteConnection, new: &NewPayment) -> QueryResult<bool> {
    let payment = &new.payment;
    let idempotency = new.idempotency.as_ref();
    let inserted = diesel::insert_into(payments::table)
        .values((
            payments::id.eq(Id(payment.id)),
            payments::client.eq(&payment.client),
            payments::order_id.eq(&payment.order_id),
            payments::amount.eq(payment.amount),
            payments::currency.eq(payment.currency.to_string()),
            payments::status.eq("APPROVED"),
            payments::description.eq(payment.description.as_deref()),
            payments::locale.eq(payment.locale.as_deref()),
            payments::idempotency_key.eq(idempotency.map(|i| i.key.as_str())),
            payments::fingerprint.eq(idempotency.map(|i| i.fingerprint.as_slice())),
            payments::response.eq(new.response.as_ref()),
            payments::notification_count.eq(new.notification_count()),
            payments::created_at.eq(Moment::from(payment.created_at)),
        ))
        .on_conflict_do_nothing()
        .execute(conn)?;
    Ok(inserted == 1)
}

fn insert_rows(
    conn: &mut SqliteConnection,
    new: &NewPayment,
    lease: &Lease,
    now: Now,
) -> QueryResult<()> {
    for row in new.rows() {
        let (holder, processable_after) = if row.leased {
            (Some(Id(lease.holder)), now.plus(lease.length).embedded())
        } else {
            (None, now.embedded())
        };
        diesel::insert_into(outbox::table)
            .values((
                outbox::id.eq(row.id),
                outbox::payment_id.eq(Id(new.payment.id)),
                outbox::event_type.eq(row.event_type),
                outbox::channel.eq(row.channel),
                outbox::provider.eq(row.provider),
                outbox::recipient.eq(row.recipient),
                outbox::payload.eq(&row.payload),
                outbox::payload_version.eq(PAYLOAD_VERSION),
                outbox::reference.eq(row.id.0.to_string()),
                outbox::status.eq(Status::Pending.as_str()),
                (
                    outbox::attempts.eq(0),
                    outbox::deferrals.eq(0),
                    outbox::lost_leases.eq(0),
                    outbox::replays.eq(0),
                    outbox::epoch.eq(i64::from(row.leased)),
                    outbox::claimed_by.eq(holder),
                    outbox::maybe_sent.eq(false),
                    outbox::processable_after.eq(processable_after),
                    outbox::expires_at.eq(now.plus(lease.give_up).embedded()),
                    outbox::created_at.eq(Moment::from(new.payment.created_at)),
                    outbox::updated_at.eq(now.embedded()),
                ),
            ))
            .execute(conn)?;
    }
    Ok(())
}

fn known(conn: &mut SqliteConnection, new: &NewPayment) -> QueryResult<Vec<Known>> {
    let mut known = payments::table
        .filter(payments::id.eq(Id(new.payment.id)))
        .select(Known::columns())
        .load(conn)?;
    if let Some(idempotency) = &new.idempotency {
        known.extend(
            payments::table
                .filter(payments::client.eq(&new.payment.client))
                .filter(payments::idempotency_key.eq(&idempotency.key))
                .select(Known::columns())
                .load(conn)?,
        );
    }
    Ok(known)
}
