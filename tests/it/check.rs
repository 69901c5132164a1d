//! `paybell check`: a sound database passes, each fault is named with its row, nothing is changed.

use std::sync::Arc;

use paybell::payment::{Happening, Status};
use paybell::store::{HistoryEntry, Settlement};
use uuid::Uuid;

use crate::support::app::TestApp;
use crate::support::books::{Books, settlement};
use crate::support::command::{Ran, paybell};
use crate::support::load::{one_sms, sms_and_push};
use crate::support::on_both_databases;

async fn ran(url: &str) -> Ran {
    paybell(&std::env::temp_dir(), &["check"], &[("DATABASE_URL", url)]).await
}

/// Exit code and standard output.
async fn check(url: &str) -> (Option<i32>, String) {
    let ran = ran(url).await;
    (ran.code, ran.stdout)
}

on_both_databases! {
    /// Also while payments come in: all is read as of one moment.
    async fn a_sound_database_passes_under_load(database: Database) {
        let app = Arc::new(TestApp::start(database.clone()).await);
        let posting = Arc::clone(&app);
        let posting = tokio::spawn(async move {
            for n in 0..200 {
                posting.pay(&sms_and_push(n)).await;
            }
        });
        let url = database.url().to_owned();
        let mut checks = 0;
        while !posting.is_finished() {
            let (code, told) = check(&url).await;
            assert_eq!(code, Some(0), "{told}");
            assert!(told.starts_with("sound: "), "{told}");
            checks += 1;
        }
        posting.await.unwrap();
        assert!(checks > 0);
        let (_, told) = check(&url).await;
        let books = "sound: 200 payments, 400 notifications recorded: 400 are here, 0 were removed";
        assert!(told.starts_with(books), "{told}");
    }
}

/// What breaks a row that is held and PENDING, and how that is named.
const BREAKS: [(&str, &str); 14] = [
    ("status = 'LATER'", "its status is unknown"),
    (
        "status = 'SENT', claimed_by = NULL",
        "SENT without the time",
    ),
    (
        "status = 'SENT', claimed_by = NULL, sent_at = created_at, maybe_sent = true",
        "SENT, and marked as if",
    ),
    ("status = 'SENT', sent_at = created_at", "still held"),
    (
        "status = 'CANCELED', next_retry_at = created_at",
        "waiting for another try",
    ),
    ("status = 'FAILED', claimed_by = NULL", "without a reason"),
    (
        "status = 'FAILED', claimed_by = NULL, reason = 'moonlight'",
        "without a reason",
    ),
    ("reason = 'rejected'", "a reason to fail, and not FAILED"),
    ("sent_at = created_at", "a time of sending, and not SENT"),
    (
        "claimed_by = NULL, processable_after = created_at, next_retry_at = expires_at",
        "due before its own retry",
    ),
    ("epoch = 0", "held, and never claimed"),
    ("deferrals = -1", "a counter below zero"),
    ("recipient = ''", "nobody to send it to"),
    ("payload = 'null'", "its payload cannot be read"),
];

on_both_databases! {
    async fn each_fault_of_a_row_is_named(database: Database) {
        let books = Books::open(database).await;
        let me = Uuid::new_v4();
        for (assignments, named) in BREAKS {
            let row = books.held_row(me).await.id.0;
            let sound = check(books.database.url()).await;
            assert_eq!(sound.0, Some(0), "before {assignments}: {}", sound.1);
            books.set(row, assignments).await;
            let (code, told) = check(books.database.url()).await;
            assert_eq!(code, Some(1), "{assignments}: {told}");
            let fault = format!("fault: outbox {row}: ");
            let line = told.lines().find(|line| line.starts_with(&fault) && line.contains(named));
            assert!(line.is_some(), "{assignments}: no {named:?} in {told}");
            let id = books.id(row);
            books.database.execute(&format!("DELETE FROM outbox WHERE id = {id}")).await;
            books.database.execute("UPDATE totals SET value = value + 1").await;
        }
    }
}

