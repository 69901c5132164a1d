//! The store: what a batch of payments leaves in the tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use paybell::payment::{Channel, Notification, Payload, Payment, Recipient};
use paybell::store::{NewPayment, Verdict};
use uuid::Uuid;

use crate::support::books::{Books, due, keyed, lease, leased, notification, payment};
use crate::support::on_both_databases;

async fn record(books: &Books, batch: Vec<NewPayment>) -> Vec<Verdict> {
    let holder = lease(Uuid::new_v4());
    books.store.record(Arc::new(batch), holder).await.unwrap()
}

async fn count(books: &Books, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    books.database.number(&sql).await
}

fn answer_of(new: &NewPayment) -> Verdict {
    Verdict::Replayed(new.response.clone())
}

fn moment() -> DateTime<Utc> {
    DateTime::from_timestamp_micros(1_764_504_000_123_456).unwrap()
}

/// A payment that uses every column, with text that needs its bytes kept.
fn full_payment() -> Payment {
    let text = notification();
    let push = Notification {
        id: Uuid::now_v7(),
        channel: Channel::Fcm,
        recipient: Recipient::stored("a-token".to_owned()),
        payload: Payload {
            title: Some("Paid ✓".to_owned()),
            body: "토요일 \"futsal\" \u{1F600} ' ? $1".to_owned(),
            data: BTreeMap::from([("screen".to_owned(), "match/07".to_owned())]),
        },
    };
    Payment {
        order_id: "order ? $1 '\" \\ 주문".to_owned(),
        amount: 9_007_199_254_740_991,
        description: Some("설명".to_owned()),
        locale: Some("ko-KR".to_owned()),
        created_at: moment(),
        notifications: vec![text, push],
        ..payment()
    }
}

on_both_databases! {
    /// What the store reads back is what was recorded.
    async fn every_column_of_a_payment_comes_back(database: Database) {
        let books = Books::open(database).await;
        let new = keyed(due(full_payment()), "key", 7);
        let given = Arc::clone(&new.payment);
        books.record(new, Uuid::nil()).await;
        let (row, notifications) =
            books.store.payment("shop".to_owned(), given.id).await.unwrap().unwrap();
        assert_eq!(row.id.0, given.id);
        assert_eq!(row.order_id, given.order_id);
        assert_eq!(row.amount, given.amount);
        assert_eq!(row.currency, "KRW");
        assert_eq!(row.status, "APPROVED");
        assert_eq!(row.description, given.description);
        assert_eq!(row.notification_count, 2);
        assert_eq!(row.created_at.to_datetime(), moment());
        assert_eq!(notifications.len(), 2);
        for (row, given) in notifications.iter().zip(&given.notifications) {
            assert_eq!(row.id.0, given.id);
            assert_eq!(row.channel, given.channel.as_str());
            assert_eq!(row.recipient, given.recipient.as_str());
        }
        let from = format!("payments WHERE id = {}", books.id(given.id));
        let client = "client = 'shop' AND locale = 'ko-KR' AND idempotency_key = 'key'";
        books.assert_one(&from, &[client, "length(fingerprint) = 32"]).await;
        let others = books.store.payment("other".to_owned(), given.id).await.unwrap();
        assert!(others.is_none(), "another client's payment is not there");
    }
}

on_both_databases! {
    /// A row that finds no slot is born due and nobody's.
    async fn a_row_born_due_is_nobodys(database: Database) {
        let books = Books::open(database).await;
        let new = due(full_payment());
        let push = new.payment.notifications[1].clone();
        books.record(new, Uuid::new_v4()).await;
        let (now, later) = (books.now(0), books.now(3590));
        books.assert_row(push.id, &[
            "event_type = 'PAYMENT_APPROVED'", "channel = 'fcm'", "provider = 'http'",
            "recipient = 'a-token'", "payload_version = 1", "status = 'PENDING'",
            "reason IS NULL", "attempts = 0", "deferrals = 0", "lost_leases = 0", "replays = 0",
            "epoch = 0", "claimed_by IS NULL", "NOT maybe_sent", "next_retry_at IS NULL",
            "last_error IS NULL", "provider_message_id IS NULL", "sent_at IS NULL",
            "trace_context IS NULL",
            &format!("processable_after <= {now}"), &format!("expires_at > {later}"),
        ]).await;
        let full = books.store.outbox_row(push.id).await.unwrap().unwrap();
        assert_eq!(full.payload, push.payload.to_json());
        assert_eq!(full.row.0.created_at.to_datetime(), moment());
        assert_eq!(full.row.1, full_payment().order_id);
        let sql = format!("SELECT reference FROM outbox WHERE id = {}", books.id(push.id));
        assert_eq!(books.database.text(&sql).await, push.id.to_string());
    }
}

