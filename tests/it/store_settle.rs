//! The store: what an outcome writes, and when it writes nothing.

use std::sync::Arc;
use std::time::Duration;

use paybell::payment::{Happening, Reason, Status};
use paybell::store::{Change, HeldRow, HistoryEntry, Settlement};
use uuid::Uuid;

use crate::support::books::{Books, GIVE_UP, claim, settlement};
use crate::support::on_both_databases;

fn sent(row: &HeldRow) -> Settlement {
    Settlement {
        attempts: row.attempts + 1,
        maybe_sent: false,
        provider_message_id: Some(format!("m-{}", row.id.0)),
        ..settlement(row, Status::Sent)
    }
}

fn deferred(row: &HeldRow) -> Settlement {
    Settlement {
        deferrals: row.deferrals + 1,
        delay: Duration::from_secs(30),
        last_error: Some("busy".to_owned()),
        history: Some(entry(Happening::Deferred, row.attempts)),
        ..settlement(row, Status::Pending)
    }
}

fn failed(row: &HeldRow) -> Settlement {
    Settlement {
        reason: Some(Reason::Rejected),
        attempts: row.attempts + 1,
        last_error: Some("no such number".to_owned()),
        history: Some(entry(Happening::Rejected, row.attempts + 1)),
        ..settlement(row, Status::Failed)
    }
}

fn entry(outcome: Happening, attempt: i32) -> HistoryEntry {
    HistoryEntry {
        outcome,
        attempt,
        started_ago: Duration::from_secs(3),
        finished_ago: Duration::from_secs(1),
        http_status: Some(503),
        error: Some("busy".to_owned()),
        provider: "http".to_owned(),
        provider_message_id: None,
    }
}

async fn change(books: &Books, id: Uuid, change: Change) {
    assert!(books.store.change(id, change, GIVE_UP).await.unwrap());
}

/// Makes a row due that waits or is leased, and claims it.
async fn reclaim(books: &Books, id: Uuid, holder: Uuid) -> HeldRow {
    let past = books.now(-1);
    books
        .set(
            id,
            &format!("processable_after = {past}, next_retry_at = NULL"),
        )
        .await;
    let held = books.store.claim(claim(holder)).await.unwrap();
    held.into_iter().find(|row| row.id.0 == id).unwrap()
}

on_both_databases! {
    /// Each outcome writes the whole of the row's new state.
    async fn an_outcome_is_written_whole(database: Database) {
        let books = Books::open(database).await;
        let me = Uuid::new_v4();
        let mut rows = Vec::new();
        for _ in 0..3 {
            rows.push(books.held_row(me).await);
        }
        books.set(rows[0].id.0, "maybe_sent = true, last_error = 'old', lost_leases = 3").await;
        books.set(rows[1].id.0, "lost_leases = 3").await;
        let unknown = Settlement { maybe_sent: true, ..deferred(&rows[1]) };
        let batch = [sent(&rows[0]), unknown, failed(&rows[2])];
        let mut ids: Vec<Uuid> = rows.iter().map(|row| row.id.0).collect();
        ids.sort_unstable();
        assert_eq!(books.settle(me, &batch).await, ids);
        let (ago, now) = (books.now(-20), books.now(1));
        books.assert_row(rows[0].id.0, &[
            "status = 'SENT'", "reason IS NULL", "attempts = 1", "NOT maybe_sent",
            "claimed_by IS NULL", "next_retry_at IS NULL", "last_error = 'old'", "epoch = 1",
            "lost_leases = 0", "provider_message_id LIKE 'm-%'",
            &format!("sent_at > {ago}"), &format!("sent_at < {now}"),
        ]).await;
        let (soon, late) = (books.now(20), books.now(31));
        books.assert_row(rows[1].id.0, &[
            "status = 'PENDING'", "attempts = 0", "deferrals = 1", "maybe_sent",
            "lost_leases = 0", "claimed_by IS NULL", "next_retry_at = processable_after",
            "last_error = 'busy'", "sent_at IS NULL",
            &format!("processable_after > {soon}"), &format!("processable_after < {late}"),
        ]).await;
        books.assert_row(rows[2].id.0, &[
            "status = 'FAILED'", "reason = 'rejected'", "attempts = 1", "claimed_by IS NULL",
            "next_retry_at IS NULL", "last_error = 'no such number'", "sent_at IS NULL",
            "provider_message_id IS NULL",
        ]).await;
        let history = books.store.outbox_row(rows[2].id.0).await.unwrap().unwrap().history;
        let [entry] = history.try_into().unwrap();
        assert_eq!((entry.epoch, entry.attempt, entry.times), (1, 1, 1));
        assert_eq!(entry.outcome, "rejected");
        assert_eq!(entry.http_status, Some(503));
        assert_eq!(entry.error.as_deref(), Some("busy"));
        assert_eq!(entry.provider, "http");
        assert_eq!(entry.provider_message_id, None);
        let took = entry.started_at.seconds_until(entry.finished_at);
        assert!((1.9..2.1).contains(&took), "{took}");
    }
}

