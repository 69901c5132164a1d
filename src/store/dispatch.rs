//! Writes a query once and compiles it for both connections.
//!
//! `diesel-async` has no connection that is either; a query builder's types differ by backend. So
//! the body is a macro argument, expanded once for each, with `Db` naming the backend and `now` its
//! clock.

/// Runs a body on a connection for reading (SQLite: one of the readers).
macro_rules! on_either {
    ($store:expr, |$conn:ident| $body:expr) => {
        $crate::store::dispatch::on_either!($store, |$conn, _now| $body)
    };
    ($store:expr, |$conn:ident, $now:ident| $body:expr) => {
        match &$store.database {
            $crate::store::Database::Sqlite(sqlite) => {
                type Db = diesel::sqlite::Sqlite;
                let _backend = std::marker::PhantomData::<Db>;
                let mut loan = sqlite.reader().await?;
                let $now = sqlite.now();
                let $conn = &mut *loan;
                let outcome: diesel::QueryResult<_> = async { $body }.await;
                outcome.map_err($crate::store::StoreError::from)
            }
            $crate::store::Database::Postgres(postgres) => {
                type Db = diesel::pg::Pg;
                let _backend = std::marker::PhantomData::<Db>;
                let mut loan = postgres.checkout().await?;
                let $now = postgres.now();
                let outcome = {
                    let $conn = &mut *loan;
                    tokio::time::timeout(postgres.deadline(), async { $body }).await
                };
                postgres.conclude(loan, outcome)
            }
        }
    };
}

/// Runs a body in one transaction (SQLite: immediate, on the writer).
macro_rules! in_transaction {
    ($store:expr, |$conn:ident, $now:ident| $body:expr) => {
        match &$store.database {
            $crate::store::Database::Sqlite(sqlite) => {
                type Db = diesel::sqlite::Sqlite;
                let _backend = std::marker::PhantomData::<Db>;
                let mut loan = sqlite.writer().await?;
                let $now = sqlite.now();
                // A full disk makes the ROLLBACK fail as well: the first fault is the true one.
                let mut fault = None;
                let outcome = loan
                    .immediate_transaction(async |$conn| {
                        let outcome = async { $body }.await;
                        fault = outcome.as_ref().err().cloned();
                        outcome
                    })
                    .await;
                match (outcome, fault) {
                    (Err(_), Some(fault)) => Err(fault),
                    (outcome, _) => outcome,
                }
            }
            $crate::store::Database::Postgres(postgres) => {
                type Db = diesel::pg::Pg;
                let _backend = std::marker::PhantomData::<Db>;
                let mut loan = postgres.checkout().await?;
                let $now = postgres.now();
                let outcome = {
                    use diesel_async::AsyncConnection;
                    let work = loan.transaction(async |$conn| $body);
                    tokio::time::timeout(postgres.deadline(), work).await
                };
                postgres.conclude(loan, outcome)
            }
        }
    };
}

/// Runs a body that reads several times and sees one moment throughout.
macro_rules! in_snapshot {
    ($store:expr, |$conn:ident, $now:ident| $body:expr) => {
        match &$store.database {
            $crate::store::Database::Sqlite(sqlite) => {
                use diesel_async::AsyncConnection;
                let mut loan = sqlite.reader().await?;
                let $now = sqlite.now();
                loan.transaction(async |$conn| $body).await
            }
            $crate::store::Database::Postgres(postgres) => {
                let mut loan = postgres.checkout().await?;
                let $now = postgres.now();
                let outcome = {
                    let snapshot = loan.build_transaction().repeatable_read().read_only();
                    let mut snapshot = snapshot;
                    let work = snapshot.run(async |$conn| $body);
                    tokio::time::timeout(postgres.deadline(), work).await
                };
                postgres.conclude(loan, outcome)
            }
        }
    };
}

pub(super) use {in_snapshot, in_transaction, on_either};
