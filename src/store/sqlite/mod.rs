//! SQLite: one writer, a few readers, every write in an immediate transaction.

mod claim;
mod record;
mod settle;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod,
};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, SimpleAsyncConnection};
use futures_util::FutureExt;
use uuid::Uuid;

use super::sql_types::{Clock, Now};
use super::{Claim, HeldRow, Lease, NewPayment, Settlement, StoreError, Verdict, migrations};
use crate::config::DatabaseConfig;

#[cfg(test)]
pub(super) use claim::due;

type Connection = SyncConnectionWrapper<SqliteConnection>;

/// Readers beside the one writer: pages and look-ups, never the hot path.
const READERS: usize = 4;

/// Between two tries to switch a file that another connection is switching.
const LOCKED_PAUSE: Duration = Duration::from_millis(10);

/// The embedded database.
pub struct SqliteStore {
    writer: Pool<Connection>,
    readers: Pool<Connection>,
    clock: Clock,
}

impl SqliteStore {
    /// Opens (or makes) the file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn open(path: &Path, config: &DatabaseConfig) -> Result<Self, StoreError> {
        let url = path.display().to_string();
        let store = Self {
            writer: pool(&url, 1, config.timeout)?,
            readers: pool(&url, READERS, config.timeout)?,
            clock: Clock::start(),
        };
        drop(store.writer().await?);
        Ok(store)
    }

    pub(super) async fn writer(&self) -> Result<Object<Connection>, StoreError> {
        Ok(self.writer.get().await?)
    }

    pub(super) async fn reader(&self) -> Result<Object<Connection>, StoreError> {
        Ok(self.readers.get().await?)
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    /// A whole write in one go on a blocking thread, not one hop a statement.
    async fn write<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteConnection, Now) -> QueryResult<R> + Send + 'static,
    ) -> Result<R, StoreError> {
        let clock = self.clock;
        let mut writer = self.writer().await?;
        let result = writer
            .spawn_blocking(move |conn| work(conn, clock.now()))
            .await;
        Ok(result?)
    }

    pub(super) async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        let mut writer = self.writer().await?;
        writer
            .spawn_blocking(|conn| Ok(migrations::on_sqlite(conn)))
            .await?
    }

    pub(super) async fn record(
        &self,
        batch: Arc<Vec<NewPayment>>,
        lease: Lease,
    ) -> Result<Vec<Verdict>, StoreError> {
        self.write(move |conn, now| record::record(conn, &batch, &lease, now))
            .await
    }

    pub(super) async fn claim(&self, claim: Claim) -> Result<Vec<HeldRow>, StoreError> {
        self.write(move |conn, now| claim::claim(conn, &claim, now))
            .await
    }

    pub(super) async fn settle(
        &self,
        holder: Uuid,
        batch: Arc<Vec<Settlement>>,
    ) -> Result<HashSet<Uuid>, StoreError> {
        self.write(move |conn, now| settle::settle(conn, holder, &batch, now))
            .await
    }
}

fn pool(url: &str, size: usize, timeout: Duration) -> Result<Pool<Connection>, StoreError> {
    let mut config = ManagerConfig::<Connection>::default();
    config.recycling_method = RecyclingMethod::Fast;
    config.custom_setup = Box::new(move |url| {
        let url = url.to_owned();
        async move { connect(&url, timeout).await }.boxed()
    });
    let manager = AsyncDieselConnectionManager::new_with_config(url, config);
    Pool::builder(manager)
        .max_size(size)
        .wait_timeout(Some(timeout))
        .runtime(deadpool::Runtime::Tokio1)
        .build()
        .map_err(|error| StoreError::Failed(error.to_string()))
}

/// Runs work in one immediate transaction.
///
/// A full disk makes SQLite roll back by itself; the ROLLBACK that follows then fails, and its
/// error must not stand in for the true one. The pool replaces such a connection.
fn immediately<R>(
    conn: &mut SqliteConnection,
    work: impl FnOnce(&mut SqliteConnection) -> QueryResult<R>,
) -> QueryResult<R> {
    let mut fault = None;
    let outcome = conn.immediate_transaction(|conn| {
        work(conn).map_err(|error| {
            fault = Some(error);
            diesel::result::Error::RollbackTransaction
        })
    });
    match (outcome, fault) {
        (Err(_), Some(fault)) => Err(fault),
        (outcome, _) => outcome,
    }
}

/// Durability is SQLite's strictest: an answered payment survives the loss of power.
async fn connect(url: &str, timeout: Duration) -> ConnectionResult<Connection> {
    let mut conn = Connection::establish(url).await?;
    let settings = format!(
        "PRAGMA busy_timeout = {}; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;",
        timeout.as_millis()
    );
    conn.batch_execute(&settings)
        .await
        .map_err(ConnectionError::CouldntSetupConfiguration)?;
    switch_to_wal(&mut conn, timeout).await?;
    Ok(conn)
}

/// SQLite does not wait when two connections switch a new file to WAL at the same moment: one of
/// them is told that it is locked, whatever its busy timeout, and finds it switched a little later.
async fn switch_to_wal(conn: &mut Connection, timeout: Duration) -> ConnectionResult<()> {
    let deadline = Instant::now() + timeout;
    loop {
        match conn.batch_execute("PRAGMA journal_mode = WAL;").await {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= deadline => {
                return Err(ConnectionError::CouldntSetupConfiguration(error));
            }
            Err(_) => tokio::time::sleep(LOCKED_PAUSE).await,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod session_tests;