on_both_databases! {
    /// The fence: status, epoch and holder.
    async fn a_stale_outcome_writes_nothing(database: Database) {
        let books = Books::open(database).await;
        let (me, other) = (Uuid::new_v4(), Uuid::new_v4());
        let row = books.held_row(me).await;
        let stale = Settlement { epoch: row.epoch - 1, ..deferred(&row) };
        let ahead = Settlement { epoch: row.epoch + 1, ..deferred(&row) };
        assert!(books.settle(me, &[stale]).await.is_empty());
        assert!(books.settle(me, &[ahead]).await.is_empty());
        assert!(books.settle(other, &[deferred(&row)]).await.is_empty(), "not the holder");
        for status in ["FAILED", "CANCELED", "SENT", "PAUSED"] {
            books.set(row.id.0, &format!("status = '{status}'")).await;
            assert!(books.settle(me, &[failed(&row)]).await.is_empty(), "{status}");
        }
        books.set(row.id.0, "status = 'PENDING'").await;
        assert_eq!(books.entries(row.id.0, "true").await, 0, "no history of what was not");
        let holder = format!("claimed_by = {}", books.id(me));
        books.assert_row(row.id.0, &["epoch = 1", "attempts = 0", &holder]).await;
        assert_eq!(books.settle(me, &[failed(&row)]).await, [row.id.0]);
    }
}

on_both_databases! {
    /// An acceptance is a fact, whatever became of the row meanwhile.
    async fn an_acceptance_is_written_on_a_row_that_was_lost(database: Database) {
        let books = Books::open(database).await;
        let (me, other) = (Uuid::new_v4(), Uuid::new_v4());
        let canceled = books.held_row(me).await;
        change(&books, canceled.id.0, Change::Cancel { force: true }).await;
        let failed_row = books.held_row(me).await;
        assert_eq!(books.settle(me, &[failed(&failed_row)]).await, [failed_row.id.0]);
        let taken = books.held_row(me).await;
        reclaim(&books, taken.id.0, other).await;
        for row in [&canceled, &failed_row, &taken] {
            assert_eq!(books.settle(me, &[sent(row)]).await, [row.id.0]);
            books.assert_row(row.id.0, &[
                "status = 'SENT'", "reason IS NULL", "sent_at IS NOT NULL", "claimed_by IS NULL",
            ]).await;
        }
    }
}

on_both_databases! {
    /// After a replay the row means a new message: the old one's acceptance is not its own.
    async fn an_acceptance_of_before_a_replay_writes_nothing(database: Database) {
        let books = Books::open(database).await;
        let (me, other) = (Uuid::new_v4(), Uuid::new_v4());
        let row = books.held_row(me).await;
        change(&books, row.id.0, Change::Cancel { force: true }).await;
        change(&books, row.id.0, Change::Replay { force: false }).await;
        assert!(books.settle(me, &[sent(&row)]).await.is_empty());
        books.assert_row(row.id.0, &["status = 'PENDING'", "replays = 1"]).await;
        let again = reclaim(&books, row.id.0, other).await;
        assert!(books.settle(me, &[sent(&row)]).await.is_empty());
        assert_eq!(books.settle(other, &[sent(&again)]).await, [row.id.0]);
    }
}

on_both_databases! {
    /// SENT is final, but for a forced replay.
    async fn nothing_is_written_over_sent(database: Database) {
        let books = Books::open(database).await;
        let me = Uuid::new_v4();
        let row = books.held_row(me).await;
        assert_eq!(books.settle(me, &[sent(&row)]).await, [row.id.0]);
        let other = Settlement {
            provider_message_id: Some("another".to_owned()),
            attempts: 9,
            ..sent(&row)
        };
        for outcome in [other, deferred(&row), failed(&row)] {
            assert!(books.settle(me, &[outcome]).await.is_empty());
        }
        books.assert_row(row.id.0, &[
            "status = 'SENT'", "attempts = 1", "provider_message_id LIKE 'm-%'",
        ]).await;
    }
}