on_both_databases! {
    /// A row with a slot is born leased, so that no scheduler takes it meanwhile.
    async fn a_row_born_leased_is_its_recorders(database: Database) {
        let books = Books::open(database).await;
        let holder = Uuid::new_v4();
        let new = leased(payment());
        let id = new.payment.notifications[0].id;
        books.record(new, holder).await;
        let (soon, late) = (books.now(50), books.now(61));
        books.assert_row(id, &[
            "epoch = 1", &format!("claimed_by = {}", books.id(holder)), "NOT maybe_sent",
            &format!("processable_after > {soon}"), &format!("processable_after <= {late}"),
        ]).await;
    }
}

on_both_databases! {
    /// New, repeated and mismatched payments of one batch, and one key twice in it.
    async fn a_batch_has_one_verdict_a_payment(database: Database) {
        let books = Books::open(database).await;
        let first = keyed(due(payment()), "known", 1);
        assert_eq!(record(&books, vec![first.clone()]).await, [Verdict::Recorded]);
        let twin = keyed(due(payment()), "twin", 3);
        let batch = vec![
            keyed(due(payment()), "known", 1),
            due(payment()),
            keyed(due(payment()), "known", 2),
            twin.clone(),
            keyed(due(payment()), "twin", 3),
            keyed(due(payment()), "twin", 4),
            keyed(due(Payment { client: "other".to_owned(), ..payment() }), "known", 2),
        ];
        let verdicts = record(&books, batch).await;
        assert_eq!(verdicts, [
            answer_of(&first), Verdict::Recorded, Verdict::KeyReused, Verdict::Recorded,
            answer_of(&twin), Verdict::KeyReused, Verdict::Recorded,
        ]);
        assert_eq!(count(&books, "payments").await, 4);
        assert_eq!(count(&books, "outbox").await, 4);
    }
}

on_both_databases! {
    /// The answer to a commit was lost: the batch is repeated with the same ids.
    async fn a_repeated_batch_records_nothing_twice(database: Database) {
        let books = Books::open(database).await;
        let batch = vec![
            keyed(leased(payment()), "a", 1),
            due(payment()),
            keyed(due(payment()), "a", 1),
        ];
        let first = record(&books, batch.clone()).await;
        assert_eq!(first, [Verdict::Recorded, Verdict::Recorded, answer_of(&batch[0])]);
        assert_eq!(record(&books, batch.clone()).await, first);
        // Some of its callers left meanwhile, and others came.
        let partly = vec![batch[1].clone(), due(payment())];
        assert_eq!(record(&books, partly).await, [Verdict::Recorded, Verdict::Recorded]);
        assert_eq!(count(&books, "payments").await, 3);
        assert_eq!(count(&books, "outbox").await, 3);
    }
}

on_both_databases! {
    /// A member that the database refuses takes the whole batch with it, and says that it is data:
    /// the recorder then commits the others one by one.
    async fn a_bad_member_leaves_nothing_of_its_batch(database: Database) {
        let books = Books::open(database).await;
        let good = due(payment());
        books.record(good.clone(), Uuid::nil()).await;
        let bad = due(Payment {
            notifications: good.payment.notifications.clone(),
            ..payment()
        });
        let batch = Arc::new(vec![due(payment()), bad]);
        let fault = books.store.record(batch, lease(Uuid::nil())).await.unwrap_err();
        assert!(fault.is_data(), "{fault}");
        assert_eq!(count(&books, "payments").await, 1);
        assert_eq!(count(&books, "outbox").await, 1);
    }
}

on_both_databases! {
    /// Two processes get one key at the same moment: one payment.
    async fn one_key_at_two_recorders_is_one_payment(database: Database) {
        let books = Books::open(database).await;
        let other = crate::support::books::open(&books.database).await;
        for n in 0..20_u8 {
            let key = format!("key-{n}");
            let one = keyed(due(payment()), &key, 1);
            let two = keyed(due(payment()), &key, 1);
            let (first, second) = tokio::join!(
                books.store.record(Arc::new(vec![one.clone()]), lease(Uuid::nil())),
                other.record(Arc::new(vec![two.clone()]), lease(Uuid::nil())),
            );
            let verdicts = [first.unwrap().remove(0), second.unwrap().remove(0)];
            assert!(
                verdicts == [Verdict::Recorded, answer_of(&one)]
                    || verdicts == [answer_of(&two), Verdict::Recorded],
                "{verdicts:?}"
            );
        }
        assert_eq!(count(&books, "payments").await, 20);
        assert_eq!(count(&books, "outbox").await, 20);
    }
}

on_both_databases! {
    /// 256 payments of 20 notifications are one commit.
    async fn a_large_batch_is_recorded_whole(database: Database) {
        let books = Books::open(database).await;
        let many = || Payment {
            notifications: (0..20).map(|_| notification()).collect(),
            ..payment()
        };
        let batch: Vec<NewPayment> = (0..256).map(|_| due(many())).collect();
        let verdicts = record(&books, batch).await;
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Recorded));
        assert_eq!(count(&books, "outbox").await, 256 * 20);
        let stats = books.store.stats().await.unwrap();
        assert_eq!((stats.recorded, stats.due, stats.purged), (256 * 20, 256 * 20, 0));
    }
}
