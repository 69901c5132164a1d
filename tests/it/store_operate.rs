//! The store: replay, cancel and release.

use std::time::Duration;

use paybell::payment::{Reason, Status};
use paybell::store::{Change, OutboxFilter, Settlement, StoreError};
use uuid::Uuid;

use crate::support::books::{Books, GIVE_UP, claim, open, settlement};
use crate::support::on_both_databases;

const REPLAY: Change = Change::Replay { force: false };
const FORCED_REPLAY: Change = Change::Replay { force: true };
const CANCEL: Change = Change::Cancel { force: false };
const FORCED_CANCEL: Change = Change::Cancel { force: true };

async fn change(books: &Books, id: Uuid, change: Change) -> Result<bool, StoreError> {
    books.store.change(id, change, GIVE_UP).await
}

/// Whether the change was refused, and whether with a moment to come back.
async fn refused(books: &Books, id: Uuid, wish: Change) -> Option<Duration> {
    match change(books, id, wish).await {
        Err(StoreError::Conflict(conflict)) => conflict.retry_after,
        other => panic!("{wish:?}: {other:?}"),
    }
}

/// A row that ended in a state.
async fn ended(books: &Books, status: Status, maybe_sent: bool) -> Uuid {
    let me = Uuid::new_v4();
    let row = books.held_row(me).await;
    let outcome = Settlement {
        reason: (status == Status::Failed).then_some(Reason::OutcomeUnknown),
        attempts: 20,
        deferrals: 5,
        maybe_sent,
        last_error: Some("busy".to_owned()),
        ..settlement(&row, status)
    };
    assert_eq!(books.settle(me, &[outcome]).await, [row.id.0]);
    row.id.0
}

on_both_databases! {
    /// What each state allows, with and without force, with and without a live lease.
    async fn each_state_allows_what_it_should(database: Database) {
        let books = Books::open(database).await;
        let sent = ended(&books, Status::Sent, false).await;
        let failed = ended(&books, Status::Failed, false).await;
        let unknown = ended(&books, Status::Failed, true).await;
        let canceled = ended(&books, Status::Canceled, false).await;
        let leased = books.held_row(Uuid::new_v4()).await.id.0;
        let abandoned = books.held_row(Uuid::new_v4()).await.id.0;
        let past = books.now(-1);
        books.set(abandoned, &format!("processable_after = {past}")).await;
        let waiting = books.due_row().await;
        // state, replay, forced replay, cancel, forced cancel
        let cases = [
            ("waiting", waiting, false, false, true, true),
            ("leased", leased, false, false, false, true),
            ("abandoned", abandoned, false, false, true, true),
            ("sent", sent, false, true, false, false),
            ("failed", failed, true, true, true, true),
            ("unknown", unknown, true, true, true, true),
            ("canceled", canceled, true, true, false, false),
        ];
        for (state, id, replay, forced_replay, cancel, forced_cancel) in cases {
            let wishes = [
                (REPLAY, replay), (FORCED_REPLAY, forced_replay),
                (CANCEL, cancel), (FORCED_CANCEL, forced_cancel),
            ];
            for (wish, allowed) in wishes {
                let before = snapshot(&books, id).await;
                let answer = change(&books, id, wish).await;
                assert_eq!(answer.is_ok(), allowed, "{state}, {wish:?}: {answer:?}");
                if allowed {
                    restore(&books, id, &before).await;
                } else {
                    assert_eq!(snapshot(&books, id).await, before, "{state}, {wish:?}");
                }
            }
        }
        assert!(!change(&books, Uuid::new_v4(), REPLAY).await.unwrap(), "no such row");
        let left = refused(&books, leased, CANCEL).await.expect("a live lease ends");
        assert!((50.0..=60.0).contains(&left.as_secs_f64()), "{left:?}");
        assert_eq!(refused(&books, waiting, REPLAY).await, None);
    }
}

/// Status and fence of a row.
async fn snapshot(books: &Books, id: Uuid) -> (String, i64) {
    let row = books.store.standing(&[id]).await.unwrap().pop().unwrap();
    (row.status, row.epoch)
}

async fn restore(books: &Books, id: Uuid, (status, epoch): &(String, i64)) {
    let state = format!("status = '{status}', epoch = {epoch}");
    books.set(id, &state).await;
    let forget = format!("DELETE FROM attempts WHERE outbox_id = {}", books.id(id));
    books.database.execute(&forget).await;
}

