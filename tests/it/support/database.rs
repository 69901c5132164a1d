//! A database of its own for each test.

use std::sync::Arc;

use diesel::SqliteConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use tempfile::TempDir;
use url::Url;
use uuid::Uuid;

/// A fresh, empty database; a clone is the same one.
#[derive(Clone)]
pub struct Database {
    url: String,
    _folder: Option<Arc<TempDir>>,
}

impl Database {
    /// A SQLite file that is removed with the last clone.
    pub fn sqlite() -> Self {
        let folder = TempDir::with_prefix("paybell-test-").unwrap();
        Self {
            url: format!("sqlite://{}", folder.path().join("paybell.db").display()),
            _folder: Some(Arc::new(folder)),
        }
    }

    /// A database in the cluster of `TEST_DATABASE_URL`, which goes with the cluster.
    pub async fn postgres() -> Self {
        let mut url = cluster();
        let name = format!("test_{}", Uuid::new_v4().simple());
        let mut conn = AsyncPgConnection::establish(url.as_str()).await.unwrap();
        conn.batch_execute(&format!("CREATE DATABASE {name}"))
            .await
            .unwrap();
        url.set_path(&name);
        Self {
            url: url.into(),
            _folder: None,
        }
    }

    /// Another fresh, empty one of the same kind.
    pub async fn another(&self) -> Self {
        if self.is_sqlite() {
            Self::sqlite()
        } else {
            Self::postgres().await
        }
    }

    /// For `DATABASE_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is SQLite.
    pub fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    /// The file of a SQLite database.
    pub fn path(&self) -> &str {
        self.url.strip_prefix("sqlite://").expect("not SQLite")
    }

    /// Runs SQL beside the service, as an operator at the database's own prompt would.
    pub async fn execute(&self, sql: &str) {
        self.session().await.execute(sql).await;
    }

    /// A session beside the service that stays open, for example to hold a lock.
    pub async fn session(&self) -> Session {
        if self.is_sqlite() {
            Session::Sqlite(self.sqlite_connection().await)
        } else {
            Session::Postgres(Box::new(
                AsyncPgConnection::establish(&self.url).await.unwrap(),
            ))
        }
    }

