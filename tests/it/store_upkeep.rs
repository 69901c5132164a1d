//! The store: giving up, parking and retention.

use std::time::Duration;

use paybell::payment::{Channel, Status};
use paybell::store::{HeldRow, Settlement, Sweep};
use uuid::Uuid;

use crate::support::books::{Books, LEASE, claim, settlement};
use crate::support::on_both_databases;

const HOUR: Duration = Duration::from_secs(3600);

fn sweep() -> Sweep {
    Sweep {
        channels: vec![Channel::Sms],
        latest_due: HOUR,
        lease: LEASE,
        askable_after: Duration::from_secs(10),
    }
}

async fn count(books: &Books, condition: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM outbox WHERE {condition}");
    books.database.number(&sql).await
}

/// A row that ended in a state so many seconds ago.
async fn ended(books: &Books, status: Status, seconds_ago: i64) -> Uuid {
    let me = Uuid::new_v4();
    let row = books.held_row(me).await;
    let outcome = Settlement {
        last_error: Some("no such number".to_owned()),
        ..settlement(&row, status)
    };
    assert_eq!(books.settle(me, &[outcome]).await, [row.id.0]);
    let at = books.now(-seconds_ago);
    books.set(row.id.0, &format!("updated_at = {at}")).await;
    row.id.0
}

/// A row that waits for its retry, past its give-up time, last tried so many seconds ago.
async fn overdue(books: &Books, maybe_sent: bool, tried_ago: i64) -> Uuid {
    let me = Uuid::new_v4();
    let row: HeldRow = books.held_row(me).await;
    let outcome = Settlement {
        maybe_sent,
        delay: HOUR,
        ..settlement(&row, Status::Pending)
    };
    assert_eq!(books.settle(me, &[outcome]).await, [row.id.0]);
    let (past, tried) = (books.now(-1), books.now(-tried_ago));
    books
        .set(
            row.id.0,
            &format!("expires_at = {past}, updated_at = {tried}"),
        )
        .await;
    row.id.0
}

on_both_databases! {
    /// Past its give-up time a row ends, unless it may have been sent: then it is asked about.
    async fn an_expired_row_ends_or_is_asked_about(database: Database) {
        let books = Books::open(database).await;
        let past = books.now(-1);
        let expired = format!("expires_at = {past}");
        let untouched = books.due_row().await;
        let never_sent = overdue(&books, false, 60).await;
        let said = overdue(&books, false, 60).await;
        books.set(said, "last_error = 'busy'").await;
        let maybe_sent = overdue(&books, true, 60).await;
        let unaskable = books.held_row(Uuid::new_v4()).await.id.0;
        books.set(unaskable, &format!("{expired}, channel = 'fcm', processable_after = {past}")).await;
        let other_channel = overdue(&books, false, 60).await;
        books.set(other_channel, "channel = 'fcm'").await;
        let leased = books.held_row(Uuid::new_v4()).await.id.0;
        books.set(leased, &expired).await;
        let abandoned = books.held_row(Uuid::new_v4()).await.id.0;
        books.set(abandoned, &format!("{expired}, processable_after = {past}")).await;

        assert_eq!(books.store.give_up(&sweep()).await.unwrap(), 4);
        books.assert_row(untouched, &["status = 'PENDING'"]).await;
        let ended = "status = 'FAILED' AND reason = 'expired' AND next_retry_at IS NULL";
        let text = "last_error = 'not accepted within the give-up time'";
        books.assert_row(never_sent, &[ended, text]).await;
        books.assert_row(said, &[ended, "last_error = 'busy'"]).await;
        books.assert_row(other_channel, &[ended]).await;
        let now = books.now(1);
        books.assert_row(maybe_sent, &[
            "status = 'PENDING'", "maybe_sent", "next_retry_at IS NULL",
            &format!("processable_after < {now}"),
        ]).await;
        books.assert_row(unaskable, &[
            "status = 'FAILED'", "reason = 'outcome_unknown'", "claimed_by IS NULL",
        ]).await;
        books.assert_row(leased, &["status = 'PENDING'", "claimed_by IS NOT NULL"]).await;
        books.assert_row(abandoned, &["status = 'PENDING'", "claimed_by IS NOT NULL"]).await;
        let claimed = books.store.claim(claim(Uuid::new_v4())).await.unwrap();
        for id in [maybe_sent, abandoned] {
            let row = claimed.iter().find(|row| row.id.0 == id).unwrap();
            assert!(row.maybe_sent && row.expired, "its lane asks one last time");
        }
    }
}

