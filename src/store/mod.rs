//! The database: payments, the outbox and its history, on SQLite or on PostgreSQL.
//!
//! Every query is written once; `postgres/` and `sqlite/` hold only what differs: the connection,
//! and the four batched statements that are the engine's heartbeat (record, claim, settle,
//! release). All futures here run on the main runtime and are never dropped half-way: callers that
//! may go away (HTTP handlers) go through [`Store::detached`].

mod check;
mod dispatch;
mod error;
mod filter;
mod migrations;
mod operate;
mod payments;
#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]
mod plan_tests;
mod postgres;
mod read;
mod rows;
mod schema;
mod sql_types;
mod sqlite;
mod statement;
mod upkeep;
mod verdict;

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use uuid::Uuid;

pub use check::{Finding, Report};
pub use error::{Conflict, StoreError};
pub use filter::OutboxFilter;
pub use operate::Change;
pub use payments::PaymentView;
pub use read::{FullRow, ListedRow, Stats, StatusCount};
pub use rows::{
    AttemptRow, Birth, HeldRow, HistoryEntry, Idempotency, NewPayment, NotificationRow, OutboxRow,
    PaymentRow, Settlement, Standing, Verdict,
};
pub use sql_types::{Id, Moment};
pub use upkeep::Sweep;

use crate::config::{DatabaseConfig, DatabaseUrl};
use crate::payment::Channel;
use dispatch::on_either;
use sql_types::micros;

/// The database, whichever it is. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    database: Database,
    runtime: Handle,
}

#[derive(Clone)]
enum Database {
    Sqlite(Arc<sqlite::SqliteStore>),
    Postgres(Arc<postgres::PostgresStore>),
}

/// Who holds newly born rows, for how long, and how long they are tried.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    /// This process.
    pub holder: Uuid,
    /// Length of the lease.
    pub length: Duration,
    /// Time from birth to giving up.
    pub give_up: Duration,
}

impl Lease {
    fn length_micros(&self) -> i64 {
        micros(self.length)
    }

    fn give_up_micros(&self) -> i64 {
        micros(self.give_up)
    }
}

/// A request for due rows.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The lane.
    pub channel: Channel,
    /// This process.
    pub holder: Uuid,
    /// Length of the lease.
    pub lease: Duration,
    /// Rows at most: no more than there are permits for.
    pub limit: usize,
    /// Rows that this process still holds although their lease ended: never claimed by itself.
    pub held: Vec<Uuid>,
    /// Low-water mark: rows due before it were claimed already.
    pub since: Moment,
    /// Whether to take rows whose holders died on them before, or only the others.
    pub suspects: bool,
}

impl Claim {
    fn limit_i64(&self) -> i64 {
        i64::try_from(self.limit).unwrap_or(i64::MAX)
    }

    fn held_ids(&self) -> Vec<Id> {
        self.held.iter().copied().map(Id).collect()
    }
}

impl Store {
    /// Opens the database; for PostgreSQL the first connection is made by the first call.
    ///
    /// # Errors
    /// When the SQLite file cannot be opened, or the TLS set-up cannot be read.
    pub async fn open(config: &DatabaseConfig) -> Result<Self, StoreError> {
        let database = match &config.url {
            DatabaseUrl::Sqlite { path } => {
                Database::Sqlite(Arc::new(sqlite::SqliteStore::open(path, config).await?))
            }
            DatabaseUrl::Postgres(url) => {
                Database::Postgres(Arc::new(postgres::PostgresStore::new(url, config)?))
            }
        };
        Ok(Self {
            database,
            runtime: Handle::current(),
        })
    }

    /// Runs a call to its end on the main runtime, even when the caller goes away meanwhile.
    ///
    /// # Errors
    /// Those of the call; [`StoreError::Failed`] when it panicked.
    pub async fn detached<T, F>(&self, call: impl FnOnce(Self) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        match self.runtime.spawn(call(self.clone())).await {
            Ok(result) => result,
            Err(error) => Err(StoreError::Failed(format!("the call broke off: {error}"))),
        }
    }

    /// Applies pending migrations under a lock; returns the versions applied.
    ///
    /// # Errors
    /// [`StoreError::Migration`], or when the database cannot be reached.
    pub async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.migrate().await,
            Database::Postgres(postgres) => postgres.migrate().await,
        }
    }

    /// Records a batch in one transaction; one verdict a payment, in the batch's order.
    ///
    /// Repeating a batch whose answer was lost records nothing twice.
    ///
    /// # Errors
    /// Any; nothing of the batch is known to be recorded then.
    pub async fn record(
        &self,
        batch: Arc<Vec<NewPayment>>,
        lease: Lease,
    ) -> Result<Vec<Verdict>, StoreError> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.record(batch, lease).await,
            Database::Postgres(postgres) => postgres.record(&batch, &lease).await,
        }
    }

    /// Claims due rows, oldest first.
    ///
    /// # Errors
    /// Any; rows may have been claimed all the same, and heal when their lease ends.
    pub async fn claim(&self, claim: Claim) -> Result<Vec<HeldRow>, StoreError> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.claim(claim).await,
            Database::Postgres(postgres) => postgres.claim(&claim).await,
        }
    }

    /// Writes outcomes; returns the rows that took theirs. The others were not held any more.
    ///
    /// # Errors
    /// Any; the outcomes may have been written all the same.
    pub async fn settle(
        &self,
        holder: Uuid,
        batch: Arc<Vec<Settlement>>,
    ) -> Result<HashSet<Uuid>, StoreError> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.settle(holder, batch).await,
            Database::Postgres(postgres) => postgres.settle(holder, &batch).await,
        }
    }

    /// Which of these rows others hold locks on, without waiting for them. SQLite locks no rows.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn locked(&self, ids: &[Uuid]) -> Result<HashSet<Uuid>, StoreError> {
        match &self.database {
            Database::Sqlite(_) => Ok(HashSet::new()),
            Database::Postgres(postgres) => postgres.locked(ids).await,
        }
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// When it does not, in time.
    pub async fn ping(&self) -> Result<(), StoreError> {
        on_either!(self, |conn| {
            use diesel::IntoSql;
            use diesel_async::RunQueryDsl;
            diesel::select(1_i32.into_sql::<diesel::sql_types::Integer>())
                .get_result::<i32>(conn)
                .await
                .map(|_| ())
        })
    }
}