on_both_databases! {
    /// A replay begins anew: due at once, the whole budget, the history kept.
    async fn a_replay_begins_with_a_fresh_budget(database: Database) {
        let books = Books::open(database).await;
        let id = ended(&books, Status::Failed, false).await;
        let past = books.now(-100);
        books.set(id, &format!("expires_at = {past}, lost_leases = 4")).await;
        assert!(change(&books, id, REPLAY).await.unwrap());
        let (later, now) = (books.now(3590), books.now(1));
        books.assert_row(id, &[
            "status = 'PENDING'", "reason IS NULL", "attempts = 0", "deferrals = 0",
            "lost_leases = 0", "replays = 1", "epoch = 2", "claimed_by IS NULL",
            "next_retry_at IS NULL", "sent_at IS NULL", "last_error = 'busy'",
            &format!("expires_at > {later}"), &format!("processable_after < {now}"),
            &format!("reference = '{id}.1'"),
        ]).await;
        assert_eq!(books.entries(id, "outcome = 'replayed' AND epoch = 2").await, 1);
        let me = Uuid::new_v4();
        let [row] = books.store.claim(claim(me)).await.unwrap().try_into().unwrap();
        assert_eq!((row.epoch, row.replays, row.expired), (3, 1, false));
        books.settle(me, &[settlement(&row, Status::Failed)]).await;
        assert!(change(&books, id, REPLAY).await.unwrap());
        books.assert_row(id, &["replays = 2", &format!("reference = '{id}.2'")]).await;
    }
}

on_both_databases! {
    /// A row that may have been sent keeps its name at the provider, so that it can be asked about;
    /// one of known outcome gets a new one, or the provider would take it for the old.
    async fn only_a_known_outcome_gets_a_new_reference(database: Database) {
        let books = Books::open(database).await;
        let same = |id: Uuid| format!("reference = '{id}'");
        let unknown = ended(&books, Status::Failed, true).await;
        assert!(change(&books, unknown, REPLAY).await.unwrap());
        books.assert_row(unknown, &[&same(unknown), "maybe_sent"]).await;
        let out = books.held_row(Uuid::new_v4()).await.id.0;
        assert!(change(&books, out, FORCED_CANCEL).await.unwrap());
        assert!(change(&books, out, REPLAY).await.unwrap());
        books.assert_row(out, &[&same(out)]).await;
        let sent = ended(&books, Status::Sent, false).await;
        assert!(change(&books, sent, FORCED_REPLAY).await.unwrap());
        let anew = format!("reference = '{sent}.1'");
        books.assert_row(sent, &[&anew, "sent_at IS NULL", "status = 'PENDING'"]).await;
    }
}

on_both_databases! {
    /// The request of a canceled row may still be out: the replay waits for its lease, then asks.
    async fn a_replay_waits_for_the_lease_that_was_live(database: Database) {
        let books = Books::open(database).await;
        let id = books.held_row(Uuid::new_v4()).await.id.0;
        assert!(change(&books, id, FORCED_CANCEL).await.unwrap());
        books.assert_row(id, &[
            "status = 'CANCELED'", "claimed_by IS NOT NULL", "epoch = 2", "NOT maybe_sent",
            "last_error = 'canceled by an operator'",
        ]).await;
        assert_eq!(books.entries(id, "outcome = 'canceled' AND epoch = 2").await, 1);
        assert!(change(&books, id, REPLAY).await.unwrap());
        let soon = books.now(50);
        books.assert_row(id, &[&format!("processable_after > {soon}")]).await;
        let past = books.now(-1);
        books.set(id, &format!("processable_after = {past}")).await;
        let [row] = books.store.claim(claim(Uuid::new_v4())).await.unwrap().try_into().unwrap();
        assert!(row.maybe_sent, "its holder may have sent it");
    }
}