on_both_databases! {
    /// The answer to a write was lost: it is written again.
    async fn an_outcome_written_twice_is_written_once(database: Database) {
        let books = Books::open(database).await;
        let me = Uuid::new_v4();
        let row = books.held_row(me).await;
        let outcome = Settlement { attempts: 5, ..deferred(&row) };
        assert_eq!(books.settle(me, std::slice::from_ref(&outcome)).await, [row.id.0]);
        assert!(books.settle(me, &[outcome]).await.is_empty());
        books.assert_row(row.id.0, &["attempts = 5", "deferrals = 1", "epoch = 1"]).await;
        assert_eq!(books.entries(row.id.0, "times = 1").await, 1);
        let standings = books.store.standing(&[row.id.0]).await.unwrap();
        let [standing] = standings.try_into().unwrap();
        assert_eq!((standing.status.as_str(), standing.epoch), ("PENDING", 1));
        assert_eq!(standing.claimed_by, None, "so its writer knows that it landed");
    }
}

on_both_databases! {
    /// Waits that cost nothing are one entry, counted up; other outcomes have one each.
    async fn deferrals_are_one_entry(database: Database) {
        let books = Books::open(database).await;
        let me = Uuid::new_v4();
        let mut row = books.held_row(me).await;
        for _ in 0..3 {
            assert_eq!(books.settle(me, &[deferred(&row)]).await, [row.id.0]);
            row = reclaim(&books, row.id.0, me).await;
        }
        let unknown = Settlement {
            attempts: 1,
            history: Some(entry(Happening::Unknown, 1)),
            ..deferred(&row)
        };
        assert_eq!(books.settle(me, &[unknown]).await, [row.id.0]);
        row = reclaim(&books, row.id.0, me).await;
        assert_eq!(books.settle(me, &[deferred(&row)]).await, [row.id.0]);
        assert_eq!(books.entries(row.id.0, "outcome = 'deferred' AND times = 4").await, 1);
        assert_eq!(books.entries(row.id.0, "outcome = 'unknown' AND times = 1").await, 1);
        assert_eq!(books.entries(row.id.0, "true").await, 2);
    }
}

on_both_databases! {
    /// One message at the provider belongs to one row. The batch fails whole and says that it is
    /// data: the settler then writes the others one by one.
    async fn a_message_id_given_twice_is_refused_as_data(database: Database) {
        let books = Books::open(database).await;
        let me = Uuid::new_v4();
        let (one, two) = (books.held_row(me).await, books.held_row(me).await);
        let twice = |row| Settlement {
            provider_message_id: Some("m-1".to_owned()),
            ..sent(row)
        };
        assert_eq!(books.settle(me, &[twice(&one)]).await, [one.id.0]);
        let three = books.held_row(me).await;
        let batch = Arc::new(vec![sent(&three), twice(&two)]);
        let fault = books.store.settle(me, batch).await.unwrap_err();
        assert!(fault.is_data(), "{fault}");
        for row in [&two, &three] {
            books.assert_row(row.id.0, &["status = 'PENDING'"]).await;
        }
        let without = Settlement { provider_message_id: None, ..sent(&two) };
        let mut both = [two.id.0, three.id.0];
        both.sort_unstable();
        assert_eq!(books.settle(me, &[without, sent(&three)]).await, both);
    }
}

on_both_databases! {
    /// An outcome whose row retention removed is nobody's.
    async fn an_outcome_of_a_removed_row_writes_nothing(database: Database) {
        let books = Books::open(database).await;
        let me = Uuid::new_v4();
        let row = books.held_row(me).await;
        let sql = format!("DELETE FROM outbox WHERE id = {}", books.id(row.id.0));
        books.database.execute(&sql).await;
        assert!(books.settle(me, &[sent(&row)]).await.is_empty());
        assert!(books.settle(me, &[failed(&row)]).await.is_empty());
        assert_eq!(books.store.standing(&[row.id.0]).await.unwrap(), []);
    }
}

on_both_databases! {
    /// A lost lease is in the history once, and never in the place of an outcome.
    async fn a_lost_lease_is_remembered_once(database: Database) {
        let books = Books::open(database).await;
        let me = Uuid::new_v4();
        let row = books.held_row(me).await;
        for _ in 0..2 {
            books.store.remember_lost_lease(row.id.0, row.epoch, 1, "http").await.unwrap();
        }
        assert_eq!(books.entries(row.id.0, "outcome = 'lease_lost' AND epoch = 1").await, 1);
        let again = reclaim(&books, row.id.0, me).await;
        assert_eq!(books.settle(me, &[failed(&again)]).await, [row.id.0]);
        books.store.remember_lost_lease(row.id.0, again.epoch, 1, "http").await.unwrap();
        assert_eq!(books.entries(row.id.0, "outcome = 'rejected' AND epoch = 2").await, 1);
        assert_eq!(books.entries(row.id.0, "true").await, 2);
    }
}
