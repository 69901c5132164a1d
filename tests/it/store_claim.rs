//! The store: which rows a claim takes, and what it does to them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use paybell::payment::Channel;
use paybell::store::{Claim, HeldRow};
use tokio::sync::Barrier;
use uuid::Uuid;

use crate::support::books::{Books, LEASE, claim, open};
use crate::support::on_both_databases;

fn ids(rows: &[HeldRow]) -> Vec<Uuid> {
    rows.iter().map(|row| row.id.0).collect()
}

on_both_databases! {
    /// A claimed row is the claimer's for one lease, under the next epoch.
    async fn a_claim_takes_the_lease_and_raises_the_fence(database: Database) {
        let books = Books::open(database).await;
        let id = books.due_row().await;
        books.set(id, "attempts = 3, deferrals = 4, replays = 5, epoch = 41").await;
        let me = Uuid::new_v4();
        let [row] = books.store.claim(claim(me)).await.unwrap().try_into().unwrap();
        assert_eq!(row.id.0, id);
        assert_eq!((row.attempts, row.deferrals, row.replays), (3, 4, 5));
        assert_eq!((row.epoch, row.lost_leases, row.maybe_sent), (42, 0, false));
        assert_eq!(row.event_type, "PAYMENT_APPROVED");
        assert_eq!(row.provider, "http");
        assert_eq!(row.recipient, "+821012345678");
        assert_eq!(row.payload, r#"{"body":"paid"}"#);
        assert_eq!(row.reference, id.to_string());
        assert!(!row.expired);
        let (soon, late) = (books.now(50), books.now(61));
        books.assert_row(id, &[
            "epoch = 42", "lost_leases = 0", "NOT maybe_sent", "status = 'PENDING'",
            &format!("claimed_by = {}", books.id(me)),
            &format!("processable_after > {soon}"), &format!("processable_after <= {late}"),
        ]).await;
        assert_eq!(books.store.claim(claim(Uuid::new_v4())).await.unwrap(), []);
    }
}

on_both_databases! {
    /// Every combination of lease, retry time, status, channel and version.
    async fn only_due_rows_are_claimed(database: Database) {
        let books = Books::open(database).await;
        let (past, future) = (books.now(-5), books.now(30));
        let cases = [
            (true, format!("processable_after = {past}")),
            (true, format!("processable_after = {past}, next_retry_at = {past}")),
            (false, format!("processable_after = {past}, next_retry_at = {future}")),
            (false, format!("processable_after = {future}")),
            (false, format!("processable_after = {future}, next_retry_at = {past}")),
            (false, format!("processable_after = {future}, next_retry_at = {future}")),
            (false, "status = 'SENT'".to_owned()),
            (false, "status = 'FAILED'".to_owned()),
            (false, "status = 'CANCELED'".to_owned()),
            (false, "status = 'PAUSED'".to_owned()),
            (false, "channel = 'fcm'".to_owned()),
            (false, "channel = 'fax'".to_owned()),
            (false, "payload_version = 2".to_owned()),
            (true, "event_type = 'SOMETHING_NEW'".to_owned()),
            (true, "epoch = 9223372036854775806".to_owned()),
            (true, format!("expires_at = {past}")),
        ];
        let mut expected = HashSet::new();
        let mut made = Vec::new();
        for (is_due, state) in &cases {
            let id = books.due_row().await;
            books.set(id, state).await;
            made.push((id, state));
            if *is_due {
                expected.insert(id);
            }
        }
        let claimed = books.store.claim(claim(Uuid::new_v4())).await.unwrap();
        let got: HashSet<Uuid> = ids(&claimed).into_iter().collect();
        for (id, state) in made {
            assert_eq!(got.contains(&id), expected.contains(&id), "{state}");
        }
        let expired: Vec<bool> = claimed.iter().map(|row| row.expired).collect();
        assert_eq!(expired.iter().filter(|expired| **expired).count(), 1);
    }
}

on_both_databases! {
    /// The longest due come first, and no more than asked for.
    async fn a_claim_is_ordered_and_limited(database: Database) {
        let books = Books::open(database).await;
        let mut by_age = Vec::new();
        for age in [30, 10, 50, 20, 40] {
            let id = books.due_row().await;
            let due = books.now(-age);
            books.set(id, &format!("processable_after = {due}")).await;
            by_age.push((age, id));
        }
        by_age.sort_unstable_by_key(|(age, _)| -age);
        let oldest: HashSet<Uuid> = by_age.iter().take(3).map(|(_, id)| *id).collect();
        let limited = Claim { limit: 3, ..claim(Uuid::new_v4()) };
        let first = books.store.claim(limited).await.unwrap();
        assert_eq!(ids(&first).into_iter().collect::<HashSet<_>>(), oldest);
        // Rows that were due before the mark were claimed already.
        let (_, second_last) = by_age[3];
        let at = first.iter().map(|row| row.due_since).max().unwrap();
        let due = books.now(-1000);
        books.set(second_last, &format!("processable_after = {due}")).await;
        let since = Claim { since: at, ..claim(Uuid::new_v4()) };
        let after = books.store.claim(since).await.unwrap();
        assert_eq!(ids(&after), [by_age[4].1]);
        let rest = books.store.claim(claim(Uuid::new_v4())).await.unwrap();
        assert_eq!(ids(&rest), [second_last]);
        let none = Claim { limit: 0, ..claim(Uuid::new_v4()) };
        books.due_row().await;
        assert_eq!(books.store.claim(none).await.unwrap(), []);
    }
}

on_both_databases! {
    /// A name on an ended lease: its holder may have sent the row.
    async fn an_abandoned_row_is_counted_and_marked(database: Database) {
        let books = Books::open(database).await;
        let (gone, me) = (Uuid::new_v4(), Uuid::new_v4());
        let held = books.held_row(gone).await;
        let past = books.now(-1);
        books.set(held.id.0, &format!("processable_after = {past}")).await;
        let [row] = books.store.claim(claim(me)).await.unwrap().try_into().unwrap();
        assert_eq!((row.epoch, row.lost_leases, row.maybe_sent), (2, 1, true));
        books.assert_row(held.id.0, &[
            "epoch = 2", "lost_leases = 1", "maybe_sent",
            &format!("claimed_by = {}", books.id(me)),
        ]).await;
        // The mark stays when the name is gone.
        books.set(held.id.0, &format!("claimed_by = NULL, processable_after = {past}")).await;
        let [row] = books.store.claim(claim(me)).await.unwrap().try_into().unwrap();
        assert_eq!((row.epoch, row.lost_leases, row.maybe_sent), (3, 1, true));
    }
}

on_both_databases! {
    /// Rows whose holders kept dying are claimed apart from the others.
    async fn suspects_are_claimed_apart(database: Database) {
        let books = Books::open(database).await;
        let mut rows = Vec::new();
        for lost in [0, 1, 2, 5] {
            let id = books.due_row().await;
            books.set(id, &format!("lost_leases = {lost}")).await;
            rows.push(id);
        }
        let suspects = Claim { suspects: true, ..claim(Uuid::new_v4()) };
        let one = Claim { limit: 1, ..suspects.clone() };
        let mut found = ids(&books.store.claim(one).await.unwrap());
        assert_eq!(found.len(), 1);
        found.extend(ids(&books.store.claim(suspects).await.unwrap()));
        found.sort_unstable();
        assert_eq!(found, rows[2..]);
        let mut others = ids(&books.store.claim(claim(Uuid::new_v4())).await.unwrap());
        others.sort_unstable();
        assert_eq!(others, rows[..2]);
    }
}

on_both_databases! {
    /// After a stall a process's own lease may have ended while its own request is still out.
    async fn a_process_never_claims_what_it_holds(database: Database) {
        let books = Books::open(database).await;
        let (mine, other) = (books.due_row().await, books.due_row().await);
        let held = Claim { held: vec![mine, Uuid::new_v4()], ..claim(Uuid::new_v4()) };
        assert_eq!(ids(&books.store.claim(held).await.unwrap()), [other]);
    }
}

on_both_databases! {
    /// Claimers of several processes at the same moment never share a row, and miss none.
    async fn claimers_never_share_a_row(database: Database) {
        const ROWS: usize = 300;
        let books = Books::open(database).await;
        let mut expected = HashSet::new();
        let batch: Vec<_> = (0..ROWS)
            .map(|_| crate::support::books::due(crate::support::books::payment()))
            .collect();
        for new in &batch {
            expected.insert(new.payment.notifications[0].id);
        }
        let lease = crate::support::books::lease(Uuid::nil());
        books.store.record(Arc::new(batch), lease).await.unwrap();
        let start = Arc::new(Barrier::new(4));
        let mut claimers = Vec::new();
        for _ in 0..4 {
            let store = open(&books.database).await;
            let start = Arc::clone(&start);
            claimers.push(tokio::spawn(async move {
                let me = Uuid::new_v4();
                let mut mine = Vec::new();
                start.wait().await;
                for _ in 0..20 {
                    let some = Claim { limit: 10, ..claim(me) };
                    mine.extend(ids(&store.claim(some).await.unwrap()));
                }
                mine
            }));
        }
        let mut all = Vec::new();
        for claimer in claimers {
            all.extend(claimer.await.unwrap());
        }
        assert_eq!(all.len(), ROWS, "each row once");
        assert_eq!(all.into_iter().collect::<HashSet<_>>(), expected);
    }
}

/// A row locked by somebody else (an operator's transaction) is skipped, not waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_is_skipped_on_postgres() {
    use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
    let books = Books::open(crate::support::database::Database::postgres().await).await;
    let (locked, free) = (books.due_row().await, books.due_row().await);
    let mut operator = AsyncPgConnection::establish(books.database.url())
        .await
        .unwrap();
    let lock = format!(
        "BEGIN; SELECT id FROM outbox WHERE id = {} FOR UPDATE",
        books.id(locked)
    );
    operator.batch_execute(&lock).await.unwrap();
    let claimed = books.store.claim(claim(Uuid::new_v4()));
    let claimed = tokio::time::timeout(Duration::from_secs(5), claimed).await;
    assert_eq!(ids(&claimed.expect("it waits").unwrap()), [free]);
    operator.batch_execute("COMMIT").await.unwrap();
    let claimed = books.store.claim(claim(Uuid::new_v4())).await.unwrap();
    assert_eq!(ids(&claimed), [locked]);
}

on_both_databases! {
    /// The other lane's rows are left to it.
    async fn lanes_claim_apart(database: Database) {
        let books = Books::open(database).await;
        let (sms, fcm) = (books.due_row().await, books.due_row().await);
        books.set(fcm, "channel = 'fcm'").await;
        let pushes = Claim { channel: Channel::Fcm, lease: LEASE, ..claim(Uuid::new_v4()) };
        assert_eq!(ids(&books.store.claim(pushes).await.unwrap()), [fcm]);
        assert_eq!(ids(&books.store.claim(claim(Uuid::new_v4())).await.unwrap()), [sms]);
    }
}