on_both_databases! {
    /// Of ten replays at once one is done, and the row is due once.
    async fn of_ten_replays_at_once_one_is_done(database: Database) {
        let books = Books::open(database).await;
        let id = ended(&books, Status::Failed, false).await;
        let mut wishes = Vec::new();
        for _ in 0..10 {
            let store = open(&books.database).await;
            wishes.push(tokio::spawn(async move { store.change(id, REPLAY, GIVE_UP).await }));
        }
        let mut done = 0;
        for wish in wishes {
            match wish.await.unwrap() {
                Ok(true) => done += 1,
                Err(StoreError::Conflict(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(done, 1);
        books.assert_row(id, &["replays = 1", "epoch = 2"]).await;
        assert_eq!(books.entries(id, "outcome = 'replayed'").await, 1);
    }
}

on_both_databases! {
    /// A newer version's states are its own.
    async fn an_unknown_status_is_left_alone(database: Database) {
        let books = Books::open(database).await;
        let id = books.due_row().await;
        books.set(id, "status = 'PAUSED'").await;
        for wish in [REPLAY, FORCED_REPLAY, CANCEL, FORCED_CANCEL] {
            assert_eq!(refused(&books, id, wish).await, None, "{wish:?}");
        }
        let all = OutboxFilter::default();
        let step = books.store.replay_step(&all, Uuid::nil(), 10, GIVE_UP).await.unwrap();
        assert_eq!(step, Some((id, 0)));
        books.assert_row(id, &["status = 'PAUSED'", "epoch = 0"]).await;
    }
}

on_both_databases! {
    /// A bulk replay walks over the rows that its filter means, step by step, once each.
    async fn a_bulk_replay_goes_step_by_step(database: Database) {
        let books = Books::open(database).await;
        let mut failed = Vec::new();
        for _ in 0..5 {
            failed.push(ended(&books, Status::Failed, false).await);
        }
        failed.sort_unstable();
        books.set(failed[1], "recipient = ''").await;
        let sent = ended(&books, Status::Sent, false).await;
        let waiting = books.due_row().await;
        let dead = OutboxFilter { statuses: vec![Status::Failed], ..OutboxFilter::default() };
        assert_eq!(books.store.matching(&dead).await.unwrap(), 5);
        let mut after = Uuid::nil();
        let mut steps = Vec::new();
        while let Some((last, done)) =
            books.store.replay_step(&dead, after, 2, GIVE_UP).await.unwrap()
        {
            steps.push(done);
            after = last;
        }
        // The one that retention blanked has nobody to go to any more.
        assert_eq!(steps, [1, 2, 1]);
        for (n, id) in failed.iter().enumerate() {
            let status = if n == 1 { "status = 'FAILED'" } else { "status = 'PENDING'" };
            books.assert_row(*id, &[status]).await;
        }
        books.assert_row(sent, &["status = 'SENT'", "replays = 0"]).await;
        books.assert_row(waiting, &["status = 'PENDING'", "replays = 0"]).await;
        let one = OutboxFilter { payment_id: Some(Uuid::new_v4()), ..dead };
        assert_eq!(books.store.matching(&one).await.unwrap(), 0);
    }
}

on_both_databases! {
    /// A row whose request has not begun is let go: nobody's, due now, nothing counted.
    async fn a_released_row_is_anybodys(database: Database) {
        let books = Books::open(database).await;
        let (me, other) = (Uuid::new_v4(), Uuid::new_v4());
        let mine = books.held_row(me).await;
        let theirs = books.held_row(other).await;
        let canceled = books.held_row(me).await;
        assert!(change(&books, canceled.id.0, FORCED_CANCEL).await.unwrap());
        let rows: Vec<(Uuid, i64)> = [&mine, &theirs, &canceled]
            .map(|row| (row.id.0, row.epoch))
            .to_vec();
        for _ in 0..2 {
            books.store.release(me, &rows).await.unwrap();
        }
        let now = books.now(1);
        books.assert_row(mine.id.0, &[
            "status = 'PENDING'", "claimed_by IS NULL", "epoch = 1", "attempts = 0",
            "deferrals = 0", "lost_leases = 0", "NOT maybe_sent",
            &format!("processable_after < {now}"),
        ]).await;
        let holder = format!("claimed_by = {}", books.id(other));
        books.assert_row(theirs.id.0, &[&holder]).await;
        books.assert_row(canceled.id.0, &["status = 'CANCELED'"]).await;
        let [row] = books.store.claim(claim(other)).await.unwrap().try_into().unwrap();
        assert_eq!((row.id, row.epoch, row.lost_leases, row.maybe_sent), (mine.id, 2, 0, false));
        // Its old holder's outcome comes too late.
        assert!(books.settle(me, &[settlement(&mine, Status::Failed)]).await.is_empty());
    }
}

on_both_databases! {
    /// A release does not clear the mark.
    async fn a_release_keeps_the_mark(database: Database) {
        let books = Books::open(database).await;
        let me = Uuid::new_v4();
        let row = books.held_row(me).await;
        books.set(row.id.0, "maybe_sent = true, lost_leases = 1").await;
        books.store.release(me, &[(row.id.0, row.epoch)]).await.unwrap();
        books.assert_row(row.id.0, &["maybe_sent", "lost_leases = 1"]).await;
    }
}
