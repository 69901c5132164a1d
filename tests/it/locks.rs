//! Rows that somebody else's session holds locks on. SQLite locks no rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use paybell::metrics::Metrics;
use paybell::outbox::held::Holdings;
use paybell::outbox::settler::{Job, Settler};
use paybell::payment::Status;
use paybell::store::{HeldRow, Settlement};
use uuid::Uuid;

use crate::support::books::{Books, LEASE, settlement};
use crate::support::database::Database;
use crate::support::wait::until;

/// Longer than the settler waits for a lock, a fifth of the deadline of [`Books`].
const SOON: Duration = Duration::from_secs(8);

fn sent(row: &HeldRow) -> Settlement {
    Settlement {
        attempts: 1,
        ..settlement(row, Status::Sent)
    }
}

/// How many rows there are that fulfil a condition.
async fn rows(books: &Books, condition: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM outbox WHERE {condition}");
    books.database.number(&sql).await
}

/// Locks that others hold are told from rows that are free or gone.
#[tokio::test]
async fn rows_that_others_lock_are_known_without_a_wait() {
    let books = Books::open(Database::postgres().await).await;
    let me = Uuid::new_v4();
    let (locked, free) = (books.held_row(me).await, books.held_row(me).await);
    let mut elsewhere = books.database.session().await;
    elsewhere.execute("BEGIN").await;
    let lock = format!(
        "UPDATE outbox SET deferrals = 9 WHERE id = {}",
        books.id(locked.id.0)
    );
    elsewhere.execute(&lock).await;
    let asked = [locked.id.0, free.id.0, Uuid::new_v4()];
    let told = books.store.locked(&asked).await.unwrap();
    assert_eq!(told.into_iter().collect::<Vec<_>>(), [locked.id.0]);
    elsewhere.execute("COMMIT").await;
    assert!(books.store.locked(&asked).await.unwrap().is_empty());
}

/// A forgotten transaction holds a lock: the outcomes of all other rows are written, those that
/// come later without a wait, and that of the locked row once the lock is gone.
#[tokio::test]
async fn a_locked_row_holds_up_none_of_its_neighbours() {
    let books = Books::open(Database::postgres().await).await;
    let me = Uuid::new_v4();
    let locked = [books.held_row(me).await, books.held_row(me).await];
    let neighbours = [books.held_row(me).await, books.held_row(me).await];
    let late = books.held_row(me).await;
    let mut elsewhere = books.database.session().await;
    elsewhere.execute("BEGIN").await;
    for row in &locked {
        let lock = format!(
            "SELECT FROM outbox WHERE id = {} FOR UPDATE",
            books.id(row.id.0)
        );
        elsewhere.execute(&lock).await;
    }

    let (settler, jobs) = Settler::new(books.store.clone(), me, Metrics::new());
    let holdings = Arc::new(Holdings::default());
    let hand_over = |row: &HeldRow, settlement: Option<Settlement>| {
        let job = Job {
            held: holdings.hold(row.clone(), Instant::now() + LEASE),
            settlement: settlement.map(Box::new),
            permit: None,
        };
        jobs.send(job).unwrap();
    };
    hand_over(&locked[0], Some(sent(&locked[0])));
    hand_over(&neighbours[0], Some(sent(&neighbours[0])));
    hand_over(&locked[1], None);
    hand_over(&neighbours[1], None);
    let settling = tokio::spawn(settler.run());
    until(
        "the neighbours are free of their holder",
        SOON,
        async || (rows(&books, "claimed_by IS NULL").await == 2).then_some(()),
    )
    .await;
    hand_over(&late, Some(sent(&late)));
    // Sooner than a second wait for the lock.
    until(
        "a late outcome is written",
        Duration::from_millis(1500),
        async || (rows(&books, "status = 'SENT'").await == 2).then_some(()),
    )
    .await;
    assert_eq!(rows(&books, "claimed_by IS NOT NULL").await, 2);
    elsewhere.execute("COMMIT").await;
    drop(jobs);
    settling.await.unwrap();
    assert_eq!(rows(&books, "status = 'SENT'").await, 3);
    assert_eq!(rows(&books, "claimed_by IS NOT NULL").await, 0);
}
