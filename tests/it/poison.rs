//! Rows that something else wrote, and rows that cannot be carried: each is dealt with alone.

use std::sync::Arc;
use std::time::Duration;

use paybell::payment::Channel;
use paybell::provider::mock::{Behavior, Mock, RunningMock, Target};
use paybell::store::NewPayment;
use serde_json::Value;
use uuid::Uuid;

use crate::support::app::{Settings, TestApp, notification, sms};
use crate::support::books::{self, Books};
use crate::support::client::outcomes;
use crate::support::database::Database;
use crate::support::load::{one_sms, phone, received as received_ids};
use crate::support::on_both_databases;
use crate::support::wait::until;

/// Ids of as many SMS rows, which wait for minutes because the gateway wants it so.
async fn waiting_rows(app: &TestApp, rows: usize) -> Vec<String> {
    let later = Behavior {
        status: Some(503),
        headers: [("Retry-After".to_owned(), "600".to_owned())].into(),
        ..Behavior::default()
    };
    app.mock.set_behavior(Target::Sms, later).unwrap();
    let mut ids = Vec::new();
    for n in 0..rows {
        ids.push(notification(&app.pay(&one_sms(n)).await, 0));
    }
    let waiting = "SELECT count(*) FROM outbox WHERE next_retry_at IS NOT NULL";
    until("all rows wait", Duration::from_secs(5), async || {
        let waiting = app.database.number(waiting).await;
        (usize::try_from(waiting).unwrap() == rows).then_some(())
    })
    .await;
    app.mock.clear_behavior(Target::Sms);
    ids
}

/// Changes the n-th row by hand and makes it due.
async fn change(database: &Database, n: usize, set: &str) {
    let past = database.hours_from_now(-1);
    let sql = format!(
        "UPDATE outbox SET processable_after = {past}, next_retry_at = {past}, {set}
         WHERE recipient = '{}'",
        phone(n)
    );
    database.execute(&sql).await;
}

fn received(mock: &RunningMock, n: usize) -> usize {
    mock.messages()
        .iter()
        .filter(|message| message.to == phone(n))
        .count()
}

on_both_databases! {
    /// A row that cannot be read or that nobody can send is parked where it is seen; a label that is
    /// new is none of our business; a newer version's row is left to the newer version.
    async fn strange_rows_harm_no_other(database: Database) {
        let app = TestApp::start(database.clone()).await;
        let ids = waiting_rows(&app, 6).await;
        change(&database, 0, "payload = '{\"body'").await;
        change(&database, 1, "channel = 'pigeon'").await;
        change(&database, 2, "event_type = 'PAYMENT_OF_TOMORROW'").await;
        change(&database, 3, "payload_version = 99").await;
        change(&database, 4, "payload = '[]'").await;
        change(&database, 5, "reason = NULL").await;
        for n in [0, 1, 4] {
            let row = app.row_in(&ids[n], "FAILED").await;
            assert_eq!(row["reason"], "unreadable", "row {n}");
            assert!(row["last_error"].is_string(), "row {n}");
        }
        for n in [2, 5] {
            app.row_in(&ids[n], "SENT").await;
            assert_eq!(received(&app.mock, n), 1, "row {n}");
        }
        let row = app.row(&ids[3]).await;
        assert_eq!((&row["status"], &row["deferrals"]), (&"PENDING".into(), &1.into()));
        assert_eq!(database.number("SELECT epoch FROM outbox WHERE payload_version = 99").await, 1);
        assert_eq!(app.mock.messages().len(), 2);
        let stats = app.admin("/admin/outbox/stats").await;
        assert_eq!(stats["by_status"]["FAILED"], 3);
    }
}

on_both_databases! {
    /// No mix of due times, holders and NULLs strands a pending row.
    async fn no_mix_of_columns_strands_a_row(database: Database) {
        let app = TestApp::start(database.clone()).await;
        let stranger = if database.is_sqlite() {
            "claimed_by = x'00112233445566778899aabbccddeeff'"
        } else {
            "claimed_by = '00112233-4455-6677-8899-aabbccddeeff'"
        };
        let (past, future) = (database.hours_from_now(-1), database.hours_from_now(200_000));
        let due_now = [
            "next_retry_at = NULL".to_owned(),
            format!("next_retry_at = NULL, {stranger}"),
            stranger.to_owned(),
            "maybe_sent = true".to_owned(),
            "provider = 'acme', maybe_sent = true".to_owned(),
            format!("next_retry_at = NULL, processable_after = {}", database.hours_from_now(-200_000)),
        ];
        let due_never = [
            format!("next_retry_at = {future}"),
            format!("next_retry_at = NULL, processable_after = {future}"),
            format!("next_retry_at = {past}, processable_after = {future}"),
            format!("processable_after = {future}, {stranger}"),
        ];
        let ids = waiting_rows(&app, due_now.len() + due_never.len()).await;
        for (n, set) in due_now.iter().chain(&due_never).enumerate() {
            let past = &past;
            let defaults = [("processable_after", past), ("next_retry_at", past)];
            let defaults = defaults.iter().filter(|(column, _)| !set.contains(&format!("{column} =")));
            let more: String = defaults.map(|(column, at)| format!(", {column} = {at}")).collect();
            let sql = format!("UPDATE outbox SET {set}{more} WHERE recipient = '{}'", phone(n));
            database.execute(&sql).await;
        }
        for (id, set) in ids.iter().zip(&due_now) {
            let row = app.row_in(id, "SENT").await;
            assert_eq!(outcomes(&row).last(), Some(&"accepted"), "{set}");
        }
        // Those that no clock of ours can have written are pulled back by the next sweep.
        let (ended, mock) = app.stop().await;
        ended.unwrap();
        let settings = Settings::new(&database, &mock).with_short_leases();
        let app = TestApp::start_over(database, mock, settings).await;
        for id in &ids[due_now.len()..] {
            app.row_in(id, "SENT").await;
        }
        for n in 0..ids.len() {
            assert_eq!(received(&app.mock, n), 1, "row {n}");
        }
    }
}