on_both_databases! {
    /// "Never seen" counts only when the provider had its time to answer: a row whose request went
    /// unanswered a moment ago is not asked about yet, expired or not.
    async fn a_row_tried_a_moment_ago_is_not_asked_about_yet(database: Database) {
        let books = Books::open(database).await;
        let id = overdue(&books, true, 2).await;
        assert_eq!(books.store.give_up(&sweep()).await.unwrap(), 0);
        let soon = books.now(10);
        books.assert_row(id, &["status = 'PENDING'", &format!("processable_after > {soon}")]).await;
    }
}

on_both_databases! {
    /// A wrong clock or hand made a row due in years.
    async fn rows_due_too_late_are_pulled_back(database: Database) {
        let books = Books::open(database).await;
        let (near, far, now) = (books.now(3000), books.now(4000), books.now(1));
        let fine = books.due_row().await;
        books.set(fine, &format!("processable_after = {near}, next_retry_at = {near}")).await;
        let late = books.due_row().await;
        books.set(late, &format!("processable_after = {far}")).await;
        let late_retry = books.due_row().await;
        books.set(late_retry, &format!("next_retry_at = {far}")).await;
        let sent = ended(&books, Status::Sent, 0).await;
        books.set(sent, &format!("processable_after = {far}")).await;
        let held = books.held_row(Uuid::new_v4()).await.id.0;
        books.set(held, &format!("processable_after = {far}")).await;
        assert_eq!(books.store.pull_back(&sweep()).await.unwrap(), 3);
        due_in(&books, held, 60).await;
        for id in [late, late_retry] {
            let due = format!("processable_after < {now}");
            books.assert_row(id, &[&due, "next_retry_at IS NULL"]).await;
        }
        books.assert_row(fine, &["next_retry_at IS NOT NULL"]).await;
        books.assert_row(sent, &[&format!("processable_after >= {near}")]).await;
    }
}

/// The row is due in so many seconds, give or take some.
async fn due_in(books: &Books, id: Uuid, seconds: i64) {
    let (from, to) = (books.now(seconds - 10), books.now(seconds + 10));
    let due = format!("processable_after BETWEEN {from} AND {to}");
    books.assert_row(id, &[&due]).await;
}