    /// Ends every connection to a PostgreSQL database and lets in no other, as an outage does.
    pub async fn cut_off(&self) {
        let name = self.name();
        let mut conn = AsyncPgConnection::establish(cluster().as_str())
            .await
            .unwrap();
        // Each on its own: a transaction would show the new rule only at its end.
        for sql in [
            format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"),
            format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
            ),
        ] {
            conn.batch_execute(&sql).await.unwrap();
        }
    }

    /// Ends [`Self::cut_off`].
    pub async fn let_in(&self) {
        let sql = format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", self.name());
        let mut conn = AsyncPgConnection::establish(cluster().as_str())
            .await
            .unwrap();
        conn.batch_execute(&sql).await.unwrap();
    }

    fn name(&self) -> &str {
        assert!(!self.is_sqlite(), "a file cannot be cut off");
        let (_, name) = self.url.rsplit_once('/').unwrap();
        name
    }

    /// Moves a column of moments into the past on every row of a table.
    pub async fn make_older(&self, table: &str, column: &str, hours: u32) {
        let back = if self.is_sqlite() {
            format!("{column} - {hours} * 3600000000")
        } else {
            format!("{column} - interval '{hours} hours'")
        };
        self.execute(&format!("UPDATE {table} SET {column} = {back}"))
            .await;
    }

    /// Keeps everybody else from writing until the lock is let go.
    pub async fn hold_writes_back(&self) -> WriteLock {
        if self.is_sqlite() {
            let mut conn = self.sqlite_connection().await;
            conn.batch_execute("BEGIN IMMEDIATE").await.unwrap();
            return WriteLock::Sqlite(conn);
        }
        let mut conn = AsyncPgConnection::establish(&self.url).await.unwrap();
        let lock = "BEGIN; LOCK TABLE payments, outbox IN EXCLUSIVE MODE";
        conn.batch_execute(lock).await.unwrap();
        WriteLock::Postgres(Box::new(conn))
    }

    /// Ends statements that wait for a lock. Those of a process that was killed go with it on
    /// SQLite; a PostgreSQL server would still run them.
    pub async fn end_waiting_statements(&self) {
        if !self.is_sqlite() {
            let sql = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
            self.execute(sql).await;
        }
    }

    /// An SQL expression for a moment that many hours from the database's now.
    pub fn hours_from_now(&self, hours: i32) -> String {
        if self.is_sqlite() {
            format!("(CAST(unixepoch('subsec') * 1000000 AS integer) + {hours} * 3600000000)")
        } else {
            format!("(now() + {hours} * interval '1 hour')")
        }
    }

    /// Ends every lease and wait, as time would.
    pub async fn make_all_due(&self) {
        let past = self.hours_from_now(-1);
        let sql = format!(
            "UPDATE outbox SET processable_after = {past}, next_retry_at = NULL
             WHERE status = 'PENDING'"
        );
        self.execute(&sql).await;
    }

    async fn sqlite_connection(&self) -> SyncConnectionWrapper<SqliteConnection> {
        let mut conn = SyncConnectionWrapper::<SqliteConnection>::establish(self.path())
            .await
            .unwrap();
        conn.batch_execute("PRAGMA busy_timeout = 10000")
            .await
            .unwrap();
        conn
    }

    /// One number of the first column of the first row.
    pub async fn number(&self, sql: &str) -> i64 {
        self.text(sql).await.parse().expect("not a number")
    }

    /// The one value that a query gives, as text.
    pub async fn text(&self, sql: &str) -> String {
        use diesel_async::RunQueryDsl;
        #[derive(diesel::QueryableByName)]
        struct Value {
            #[diesel(sql_type = diesel::sql_types::Text)]
            value: String,
        }
        let sql = format!("WITH t(v) AS ({sql}) SELECT CAST(v AS text) AS value FROM t");
        let row: Value = if self.is_sqlite() {
            let mut conn = self.sqlite_connection().await;
            diesel::sql_query(sql).get_result(&mut conn).await.unwrap()
        } else {
            let mut conn = AsyncPgConnection::establish(&self.url).await.unwrap();
            diesel::sql_query(sql).get_result(&mut conn).await.unwrap()
        };
        row.value
    }
}

/// A session of an operator.
pub enum Session {
    Sqlite(SyncConnectionWrapper<SqliteConnection>),
    Postgres(Box<AsyncPgConnection>),
}

impl Session {
    /// Runs SQL in it.
    pub async fn execute(&mut self, sql: &str) {
        let done = match self {
            Self::Sqlite(conn) => conn.batch_execute(sql).await,
            Self::Postgres(conn) => conn.batch_execute(sql).await,
        };
        done.unwrap();
    }
}

/// See [`Database::hold_writes_back`].
pub enum WriteLock {
    Sqlite(SyncConnectionWrapper<SqliteConnection>),
    Postgres(Box<AsyncPgConnection>),
}

impl WriteLock {
    /// Ends it.
    pub async fn let_go(self) {
        match self {
            Self::Sqlite(mut conn) => conn.batch_execute("ROLLBACK").await.unwrap(),
            Self::Postgres(mut conn) => conn.batch_execute("ROLLBACK").await.unwrap(),
        }
    }
}

/// Where the throwaway cluster is. Its absence is a failure, not a skip.
fn cluster() -> Url {
    let url = std::env::var("TEST_DATABASE_URL").expect(
        "TEST_DATABASE_URL is not set: run the tests with scripts/test, or a single one with \
         scripts/with-postgres cargo test NAME",
    );
    Url::parse(&url).expect("TEST_DATABASE_URL is not a URL")
}
