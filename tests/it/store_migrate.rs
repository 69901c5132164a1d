//! The store: bringing an empty database up to date, several at once.

use std::sync::Arc;

use tokio::process::Command;
use tokio::sync::Barrier;

use crate::support::books::{Books, open};
use crate::support::on_both_databases;

on_both_databases! {
    /// Three instances start on an empty database at the same moment: one migrates, all go on.
    async fn three_stores_migrate_one_empty_database(database: Database) {
        let start = Arc::new(Barrier::new(3));
        let mut instances = Vec::new();
        for _ in 0..3 {
            let (database, start) = (database.clone(), Arc::clone(&start));
            instances.push(tokio::spawn(async move {
                start.wait().await;
                open(&database).await.migrate().await.unwrap()
            }));
        }
        let mut applied = Vec::new();
        for instance in instances {
            applied.extend(instance.await.unwrap());
        }
        let folders = std::fs::read_dir("migrations/sqlite").unwrap().count();
        assert_eq!(applied.len(), folders, "{applied:?}");
        let books = Books::open(database).await;
        assert_eq!(books.store.migrate().await.unwrap(), Vec::<String>::new());
        books.due_row().await;
        let purged = books.database.number("SELECT value FROM totals WHERE name = 'purged'").await;
        assert_eq!(purged, 0, "the total is there once");
    }
}

on_both_databases! {
    /// The same with processes of their own.
    async fn three_processes_migrate_one_empty_database(database: Database) {
        let mut children = Vec::new();
        for _ in 0..3 {
            let child = Command::new(env!("CARGO_BIN_EXE_paybell"))
                .arg("migrate")
                .env_clear()
                .env("DATABASE_URL", database.url())
                .current_dir(std::env::temp_dir())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            children.push(child.wait_with_output());
        }
        let mut applied = 0;
        for output in futures_util::future::join_all(children).await {
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{error}");
            applied += said.lines().filter(|line| line.starts_with("applied ")).count();
        }
        assert_eq!(applied, std::fs::read_dir("migrations/sqlite").unwrap().count());
    }
}