on_both_databases! {
    /// The clock was ten minutes ahead when it wrote the rows, and is right now. Each waits for as
    /// long as it was meant to, and a holder that may be alive keeps a whole lease.
    async fn what_a_clock_ahead_wrote_is_retold(database: Database) {
        let books = Books::open(database).await;
        let ahead = 600;
        // (due, retry, held) by the clock that was ahead; due by the right one.
        let cases = [
            (0, None, false, 0),
            (300, Some(300), false, 300),
            (-300, None, false, 0),
            (20, None, true, 60),
            (90, None, true, 90),
            (-5, Some(-400), true, 60),
        ];
        let mut rows = Vec::new();
        for (due, retry, held, expected) in cases {
            let id = if held {
                books.held_row(Uuid::new_v4()).await.id.0
            } else {
                books.due_row().await
            };
            let retry_at = retry.map_or("NULL".to_owned(), |retry| books.now(ahead + retry));
            books.set(id, &format!(
                "processable_after = {}, next_retry_at = {retry_at}, updated_at = {}",
                books.now(ahead + due), books.now(ahead),
            )).await;
            rows.push((id, retry, expected));
        }
        let right = books.due_row().await;
        let (soon, now) = (books.now(300), books.now(0));
        books.set(right, &format!("processable_after = {soon}, updated_at = {now}")).await;
        let sent = ended(&books, Status::Sent, -600).await;

        // Whatever the step, the sweep ends, and the next one finds nothing.
        let mut retold = Vec::new();
        for _ in 0..3 {
            retold.push(books.store.retell(&sweep(), 4).await.unwrap());
        }
        assert_eq!(retold, [4, 2, 0]);
        let now = books.now(1);
        for (id, retry, expected) in rows {
            due_in(&books, id, expected).await;
            let retry = retry.map_or("next_retry_at IS NULL".to_owned(), |retry| {
                let (from, to) = (books.now(retry - 10), books.now(retry + 10));
                format!("next_retry_at BETWEEN {from} AND {to}")
            });
            books.assert_row(id, &[&retry, &format!("updated_at <= {now}")]).await;
        }
        due_in(&books, right, 300).await;
        books.assert_row(sent, &["status = 'SENT'", &format!("updated_at > {now}")]).await;
    }
}

on_both_databases! {
    /// Moments that no clock can have told are not calculated with: they would end the sweep with
    /// an error, for all other rows too. What is due too late by them is pulled back.
    async fn moments_that_nobody_told_break_no_sweep(database: Database) {
        let books = Books::open(database).await;
        let (first, last) = if books.database.is_sqlite() {
            (i64::MIN.to_string(), i64::MAX.to_string())
        } else {
            ("'-infinity'".to_owned(), "'infinity'".to_owned())
        };
        let (late, now) = (books.now(600), books.now(0));
        let mut ids = Vec::new();
        for set in [
            format!("processable_after = {last}, next_retry_at = {late}, updated_at = {late}"),
            format!("processable_after = {late}, next_retry_at = {last}, updated_at = {late}"),
            format!("processable_after = {last}, next_retry_at = {last}, updated_at = {last}"),
            format!("processable_after = {first}, next_retry_at = {first}, updated_at = {late}"),
            format!("processable_after = {first}, next_retry_at = NULL, updated_at = {last}"),
            format!("processable_after = {now}, next_retry_at = {first}, updated_at = {late}"),
            format!("processable_after = {late}, next_retry_at = NULL, updated_at = {late}"),
        ] {
            let id = books.due_row().await;
            books.set(id, &set).await;
            ids.push(id);
        }
        assert_eq!(books.store.retell(&sweep(), 100).await.unwrap(), 1);
        assert_eq!(books.store.pull_back(&sweep()).await.unwrap(), 3);
        books.store.give_up(&sweep()).await.unwrap();
        let claimed = books.store.claim(claim(Uuid::new_v4())).await.unwrap();
        let mut claimed: Vec<Uuid> = claimed.iter().map(|row| row.id.0).collect();
        claimed.sort_unstable();
        ids.sort_unstable();
        assert_eq!(claimed, ids);
    }
}

on_both_databases! {
    /// No lane knows the channel: the row ends where it is seen. A newer version's row does not.
    async fn rows_of_unknown_channels_are_parked(database: Database) {
        let books = Books::open(database).await;
        let mut strangers = Vec::new();
        for channel in ["fax", "", "zulu", "gcm", "SMS", "sms "] {
            let id = books.due_row().await;
            books.set(id, &format!("channel = '{channel}'")).await;
            strangers.push(id);
        }
        let newer = books.due_row().await;
        books.set(newer, "channel = 'fax', payload_version = 2").await;
        let push = books.due_row().await;
        books.set(push, "channel = 'fcm'").await;
        let sms = books.due_row().await;
        let done = ended(&books, Status::Sent, 0).await;
        books.set(done, "channel = 'fax'").await;
        assert_eq!(books.store.park_unknown_channels().await.unwrap(), strangers.len());
        assert_eq!(books.store.park_unknown_channels().await.unwrap(), 0);
        for id in strangers {
            let parked = ["status = 'FAILED'", "reason = 'unreadable'", "last_error IS NOT NULL"];
            books.assert_row(id, &parked).await;
        }
        for id in [newer, push, sms] {
            books.assert_row(id, &["status = 'PENDING'"]).await;
        }
        books.assert_row(done, &["status = 'SENT'"]).await;
    }
}

