//! What every connection is set to, and what a full disk does to it.

use std::sync::Arc;

use bytes::Bytes;
use chrono::Utc;
use diesel::sql_types::BigInt;
use diesel_async::RunQueryDsl;
use tempfile::TempDir;

use super::*;
use crate::config::DatabaseUrl;
use crate::payment::{Currency, Payment};

const TIMEOUT: Duration = Duration::from_millis(4321);

async fn open(folder: &TempDir) -> SqliteStore {
    let path = folder.path().join("paybell.db");
    let config = DatabaseConfig {
        url: DatabaseUrl::Sqlite { path: path.clone() },
        max_connections: 8,
        timeout: TIMEOUT,
    };
    let store = SqliteStore::open(&path, &config).await.unwrap();
    store.migrate().await.unwrap();
    store
}

/// The value of a setting that has a number.
async fn pragma(conn: &mut Connection, name: &str) -> i64 {
    #[derive(QueryableByName)]
    struct Setting {
        #[diesel(sql_type = BigInt)]
        value: i64,
    }
    let sql = format!("SELECT * FROM (SELECT \"{name}\" AS value FROM pragma_{name})");
    let sql = sql.replace("\"busy_timeout\"", "timeout");
    let setting: Setting = diesel::sql_query(sql).get_result(conn).await.unwrap();
    setting.value
}

fn payment(description: String) -> NewPayment {
    let payment = Payment {
        id: Uuid::now_v7(),
        client: "shop".to_owned(),
        order_id: "order-1".to_owned(),
        amount: 1,
        currency: Currency::parse("KRW").unwrap(),
        description: Some(description),
        locale: None,
        created_at: Utc::now(),
        notifications: Vec::new(),
    };
    NewPayment {
        payment: Arc::new(payment),
        idempotency: None,
        response: Bytes::new(),
        births: Vec::new(),
    }
}

fn lease() -> Lease {
    Lease {
        holder: Uuid::nil(),
        length: TIMEOUT,
        give_up: TIMEOUT,
    }
}

/// Foreign keys and the busy timeout are settings of a connection, not of the file: one that is
/// forgotten shows only under load.
#[tokio::test]
async fn every_connection_is_set_up_on_sqlite() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    let mut loans = vec![store.writer().await.unwrap()];
    for _ in 0..READERS {
        loans.push(store.reader().await.unwrap());
    }
    for conn in &mut loans {
        assert_eq!(pragma(conn, "foreign_keys").await, 1);
        assert_eq!(pragma(conn, "synchronous").await, 2, "FULL");
        assert_eq!(pragma(conn, "busy_timeout").await, 4321);
        let orphan = "INSERT INTO attempts (outbox_id, epoch, attempt, started_at, finished_at,
                                            outcome, provider, times)
                      VALUES (x'00', 1, 1, 1, 1, 'unknown', 'http', 1)";
        let refused = conn.batch_execute(orphan).await.unwrap_err().to_string();
        assert!(refused.contains("FOREIGN KEY"), "{refused}");
    }
}

async fn allow_pages(store: &SqliteStore, pages: i64) {
    let mut writer = store.writer().await.unwrap();
    let limit = pragma(&mut writer, "page_count").await + pages;
    let limit = format!("PRAGMA max_page_count = {limit}");
    writer.batch_execute(&limit).await.unwrap();
}

/// SQLite has already rolled back when a disk is full, and a second ROLLBACK fails: the true fault
/// must be told all the same, and writes must go on once there is room.
#[tokio::test]
async fn a_full_disk_is_named_and_passes_on_sqlite() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).await;
    let batch = Arc::new(vec![payment("x".repeat(500)), payment("x".repeat(500_000))]);
    for _ in 0..2 {
        allow_pages(&store, 2).await;
        let fault = store.record(Arc::clone(&batch), lease()).await.unwrap_err();
        assert_eq!(
            fault,
            StoreError::Unavailable("database or disk is full".to_owned())
        );
    }
    allow_pages(&store, 1000).await;
    let verdicts = store.record(batch, lease()).await.unwrap();
    assert_eq!(verdicts, [Verdict::Recorded, Verdict::Recorded]);
}
