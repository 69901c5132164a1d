//! PostgreSQL: a pool of sessions that give up in time, over TLS when asked for.

mod claim;
mod record;
mod settle;
mod tls;

use std::collections::HashSet;
use std::time::Duration;

use diesel::prelude::*;
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod,
};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use futures_util::FutureExt;
use tokio::time::error::Elapsed;
use uuid::Uuid;

use super::sql_types::{Clock, Now};
use super::{Claim, HeldRow, Lease, NewPayment, Settlement, StoreError, Verdict, migrations};
use crate::config::{DatabaseConfig, PostgresUrl};
use tls::Connector;

#[cfg(test)]
pub(super) use {
    claim::{CLAIM, CLAIM_SUSPECT},
    record::stored,
};

/// The part of a call's deadline that may go into waiting for a lock. Our own locks last
/// milliseconds; the rest is for going on without the rows that others hold.
const LOCK_SHARE: u32 = 5;

/// The server.
pub struct PostgresStore {
    pool: Pool<AsyncPgConnection>,
    connector: Connector,
    deadline: Duration,
}

impl PostgresStore {
    /// Prepares the pool; connects on the first call.
    ///
    /// # Errors
    /// When the TLS set-up cannot be read.
    pub fn new(url: &PostgresUrl, config: &DatabaseConfig) -> Result<Self, StoreError> {
        let connector = Connector::new(url, config.timeout)?;
        Ok(Self {
            pool: pool(connector.clone(), config)?,
            connector,
            deadline: config.timeout,
        })
    }

    pub(super) async fn checkout(&self) -> Result<Object<AsyncPgConnection>, StoreError> {
        Ok(self.pool.get().await?)
    }

    /// The server tells the time itself; the reading only carries an offset.
    pub(super) fn now(&self) -> Now {
        Clock::start().now()
    }

    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Ends a call: a session that did not answer in time, that broke or that turned read-only is
    /// closed, not given back.
    pub(super) fn conclude<R>(
        &self,
        loan: Object<AsyncPgConnection>,
        outcome: Result<Result<R, impl Into<StoreError>>, Elapsed>,
    ) -> Result<R, StoreError> {
        let result = match outcome {
            Ok(result) => result.map_err(Into::into),
            Err(_) => Err(StoreError::deadline()),
        };
        if let Err(StoreError::Unavailable(_) | StoreError::Failed(_)) = &result {
            drop(Object::take(loan));
        }
        result
    }

    pub(super) async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        let conn = self
            .connector
            .connect()
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        migrations::on_postgres(conn).await
    }

    pub(super) async fn record(
        &self,
        batch: &[NewPayment],
        lease: &Lease,
    ) -> Result<Vec<Verdict>, StoreError> {
        let mut loan = self.checkout().await?;
        let work = record::record(&mut loan, batch, lease);
        let outcome = tokio::time::timeout(self.deadline, work).await;
        self.conclude(loan, outcome)
    }

    pub(super) async fn claim(&self, claim: &Claim) -> Result<Vec<HeldRow>, StoreError> {
        let mut loan = self.checkout().await?;
        let conn = &mut *loan;
        let work = async {
            if claim.suspects {
                claim::ClaimSuspect::from(claim).load(conn).await
            } else {
                claim::ClaimDue::from(claim).load(conn).await
            }
        };
        let outcome = tokio::time::timeout(self.deadline, work).await;
        self.conclude(loan, outcome)
    }

    pub(super) async fn settle(
        &self,
        holder: Uuid,
        batch: &[Settlement],
    ) -> Result<HashSet<Uuid>, StoreError> {
        let mut loan = self.checkout().await?;
        let conn = &mut *loan;
        let remembers = batch.iter().any(|settlement| settlement.history.is_some());
        let work = async {
            if remembers {
                conn.transaction(async |conn| settle::settle(conn, holder, batch).await)
                    .await
            } else {
                settle::settle(conn, holder, batch).await
            }
        };
        let outcome = tokio::time::timeout(self.deadline, work).await;
        self.conclude(loan, outcome)
    }

    /// Which of these rows others hold locks on, without waiting for them.
    pub(super) async fn locked(&self, ids: &[Uuid]) -> Result<HashSet<Uuid>, StoreError> {
        let mut loan = self.checkout().await?;
        let work = settle::locked(&mut loan, ids);
        let outcome = tokio::time::timeout(self.deadline, work).await;
        self.conclude(loan, outcome)
    }
}

fn pool(
    connector: Connector,
    config: &DatabaseConfig,
) -> Result<Pool<AsyncPgConnection>, StoreError> {
    let timeout = config.timeout;
    let mut manager = ManagerConfig::<AsyncPgConnection>::default();
    // Fast: a closed socket is seen without asking, and every call has its own deadline anyway.
    manager.recycling_method = RecyclingMethod::Fast;
    manager.custom_setup = Box::new(move |_| {
        let connector = connector.clone();
        async move { session(&connector, timeout).await }.boxed()
    });
    // The URL is the connector's: it may hold a password and parameters that only we understand.
    let manager = AsyncDieselConnectionManager::new_with_config("", manager);
    Pool::builder(manager)
        .max_size(config.max_connections)
        .wait_timeout(Some(timeout))
        .create_timeout(Some(timeout))
        .runtime(deadpool::Runtime::Tokio1)
        .build()
        .map_err(|error| StoreError::Failed(error.to_string()))
}

/// No statement, lock or forgotten transaction of ours outlives its use, even when we are gone.
async fn session(connector: &Connector, timeout: Duration) -> ConnectionResult<AsyncPgConnection> {
    let mut conn = connector.connect().await?;
    let millis = timeout.as_millis();
    let lock_millis = (timeout / LOCK_SHARE).as_millis();
    let settings = format!(
        "SET statement_timeout = {millis}; SET lock_timeout = {lock_millis}; \
         SET idle_in_transaction_session_timeout = 10000;"
    );
    conn.batch_execute(&settings)
        .await
        .map_err(ConnectionError::CouldntSetupConfiguration)?;
    Ok(conn)
}
