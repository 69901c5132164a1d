//! Rows that something else wrote, and rows that cannot be carried: each is dealt with alone.

use std::time::Duration;

use paybell::provider::mock::{Behavior, RunningMock, Target};

use crate::support::app::{Settings, TestApp, notification, sms};
use crate::support::client::outcomes;
use crate::support::database::Database;
use crate::support::load::{one_sms, phone};
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