on_both_databases! {
    /// The clock was an hour ahead when the rows were written, and was set right while the service
    /// was down. No wait of theirs grows by that hour.
    async fn a_clock_that_was_ahead_delays_nothing(database: Database) {
        let app = TestApp::start(database.clone()).await;
        let ids = waiting_rows(&app, 2).await;
        let (ended, mock) = app.stop().await;
        ended.unwrap();
        // Due when they were written, by waits that may be as long as that hour.
        let at = database.hours_from_now(1);
        database
            .execute(&format!(
                "UPDATE outbox SET processable_after = {at}, next_retry_at = {at}, updated_at = {at}"
            ))
            .await;
        let settings = Settings::new(&database, &mock).with("BACKOFF_MAX_MS", 10 * 3_600_000);
        let app = TestApp::start_over(database, mock, settings).await;
        for id in &ids {
            app.row_in(id, "SENT").await;
        }
        assert_eq!(app.mock.messages().len(), ids.len());
    }
}

/// Healthy rows beside those that something else wrote.
const NEIGHBOURS: usize = 200;

/// Records as many SMS that are due, in one transaction; their ids.
async fn record(books: &Books, rows: usize) -> Vec<Uuid> {
    let batch: Vec<NewPayment> = (0..rows).map(|_| books::due(books::payment())).collect();
    let ids = batch
        .iter()
        .map(|new| new.payment.notifications[0].id)
        .collect();
    let lease = books::lease(Uuid::nil());
    books.store.record(Arc::new(batch), lease).await.unwrap();
    ids
}

/// What somebody may write into a due row, and how the row then ends. `STRANGER` is another
/// process's name, `HOUR_AGO` and `YEAR_9999` are moments, `FIRST` and `LAST` the ends of time.
const WRITTEN: [(&str, &str); 34] = [
    ("recipient = ''", "FAILED unreadable"),
    ("payload = 'null'", "FAILED unreadable"),
    ("payload = ''", "FAILED unreadable"),
    ("payload = '{\"body\": null}'", "FAILED unreadable"),
    ("payload_version = -1", "SENT"),
    ("channel = ''", "FAILED unreadable"),
    ("event_type = ''", "SENT"),
    ("attempts = -5", "SENT"),
    ("attempts = -2147483648, deferrals = -2147483648", "SENT"),
    ("attempts = 2147483647", "FAILED attempts_exhausted"),
    (
        "attempts = 2147483647, maybe_sent = true",
        "FAILED attempts_exhausted",
    ),
    ("deferrals = 2147483647", "SENT"),
    ("replays = 2147483647", "SENT"),
    ("replays = -1", "SENT"),
    ("epoch = 9223372036854775806", "SENT"),
    (
        "epoch = 9223372036854775806, recipient = '+821099999999'",
        "SENT",
    ),
    ("epoch = 9223372036854775807", "SENT"),
    ("epoch = -9223372036854775808", "SENT"),
    (
        "lost_leases = 2147483647, claimed_by = STRANGER",
        "FAILED crashed",
    ),
    ("lost_leases = -2147483648", "SENT"),
    ("claimed_by = STRANGER", "SENT"),
    ("provider = ''", "SENT"),
    ("provider = 'acme', maybe_sent = true", "SENT"),
    ("expires_at = HOUR_AGO", "FAILED expired"),
    ("expires_at = FIRST", "FAILED expired"),
    ("expires_at = LAST", "SENT"),
    ("processable_after = YEAR_9999", "SENT"),
    ("processable_after = LAST, next_retry_at = LAST", "SENT"),
    ("processable_after = FIRST, next_retry_at = FIRST", "SENT"),
    ("updated_at = LAST", "SENT"),
    ("status = 'PAUSED'", "PAUSED"),
    ("status = '', expires_at = HOUR_AGO", ""),
    ("payload_version = 99", "PENDING"),
    (
        "payload_version = 99, expires_at = HOUR_AGO, processable_after = YEAR_9999",
        "PENDING",
    ),
];

