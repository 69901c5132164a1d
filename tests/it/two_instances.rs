//! Several processes over one database: the work is shared, and no row is carried by two.
//!
//! `PAYBELL_TEST_SCALE=full` runs the first test with 5,000 payments.

use std::time::Duration;

use chrono::DateTime;
use paybell::payment::Channel;
use paybell::provider::mock::{Behavior, Target};
use serde_json::Value;

use crate::support::app::{Settings, notification, sms};
use crate::support::client::outcomes;
use crate::support::load::{
    all_sent, assert_once_each, mock, phone, post_many, size, sms_and_push,
};
use crate::support::on_both_databases;
use crate::support::process::Process;
use crate::support::wait::until;

on_both_databases! {
    /// Both start at once on an empty database, both take payments, each notification arrives once.
    async fn two_processes_deliver_each_notification_once(database: Database) {
        let mock = mock();
        let settings = Settings::new(&database, &mock);
        let (a, b) = tokio::join!(Process::serve(&settings), Process::serve(&settings));
        let n = size(400, 5000);
        let posted = post_many(&[a.client(), b.client()], n, 64, sms_and_push).await;
        mock.wait_for(2 * n, Duration::from_secs(60)).await.expect("not all arrived");
        all_sent(&database, Duration::from_secs(10)).await;
        assert_once_each(&mock, &posted, Channel::Sms);
        assert_once_each(&mock, &posted, Channel::Fcm);
        for process in [a, b] {
            process.signal("TERM");
            assert_eq!(process.ended(Duration::from_secs(15)).await.code, Some(0));
        }
        assert_eq!(mock.messages().len(), 2 * n, "the stop sent something again");
    }
}

on_both_databases! {
    /// Neither the own scheduler nor an instance that starts meanwhile touches a row whose request
    /// is only slow.
    async fn a_row_in_a_slow_call_is_left_alone(database: Database) {
        let mock = mock();
        let slow = Behavior { latency_ms: 6000, ..Behavior::default() };
        mock.set_behavior(Target::Sms, slow).unwrap();
        let settings = Settings::new(&database, &mock);
        let a = Process::serve(&settings).await;
        let answer = a.client().pay(&sms("order-1", "010-1234-5678")).await;
        let id = notification(&answer, 0);
        assert!(mock.wait_for_requests(Target::Sms, 1, Duration::from_secs(5)).await);
        let before = a.client().row(&id).await;
        let b = Process::serve(&settings).await;
        let mut last = 0.0;
        until("B looks for rows", Duration::from_secs(2), async || {
            let since = b.client().metric("paybell_lane_seconds_since_last_poll").await;
            let has_polled = since < last;
            last = since;
            has_polled.then_some(())
        })
        .await;
        assert!(mock.messages().is_empty(), "the call ended before B was there");
        assert_eq!(b.client().row(&id).await, before, "B touched the row");
        let row = b.client().row_in(&id, "SENT").await;
        assert_eq!(row["attempts"], 1);
        assert!(outcomes(&row).is_empty());
        let epoch = database.number("SELECT epoch FROM outbox").await;
        assert_eq!(epoch, 1, "somebody claimed the row");
        assert_eq!((mock.requests(Target::Sms), mock.requests(Target::SmsLookup)), (1, 0));
    }
}

on_both_databases! {
    /// The wait between two tries belongs to the row: three instances do not divide it.
    async fn three_instances_keep_the_backoff_of_a_row(database: Database) {
        const ROWS: usize = 5;
        const BASE_MS: u64 = 400;
        let mock = mock();
        for n in 0..ROWS {
            let failing = Behavior {
                to: Some(phone(n)),
                times: Some(3),
                status: Some(500),
                ..Behavior::default()
            };
            mock.set_behavior(Target::Sms, failing).unwrap();
        }
        let settings = Settings::new(&database, &mock)
            .with("BACKOFF_BASE_MS", BASE_MS)
            .with("OUTBOX_LEASE_SECS", 5)
            .with("PROVIDER_TIMEOUT_MS", 200)
            .with("OUTBOX_POLL_INTERVAL_MS", 50);
        let (a, b, c) = tokio::join!(
            Process::serve(&settings),
            Process::serve(&settings),
            Process::serve(&settings),
        );
        let clients = [a.client(), b.client(), c.client()];
        let posted = post_many(&clients, ROWS, ROWS, |n| sms(&format!("order-{n}"), &phone(n))).await;
        all_sent(&database, Duration::from_secs(20)).await;
        for post in &posted {
            let row = a.client().row(&notification(&post.answer, 0)).await;
            assert_eq!(row["attempts"], 4);
            assert_eq!(outcomes(&row), ["unknown", "unknown", "unknown", "accepted"]);
            for (n, gap) in gaps(&row).into_iter().enumerate() {
                let least = Duration::from_millis(BASE_MS << n) / 2;
                assert!(gap >= least, "wait {n} was {gap:?}, less than {least:?}");
            }
        }
        assert_eq!(usize::try_from(mock.requests(Target::Sms)).unwrap(), 4 * ROWS);
        assert_once_each(&mock, &posted, Channel::Sms);
    }
}

/// From the end of each try to the start of the next.
fn gaps(row: &Value) -> Vec<Duration> {
    let at = |entry: &Value, field: &str| {
        DateTime::parse_from_rfc3339(entry[field].as_str().unwrap()).unwrap()
    };
    let history = row["history"].as_array().unwrap();
    let pairs = history.iter().zip(&history[1..]);
    pairs
        .map(|(one, next)| {
            (at(next, "started_at") - at(one, "finished_at"))
                .to_std()
                .unwrap()
        })
        .collect()
}
