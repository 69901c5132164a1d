//! The store by itself, and a look at its rows that does not go through it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use paybell::config::{DatabaseConfig, Env};
use paybell::payment::{Channel, Currency, Notification, Payload, Payment, Recipient, Status};
use paybell::store::{
    Birth, Claim, HeldRow, Idempotency, Lease, Moment, NewPayment, Settlement, Store, Verdict,
};
use uuid::Uuid;

use super::database::Database;

/// Time from birth to giving up.
pub const GIVE_UP: Duration = Duration::from_secs(3600);
/// Length of every lease.
pub const LEASE: Duration = Duration::from_secs(60);

/// A migrated database with its store.
pub struct Books {
    pub store: Store,
    pub database: Database,
}

impl Books {
    /// Opens the store and brings its schema up to date.
    pub async fn open(database: Database) -> Self {
        let store = open(&database).await;
        store.migrate().await.unwrap();
        Self { store, database }
    }

    /// SQL of an id.
    pub fn id(&self, id: Uuid) -> String {
        if self.database.is_sqlite() {
            format!("x'{}'", id.simple())
        } else {
            format!("'{id}'::uuid")
        }
    }

    /// SQL of the moment so many seconds from now.
    pub fn now(&self, seconds: i64) -> String {
        if self.database.is_sqlite() {
            let now = Utc::now().timestamp_micros();
            (now + seconds * 1_000_000).to_string()
        } else {
            format!("(now() + {seconds} * interval '1 second')")
        }
    }

    /// Records one payment that must be new.
    pub async fn record(&self, new: NewPayment, holder: Uuid) {
        let batch = Arc::new(vec![new]);
        let verdicts = self.store.record(batch, lease(holder)).await.unwrap();
        assert_eq!(verdicts, [Verdict::Recorded]);
    }

    /// A row that is due and nobody's.
    pub async fn due_row(&self) -> Uuid {
        let new = due(payment());
        let id = new.payment.notifications[0].id;
        self.record(new, Uuid::nil()).await;
        id
    }

    /// A row under a live lease of `holder`, which takes every other due SMS row along.
    pub async fn held_row(&self, holder: Uuid) -> HeldRow {
        let id = self.due_row().await;
        let held = self.store.claim(claim(holder)).await.unwrap();
        held.into_iter()
            .find(|row| row.id.0 == id)
            .expect("the row is not claimed")
    }

    /// Changes a row as an operator at the database's own prompt would.
    pub async fn set(&self, id: Uuid, assignments: &str) {
        let sql = format!("UPDATE outbox SET {assignments} WHERE id = {}", self.id(id));
        self.database.execute(&sql).await;
    }

    /// Asserts conditions (SQL) on a row, naming those that do not hold.
    pub async fn assert_row(&self, id: Uuid, conditions: &[&str]) {
        let from = format!("outbox WHERE id = {}", self.id(id));
        self.assert_one(&from, conditions).await;
    }

    /// Asserts conditions (SQL) on the one row that `from` gives.
    pub async fn assert_one(&self, from: &str, conditions: &[&str]) {
        let bits: Vec<String> = conditions
            .iter()
            .map(|condition| format!("CASE WHEN {condition} THEN 'y' ELSE 'n' END"))
            .collect();
        let sql = format!("SELECT {} FROM {from}", bits.join(" || "));
        let bits = self.database.text(&sql).await;
        let broken: Vec<&str> = conditions
            .iter()
            .zip(bits.chars())
            .filter(|(_, bit)| *bit != 'y')
            .map(|(condition, _)| *condition)
            .collect();
        assert!(broken.is_empty(), "{from}: not true: {broken:?}");
    }

    /// How many history entries of a row fulfil a condition.
    pub async fn entries(&self, id: Uuid, condition: &str) -> i64 {
        let sql = format!(
            "SELECT count(*) FROM attempts WHERE outbox_id = {} AND {condition}",
            self.id(id)
        );
        self.database.number(&sql).await
    }

    /// Writes outcomes; the ids that took theirs, sorted.
    pub async fn settle(&self, holder: Uuid, batch: &[Settlement]) -> Vec<Uuid> {
        let batch = Arc::new(batch.to_vec());
        let settled = self.store.settle(holder, batch).await.unwrap();
        let mut settled: Vec<Uuid> = settled.into_iter().collect();
        settled.sort_unstable();
        settled
    }
}

/// Opens the store without migrating.
pub async fn open(database: &Database) -> Store {
    open_url(database.url()).await.unwrap()
}

/// Opens the store of a URL.
pub async fn open_url(url: &str) -> Result<Store, paybell::store::StoreError> {
    let settings = [("DATABASE_URL", url), ("DATABASE_TIMEOUT_MS", "10000")];
    let env: Env = settings.into_iter().collect();
    let config = DatabaseConfig::from_env(&env).expect("the test's settings are wrong");
    Store::open(&config).await
}

/// What newly born rows get.
pub fn lease(holder: Uuid) -> Lease {
    Lease {
        holder,
        length: LEASE,
        give_up: GIVE_UP,
    }
}

/// A claim of SMS rows by `holder`.
pub fn claim(holder: Uuid) -> Claim {
    Claim {
        channel: Channel::Sms,
        holder,
        lease: LEASE,
        limit: 1000,
        held: Vec::new(),
        since: Moment::DISTANT_PAST,
        suspects: false,
    }
}

/// One SMS notification.
pub fn notification() -> Notification {
    Notification {
        id: Uuid::now_v7(),
        channel: Channel::Sms,
        recipient: Recipient::stored("+821012345678".to_owned()),
        payload: Payload {
            title: None,
            body: "paid".to_owned(),
            data: std::collections::BTreeMap::new(),
        },
    }
}

/// A payment with one SMS notification.
pub fn payment() -> Payment {
    Payment {
        id: Uuid::now_v7(),
        client: "shop".to_owned(),
        order_id: "order-1".to_owned(),
        amount: 15_000,
        currency: Currency::parse("KRW").unwrap(),
        description: None,
        locale: None,
        created_at: Utc::now(),
        notifications: vec![notification()],
    }
}

/// On its way into the database, born due.
pub fn due(payment: Payment) -> NewPayment {
    new(payment, false)
}

/// On its way into the database, born leased.
pub fn leased(payment: Payment) -> NewPayment {
    new(payment, true)
}

fn new(payment: Payment, leased: bool) -> NewPayment {
    let birth = Birth {
        provider: "http",
        leased,
    };
    NewPayment {
        births: vec![birth; payment.notifications.len()],
        response: Bytes::from(format!("answer of {}", payment.id)),
        idempotency: None,
        payment: Arc::new(payment),
    }
}

/// The same with an idempotency key and what it stands for.
pub fn keyed(mut new: NewPayment, key: &str, meaning: u8) -> NewPayment {
    new.idempotency = Some(Idempotency {
        key: key.to_owned(),
        fingerprint: [meaning; 32],
    });
    new
}

/// An outcome that leaves the row as it was held but for its status.
pub fn settlement(row: &HeldRow, status: Status) -> Settlement {
    Settlement {
        id: row.id.0,
        epoch: row.epoch,
        replays: row.replays,
        status,
        reason: None,
        attempts: row.attempts,
        deferrals: row.deferrals,
        maybe_sent: row.maybe_sent,
        delay: Duration::ZERO,
        last_error: None,
        provider_message_id: None,
        by_likeness: false,
        history: None,
    }
}