/// The assignments as SQL of the database.
fn sql_of(written: &str, database: &Database) -> String {
    let (stranger, year_9999, first, last) = if database.is_sqlite() {
        // Not even an id.
        (
            "'somebody'",
            "253370764800000000",
            "-9223372036854775808",
            "9223372036854775807",
        )
    } else {
        (
            "'00112233-4455-6677-8899-aabbccddeeff'",
            "'9999-01-01'",
            "'-infinity'",
            "'infinity'",
        )
    };
    written
        .replace("STRANGER", stranger)
        .replace("HOUR_AGO", &database.hours_from_now(-1))
        .replace("YEAR_9999", year_9999)
        .replace("FIRST", first)
        .replace("LAST", last)
}

on_both_databases! {
    /// Whatever a hand or a newer version wrote: the row ends as it must or is left alone, and its
    /// neighbours are all SENT, each once.
    async fn no_written_value_blocks_the_neighbours(database: Database) {
        let books = Books::open(database.clone()).await;
        let mut ids = record(&books, WRITTEN.len() + NEIGHBOURS).await;
        let healthy = ids.split_off(WRITTEN.len());
        for (id, (written, _)) in ids.iter().zip(WRITTEN) {
            books.set(*id, &sql_of(written, &database)).await;
        }
        let left_alone = "SELECT count(*) FROM outbox WHERE epoch = 0 AND claimed_by IS NULL AND \
                          (payload_version = 99 OR status IN ('PAUSED', ''))";
        assert_eq!(database.number(left_alone).await, 4);

        let mock = Mock::start(([127, 0, 0, 1], 0).into()).unwrap();
        let busy = Behavior {
            to: Some("+821099999999".to_owned()),
            times: Some(1),
            status: Some(503),
            ..Behavior::default()
        };
        mock.set_behavior(Target::Sms, busy).unwrap();
        let settings = Settings::new(&database, &mock);
        let app = TestApp::start_over(database.clone(), mock, settings).await;
        for id in &healthy {
            app.row_in(&id.to_string(), "SENT").await;
        }
        for (id, (written, expected)) in ids.iter().zip(WRITTEN) {
            let (status, reason) = expected.split_once(' ').unwrap_or((expected, ""));
            let row = app.row_in(&id.to_string(), status).await;
            assert_eq!(row["reason"].as_str().unwrap_or_default(), reason, "{written}");
        }
        let mut wanted: Vec<String> = healthy.iter().map(Uuid::to_string).collect();
        let sent = ids.iter().zip(WRITTEN).filter(|(_, (_, expected))| *expected == "SENT");
        wanted.extend(sent.map(|(id, _)| id.to_string()));
        wanted.sort_unstable();
        assert_eq!(received_ids(&app.mock, Channel::Sms), wanted);

        assert_eq!(database.number(left_alone).await, 4);
        let stats = app.admin("/admin/outbox/stats").await;
        assert_eq!((&stats["newer_version"], &stats["due"]), (&2.into(), &0.into()), "{stats}");
        assert_eq!(stats["by_status"]["PAUSED"], 1);
        let listed = app.admin("/admin/outbox?limit=500").await;
        let paused = listed["items"].as_array().unwrap().iter();
        assert_eq!(paused.filter(|row| row["status"] == "PAUSED").count(), 1);
    }
}

on_both_databases! {
    /// A newer version took the row on while a request of this one was out: whatever became of the
    /// request, the newer state stays. The history tells.
    async fn an_acceptance_overwrites_no_unknown_status(database: Database) {
        let app = TestApp::start(database.clone()).await;
        let slow = Behavior { latency_ms: 500, ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, slow).unwrap();
        let id = notification(&app.pay(&one_sms(0)).await, 0);
        assert!(app.mock.wait_for_requests(Target::Sms, 1, Duration::from_secs(5)).await);
        database.execute("UPDATE outbox SET status = 'DELIVERED'").await;
        let row = until("the history tells", Duration::from_secs(10), async || {
            let row = app.row(&id).await;
            outcomes(&row).contains(&"lease_lost").then_some(row)
        })
        .await;
        assert_eq!((&row["status"], &row["provider_message_id"]), (&"DELIVERED".into(), &Value::Null));
    }
}

on_both_databases! {
    /// A dead letter to a recipient is no reason to hold back the next message to the same one.
    async fn a_dead_letter_blocks_nobody(database: Database) {
        let app = TestApp::start(database).await;
        let refused = Behavior { times: Some(1), status: Some(400), ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, refused).unwrap();
        let first = app.pay(&sms("order-1", "010-1234-5678")).await;
        let row = app.row_in(&notification(&first, 0), "FAILED").await;
        assert_eq!((&row["reason"], &row["attempts"]), (&"rejected".into(), &1.into()));
        let second = app.pay(&sms("order-2", "010-1234-5678")).await;
        app.row_in(&notification(&second, 0), "SENT").await;
        assert_eq!(app.mock.requests(Target::Sms), 2);
    }
}