on_both_databases! {
    /// What the history tells against the row.
    async fn a_row_that_contradicts_its_history_is_named(database: Database) {
        let books = Books::open(database).await;
        let me = Uuid::new_v4();
        let row = books.held_row(me).await;
        let accepted = Settlement {
            attempts: 2,
            history: Some(HistoryEntry {
                outcome: Happening::Accepted,
                attempt: 2,
                started_ago: std::time::Duration::ZERO,
                finished_ago: std::time::Duration::ZERO,
                http_status: None,
                error: None,
                provider: row.provider.clone(),
                provider_message_id: None,
            }),
            ..settlement(&row, Status::Sent)
        };
        books.settle(me, &[accepted]).await;
        assert_eq!(check(books.database.url()).await.0, Some(0));
        books.set(row.id.0, "status = 'PENDING', sent_at = NULL").await;
        let (code, told) = check(books.database.url()).await;
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("accepted by its history, and not SENT"), "{told}");
        books.set(row.id.0, "status = 'SENT', sent_at = created_at, epoch = 0").await;
        let (code, told) = check(books.database.url()).await;
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("its history is of a later lease"), "{told}");
    }
}

on_both_databases! {
    async fn books_that_do_not_balance_are_named(database: Database) {
        let books = Books::open(database).await;
        let row = books.due_row().await;
        let id = books.id(row);
        books.database.execute(&format!("DELETE FROM outbox WHERE id = {id}")).await;
        let (code, told) = check(books.database.url()).await;
        assert_eq!(code, Some(1));
        assert!(told.contains("fault: the books do not balance: 1 payments, 1"), "{told}");
        books.due_row().await;
        books.database.execute("UPDATE payments SET notification_count = 0").await;
        let (_, told) = check(books.database.url()).await;
        assert!(told.contains("it has more notifications than were recorded"), "{told}");
    }
}

/// What breaks a payment, and how that is named.
const PAYMENT_BREAKS: [(&str, &str); 3] = [
    ("amount = 0", "its amount is not above zero"),
    (
        "idempotency_key = 'k'",
        "an idempotency key without the request",
    ),
    ("response = ''", "it has no stored answer"),
];

on_both_databases! {
    async fn each_fault_of_a_payment_is_named(database: Database) {
        for (assignments, named) in PAYMENT_BREAKS {
            let books = Books::open(database.another().await).await;
            books.due_row().await;
            assert_eq!(check(books.database.url()).await.0, Some(0));
            books.database.execute(&format!("UPDATE payments SET {assignments}")).await;
            let (code, told) = check(books.database.url()).await;
            assert_eq!(code, Some(1), "{assignments}: {told}");
            assert!(told.contains("fault: payments ") && told.contains(named), "{told}");
        }
    }
}

on_both_databases! {
    /// A newer version's rows are its own concern, and no fault.
    async fn rows_for_others_are_noted(database: Database) {
        let books = Books::open(database).await;
        let newer = books.due_row().await;
        books.set(newer, "payload_version = 2, payload = 'new'").await;
        let stranger = books.due_row().await;
        books.set(stranger, "channel = 'pigeon'").await;
        let (code, told) = check(books.database.url()).await;
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains(&format!("note: outbox {newer}: written by a newer version")));
        assert!(told.contains(&format!("note: outbox {stranger}: waiting for a channel")));
    }
}

on_both_databases! {
    /// Of many rows with one fault some are named, the others counted; all stay as they are.
    async fn many_faults_are_counted_and_nothing_is_changed(database: Database) {
        let books = Books::open(database).await;
        for _ in 0..25 {
            books.due_row().await;
        }
        books.database.execute("UPDATE outbox SET attempts = -1").await;
        let (code, told) = check(books.database.url()).await;
        assert_eq!(code, Some(1));
        assert!(told.contains("fault: 5 more rows of outbox: a counter below zero"), "{told}");
        let left = books.database.number("SELECT count(*) FROM outbox WHERE attempts = -1").await;
        assert_eq!(left, 25);
    }
}

on_both_databases! {
    /// Nothing is migrated, and the schema of another version is not judged.
    async fn another_schema_is_not_judged(database: Database) {
        let (code, told) = check(database.url()).await;
        assert_eq!((code, told.as_str()), (Some(1), ""));
        let tables = if database.is_sqlite() {
            "SELECT count(*) FROM sqlite_master"
        } else {
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        };
        assert_eq!(database.number(tables).await, 0, "it migrated");
        let app = TestApp::start(database.clone()).await;
        app.pay(&one_sms(0)).await;
        app.stop().await.0.unwrap();
        let newer = "INSERT INTO __diesel_schema_migrations (version) VALUES ('20991231000000')";
        database.execute(newer).await;
        let Ran { code, stderr: said, .. } = ran(database.url()).await;
        assert_eq!(code, Some(1));
        assert!(said.contains("the schema is at 20991231000000"), "{said}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("no.db");
    let url = format!("sqlite://{}", file.display());
    assert_eq!(check(&url).await.0, Some(1));
    assert!(!file.exists());
}