on_both_databases! {
    /// SENT and CANCELED rows go when they are old enough, with their history, and stay counted.
    async fn old_rows_are_removed_and_the_books_balance(database: Database) {
        let books = Books::open(database).await;
        for _ in 0..3 {
            ended(&books, Status::Sent, 7200).await;
            ended(&books, Status::Canceled, 7200).await;
        }
        let replayed = ended(&books, Status::Sent, 7200).await;
        books.set(replayed, "status = 'PENDING'").await;
        let kept = [
            ended(&books, Status::Sent, 3000).await,
            ended(&books, Status::Canceled, 3000).await,
            ended(&books, Status::Failed, 7200).await,
            replayed,
        ];
        let paused = ended(&books, Status::Sent, 7200).await;
        books.set(paused, "status = 'PAUSED'").await;
        let mut removed = Vec::new();
        loop {
            let step = books.store.purge(HOUR, 4).await.unwrap();
            removed.push(step);
            if step < 4 {
                break;
            }
        }
        assert_eq!(removed, [4, 2]);
        assert_eq!(count(&books, "true").await, 5);
        for id in kept {
            assert!(books.store.outbox_row(id).await.unwrap().is_some());
        }
        let stats = books.store.stats().await.unwrap();
        let rows: i64 = stats.counts.iter().map(|count| count.rows).sum();
        assert_eq!((stats.recorded, stats.purged, rows), (11, 6, 5));
        let payments = books.database.number("SELECT count(*) FROM payments").await;
        assert_eq!(payments, 11, "payments stay");
    }
}

on_both_databases! {
    /// Two janitors at once count each row once.
    async fn two_purges_at_once_count_each_row_once(database: Database) {
        let books = Books::open(database).await;
        for _ in 0..20 {
            ended(&books, Status::Sent, 7200).await;
        }
        let other = crate::support::books::open(&books.database).await;
        let (one, two) = tokio::join!(books.store.purge(HOUR, 500), other.purge(HOUR, 500));
        assert_eq!(one.unwrap() + two.unwrap(), 20);
        let stats = books.store.stats().await.unwrap();
        assert_eq!((stats.recorded, stats.purged), (20, 20));
    }
}

on_both_databases! {
    /// Personal data of old dead letters goes; the row stays, and is not replayed to nobody.
    async fn old_failures_are_blanked(database: Database) {
        let books = Books::open(database).await;
        let old = ended(&books, Status::Failed, 7200).await;
        books.store.remember_lost_lease(old, 1, 1, "http").await.unwrap();
        let entry = format!("outbox_id = {}", books.id(old));
        books.database.execute(&format!("UPDATE attempts SET error = 'x' WHERE {entry}")).await;
        let young = ended(&books, Status::Failed, 3000).await;
        let sent = ended(&books, Status::Sent, 7200).await;
        assert_eq!(books.store.blank_failed(HOUR, 10).await.unwrap(), 1);
        assert_eq!(books.store.blank_failed(HOUR, 10).await.unwrap(), 0);
        books.assert_row(old, &[
            "status = 'FAILED'", "recipient = ''", "payload NOT LIKE '%paid%'",
            "last_error IS NULL",
        ]).await;
        assert_eq!(books.entries(old, "error IS NULL").await, 1);
        for id in [young, sent] {
            books.assert_row(id, &["recipient <> ''", "last_error IS NOT NULL"]).await;
        }
    }
}
