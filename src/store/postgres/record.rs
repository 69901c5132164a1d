//! A batch of payments in one statement: what its INSERT did not take is a repeat, looked up after.

use diesel::dsl::auto_type;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Integer, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use crate::payment::PAYLOAD_VERSION;
use crate::store::schema::payments;
use crate::store::sql_types::{Id, Moment, MomentSql, UuidSql};
use crate::store::statement::statement;
use crate::store::verdict::{Known, KnownColumns, Verdicts};
use crate::store::{Lease, NewPayment, Verdict};

// ON CONFLICT names no target: it covers the id (our own first try, whose answer was lost) and the
// idempotency key alike. Only payments that were inserted get outbox rows.
const RECORD: &str = "\
WITH recorded AS (
  INSERT INTO payments (id, client, order_id, amount, currency, status, description, locale,
                        idempotency_key, fingerprint, response, notification_count, created_at)
  SELECT id, client, order_id, amount, currency, 'APPROVED', description, locale,
         idempotency_key, fingerprint, response, notification_count, created_at
  FROM unnest(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       AS p(id, client, order_id, amount, currency, description, locale,
            idempotency_key, fingerprint, response, notification_count, created_at)
  ON CONFLICT DO NOTHING
  RETURNING id
), notifications AS (
  INSERT INTO outbox (id, payment_id, event_type, channel, provider, recipient, payload,
                      payload_version, reference, status, attempts, deferrals, lost_leases,
                      replays, epoch, claimed_by, maybe_sent, processable_after, expires_at,
                      created_at, updated_at)
  SELECT o.id, o.payment_id, o.event_type, o.channel, o.provider, o.recipient, o.payload,
         ?, o.id::text, 'PENDING', 0, 0, 0,
         0, o.leased::integer, CASE WHEN o.leased THEN ? END, false,
         now() + o.leased::integer * ? * interval '1 microsecond',
         now() + ? * interval '1 microsecond', o.created_at, now()
  FROM unnest(?, ?, ?, ?, ?, ?, ?, ?, ?)
       AS o(id, payment_id, event_type, channel, provider, recipient, payload, leased, created_at)
  JOIN recorded ON recorded.id = o.payment_id
)
SELECT id FROM recorded";

statement! {
    /// Inserts what is new and tells which payments that were.
    Record on Pg => UuidSql;
    sql: RECORD;
    ids: Array<UuidSql> = Vec<Id>,
    clients: Array<Text> = Vec<String>,
    order_ids: Array<Text> = Vec<String>,
    amounts: Array<BigInt> = Vec<i64>,
    currencies: Array<Text> = Vec<String>,
    descriptions: Array<Nullable<Text>> = Vec<Option<String>>,
    locales: Array<Nullable<Text>> = Vec<Option<String>>,
    keys: Array<Nullable<Text>> = Vec<Option<String>>,
    fingerprints: Array<Nullable<Binary>> = Vec<Option<Vec<u8>>>,
    responses: Array<Binary> = Vec<Vec<u8>>,
    counts: Array<Integer> = Vec<i32>,
    created: Array<MomentSql> = Vec<Moment>,
    payload_version: Integer = i32,
    me: UuidSql = Id,
    lease: BigInt = i64,
    give_up: BigInt = i64,
    row_ids: Array<UuidSql> = Vec<Id>,
    row_payments: Array<UuidSql> = Vec<Id>,
    row_events: Array<Text> = Vec<String>,
    row_channels: Array<Text> = Vec<String>,
    row_providers: Array<Text> = Vec<String>,
    row_recipients: Array<Text> = Vec<String>,
    row_payloads: Array<Text> = Vec<String>,
    row_leased: Array<Bool> = Vec<bool>,
    row_created: Array<MomentSql> = Vec<Moment>,
}

