//! A database that goes away, blocks or refuses for a while: the service says so in time, loses
//! nothing, and goes on by itself.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::app::{Settings, TestApp, notification, payment, sms};
use crate::support::database::Database;
use crate::support::on_both_databases;
use crate::support::wait::until;

/// How long a POST waits for its commit in these tests.
const TIMEOUT: Duration = Duration::from_millis(800);
const RECOVERY: Duration = Duration::from_secs(10);

const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                         WHERE datname = current_database() AND pid <> pg_backend_pid()";

fn impatient(settings: Settings) -> Settings {
    settings
        .with_short_leases()
        .with("DATABASE_TIMEOUT_MS", TIMEOUT.as_millis())
}

/// A recipient of its own for each number.
fn phone(n: usize) -> String {
    format!("010-1234-{n:04}")
}

/// Takes what every write needs.
fn lock(database: &Database) -> &'static str {
    if database.is_sqlite() {
        "BEGIN IMMEDIATE"
    } else {
        "BEGIN; LOCK TABLE payments, outbox IN ACCESS EXCLUSIVE MODE"
    }
}

/// Posts a payment that must be refused in time, with when to come back.
async fn is_refused(app: &TestApp, order_id: &str) {
    let began = Instant::now();
    let answer = app.post(&sms(order_id, &phone(0))).await;
    let took = began.elapsed();
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
    let content_type = &answer.headers()["content-type"];
    assert_eq!(content_type, "application/problem+json");
    assert!(took < TIMEOUT * 3, "{took:?}");
}

/// Posts until one is taken; its notification arrives.
async fn recovers(app: &TestApp) {
    let answer: Value = until("a payment is taken again", RECOVERY, async || {
        let answer = app.post(&sms("after", &phone(1))).await;
        match answer.status().as_u16() {
            201 => Some(answer.json().await.unwrap()),
            503 => None,
            other => panic!("{other}: {}", answer.text().await.unwrap()),
        }
    })
    .await;
    app.row_in(&notification(&answer, 0), "SENT").await;
}

/// No payment without its rows, no row twice at the provider.
async fn books_balance(app: &TestApp) {
    let stray = "SELECT count(*) FROM payments WHERE notification_count <> \
                 (SELECT count(*) FROM outbox WHERE payment_id = payments.id)";
    assert_eq!(app.database.number(stray).await, 0);
    let pending = "SELECT count(*) FROM outbox WHERE status <> 'SENT'";
    until("everything is SENT", Duration::from_secs(20), async || {
        (app.database.number(pending).await == 0).then_some(())
    })
    .await;
    let rows = app.database.number("SELECT count(*) FROM outbox").await;
    let mut references: Vec<String> = app
        .mock
        .messages()
        .iter()
        .map(|message| message.reference.clone().unwrap())
        .collect();
    assert_eq!(i64::try_from(references.len()).unwrap(), rows);
    references.sort_unstable();
    references.dedup();
    assert_eq!(i64::try_from(references.len()).unwrap(), rows, "one twice");
}

on_both_databases! {
    /// Somebody else holds the lock that every write needs.
    async fn a_locked_database_is_503_in_time_and_passes(database: Database) {
        let lock = lock(&database);
        let app = TestApp::start_with(database, impatient).await;
        let before = app.pay(&sms("before", &phone(2))).await;
        app.row_in(&notification(&before, 0), "SENT").await;
        let mut operator = app.database.session().await;
        operator.execute(lock).await;
        for n in 0..3 {
            is_refused(&app, &format!("during-{n}")).await;
        }
        operator.execute("COMMIT").await;
        recovers(&app).await;
        books_balance(&app).await;
        app.stop().await.0.unwrap();
    }
}

on_both_databases! {
    /// A crowd that waits for a lock is sent away in time and leaves nothing behind that holds up
    /// the next: no connection, no place in a queue.
    async fn a_crowd_at_a_locked_database_leaves_nothing_behind(database: Database) {
        const CROWD: usize = 200;
        let lock = lock(&database);
        let app = TestApp::start_with(database, impatient).await;
        let mut operator = app.database.session().await;
        operator.execute(lock).await;
        let posts = (0..CROWD).map(|n| {
            let (app, order_id) = (&app, format!("during-{n}"));
            async move { is_refused(app, &order_id).await }
        });
        futures_util::future::join_all(posts).await;
        operator.execute("COMMIT").await;
        recovers(&app).await;
        books_balance(&app).await;
        app.stop().await.0.unwrap();
    }
}

/// A reader is not held up by a writer on SQLite.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_are_shown_while_a_writer_blocks_on_sqlite() {
    let app = TestApp::start_with(Database::sqlite(), impatient).await;
    let before = app.pay(&sms("before", &phone(2))).await;
    let id = before["id"].as_str().unwrap();
    let mut operator = app.database.session().await;
    operator.execute("BEGIN IMMEDIATE").await;
    let url = app.url(&format!("/payments/{id}"));
    let shown = app.http.get(url).send().await.unwrap();
    assert_eq!(shown.status(), 200);
    operator.execute("COMMIT").await;
    app.stop().await.0.unwrap();
}

/// Every session is ended again and again under load, as a failover does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_sessions_are_replaced_under_load_on_postgres() {
    const POSTERS: usize = 8;
    const EACH: usize = 25;
    let database = Database::postgres().await;
    let app = TestApp::start_with(database, Settings::with_short_leases).await;
    let mut posters = Vec::new();
    for poster in 0..POSTERS {
        let (http, url) = (app.http.clone(), app.url("/payments"));
        posters.push(tokio::spawn(async move {
            for n in 0..EACH {
                let body = sms(&format!("order-{poster}-{n}"), &phone(poster * EACH + n));
                let answer = http.post(&url).json(&body).send().await.unwrap();
                assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
            }
        }));
    }
    let mut ended = 0;
    while !posters.iter().all(tokio::task::JoinHandle::is_finished) {
        app.database.execute(TERMINATE).await;
        ended += 1;
        let so_far = app.database.number("SELECT count(*) FROM payments").await;
        until("some more payments", RECOVERY, async || {
            let done = posters.iter().all(tokio::task::JoinHandle::is_finished);
            let now = app.database.number("SELECT count(*) FROM payments").await;
            (done || now > so_far + 20).then_some(())
        })
        .await;
    }
    for poster in posters {
        poster.await.unwrap();
    }
    assert!(ended > 1, "the load was over before a session ended");
    let recorded = app.database.number("SELECT count(*) FROM payments").await;
    assert_eq!(recorded, i64::try_from(POSTERS * EACH).unwrap());
    books_balance(&app).await;
    app.stop().await.0.unwrap();
}

/// After a failover the old primary, or a full disk's guard, answers but writes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_database_is_503_and_passes_on_postgres() {
    let app = TestApp::start_with(Database::postgres().await, impatient).await;
    let name = app.database.text("SELECT current_database()").await;
    let read_only =
        |value: &str| format!("BEGIN READ WRITE; ALTER DATABASE {name} {value}; COMMIT");
    let on = read_only("SET default_transaction_read_only = on");
    app.database.execute(&on).await;
    app.database.execute(TERMINATE).await;
    for n in 0..2 {
        is_refused(&app, &format!("during-{n}")).await;
    }
    // The pool's sessions stay read-only for as long as they live.
    let off = read_only("RESET default_transaction_read_only");
    app.database.execute(&off).await;
    recovers(&app).await;
    books_balance(&app).await;
    app.stop().await.0.unwrap();
}

/// One connection is enough: nothing waits for a second one while it holds the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_is_enough_on_postgres() {
    let one = |settings: Settings| settings.with("DATABASE_MAX_CONNECTIONS", 1);
    let app = TestApp::start_with(Database::postgres().await, one).await;
    let posts = (0..100).map(|n| {
        let to = serde_json::json!([
            { "channel": "sms", "to": phone(n) },
            { "channel": "fcm", "to": format!("token-{n}") },
        ]);
        let app = &app;
        async move {
            let answer = app.pay(&payment("order-1", &to)).await;
            let id = answer["id"].as_str().unwrap();
            let shown = app.http.get(app.url(&format!("/payments/{id}")));
            assert_eq!(shown.send().await.unwrap().status(), 200);
            app.admin("/admin/outbox?limit=100").await;
            app.admin("/admin/outbox/stats").await;
        }
    });
    let all = futures_util::future::join_all(posts);
    let done = tokio::time::timeout(Duration::from_secs(30), all).await;
    done.expect("something waits for ever");
    books_balance(&app).await;
    app.stop().await.0.unwrap();
}