impl Record {
    fn of(batch: &[NewPayment], lease: &Lease) -> Self {
        let size = batch.len();
        let mut record = Self {
            ids: Vec::with_capacity(size),
            clients: Vec::with_capacity(size),
            order_ids: Vec::with_capacity(size),
            amounts: Vec::with_capacity(size),
            currencies: Vec::with_capacity(size),
            descriptions: Vec::with_capacity(size),
            locales: Vec::with_capacity(size),
            keys: Vec::with_capacity(size),
            fingerprints: Vec::with_capacity(size),
            responses: Vec::with_capacity(size),
            counts: Vec::with_capacity(size),
            created: Vec::with_capacity(size),
            payload_version: PAYLOAD_VERSION,
            me: Id(lease.holder),
            lease: lease.length_micros(),
            give_up: lease.give_up_micros(),
            row_ids: Vec::with_capacity(size * 2),
            row_payments: Vec::with_capacity(size * 2),
            row_events: Vec::with_capacity(size * 2),
            row_channels: Vec::with_capacity(size * 2),
            row_providers: Vec::with_capacity(size * 2),
            row_recipients: Vec::with_capacity(size * 2),
            row_payloads: Vec::with_capacity(size * 2),
            row_leased: Vec::with_capacity(size * 2),
            row_created: Vec::with_capacity(size * 2),
        };
        for new in batch {
            record.push(new);
        }
        record
    }

    fn push(&mut self, new: &NewPayment) {
        let payment = &new.payment;
        let created = Moment::from(payment.created_at);
        let idempotency = new.idempotency.as_ref();
        self.ids.push(Id(payment.id));
        self.clients.push(payment.client.clone());
        self.order_ids.push(payment.order_id.clone());
        self.amounts.push(payment.amount);
        self.currencies.push(payment.currency.to_string());
        self.descriptions.push(payment.description.clone());
        self.locales.push(payment.locale.clone());
        self.keys.push(idempotency.map(|i| i.key.clone()));
        self.fingerprints
            .push(idempotency.map(|i| i.fingerprint.to_vec()));
        self.responses.push(new.response.to_vec());
        self.counts.push(new.notification_count());
        self.created.push(created);
        for row in new.rows() {
            self.row_ids.push(row.id);
            self.row_payments.push(Id(payment.id));
            self.row_events.push(row.event_type.to_owned());
            self.row_channels.push(row.channel.to_owned());
            self.row_providers.push(row.provider.to_owned());
            self.row_recipients.push(row.recipient.to_owned());
            self.row_payloads.push(row.payload);
            self.row_leased.push(row.leased);
            self.row_created.push(created);
        }
    }
}

/// Records a batch; one verdict a payment, in the batch's order.
pub async fn record(
    conn: &mut AsyncPgConnection,
    batch: &[NewPayment],
    lease: &Lease,
) -> QueryResult<Vec<Verdict>> {
    let recorded: Vec<Id> = Record::of(batch, lease).load(conn).await?;
    let mut verdicts = Verdicts::new(batch, recorded);
    let missing = verdicts.missing();
    if !missing.is_empty() {
        verdicts.learn(known(conn, &missing).await?);
    }
    verdicts.finish()
}

async fn known(conn: &mut AsyncPgConnection, missing: &[&NewPayment]) -> QueryResult<Vec<Known>> {
    let ids = missing.iter().map(|new| Id(new.payment.id)).collect();
    let (clients, keys) = missing
        .iter()
        .filter_map(|new| {
            let idempotency = new.idempotency.as_ref()?;
            Some((new.payment.client.clone(), idempotency.key.clone()))
        })
        .unzip();
    stored(ids, clients, keys).load(conn).await
}

/// Payments by id, or by any pair of client and key. Naming the clients, of whom there are few, is
/// what lets the key's index serve.
#[auto_type(no_type_alias)]
pub(in crate::store) fn stored(ids: Vec<Id>, clients: Vec<String>, keys: Vec<String>) -> _ {
    let columns: KnownColumns = Known::columns();
    payments::table
        .filter(
            payments::id.eq_any(ids).or(payments::client
                .eq_any(clients)
                .and(payments::idempotency_key.eq_any(keys).assume_not_null())),
        )
        .select(columns)
}
