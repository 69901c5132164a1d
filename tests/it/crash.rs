//! `kill -9`: whatever was under way heals by itself once the leases end.
//!
//! `PAYBELL_TEST_SCALE=full` runs the first test with 2,000 payments.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use paybell::payment::Channel;
use paybell::provider::mock::{Behavior, Fault, RunningMock, Target};
use serde_json::Value;
use tokio::sync::watch;

use crate::support::app::{Settings, notification, sms};
use crate::support::client::{Client, outcomes};
use crate::support::database::Database;
use crate::support::load::{
    Posted, all_sent, assert_once_each, ids, mock, one_sms, phone, post_many, received, size,
    sms_and_push,
};
use crate::support::on_both_databases;
use crate::support::process::Process;
use crate::support::wait::until;

/// Of `Settings::with_short_leases`.
const LEASE: Duration = Duration::from_secs(5);

on_both_databases! {
    /// Killed three times while payments come in: every payment that was answered 201 has its
    /// notifications sent, no SMS twice, and a push twice only where its outcome was unknown.
    async fn kills_during_posts_lose_and_double_nothing(database: Database) {
        let mock = mock();
        // Long enough that requests are out at each kill.
        for target in [Target::Sms, Target::Fcm] {
            let slow = Behavior { latency_ms: 30, ..Behavior::default() };
            mock.set_behavior(target, slow).unwrap();
        }
        let n = size(400, 2000);
        let settings = Settings::new(&database, &mock).with_short_leases();
        let process = Process::serve(&settings).await;
        let (service, current) = watch::channel(process.client());
        let (count, mut answered) = watch::channel(0);
        let killing = async {
            let mut process = process;
            for kill in 1..=3 {
                answered.wait_for(|answered| *answered >= kill * n / 4).await.unwrap();
                process.kill().await;
                process = Process::serve(&settings).await;
                service.send_replace(process.client());
            }
            (process, Instant::now())
        };
        let posting = post_with_keys(n, current, count);
        let (posted, (process, last_start)) = tokio::join!(posting, killing);
        let heals_by = LEASE + Duration::from_secs(10);
        all_sent(&database, heals_by.saturating_sub(last_start.elapsed())).await;

        let recorded = database.number("SELECT count(*) FROM payments").await;
        assert_eq!(usize::try_from(recorded).unwrap(), n, "a key made two payments");
        assert_once_each(&mock, &posted, Channel::Sms);
        pushes_repeat_only_with_a_history(&mock, &posted, &process.client()).await;
        let asked = mock.requests(Target::SmsLookup);
        assert!(asked > 0, "no kill hit a request: the test shows nothing");
    }
}

/// Posts as a client would that knows its trade: each payment has a key, and is repeated under it
/// until it is answered 201.
async fn post_with_keys(
    n: usize,
    current: watch::Receiver<Client>,
    count: watch::Sender<usize>,
) -> Vec<Posted> {
    let posts = stream::iter(0..n).map(|i| {
        let (current, count) = (current.clone(), count.clone());
        async move {
            let (body, key) = (sms_and_push(i), format!("key-{i}"));
            let began = chrono::Utc::now();
            let start = Instant::now();
            let answer = until(
                "the payment is answered",
                Duration::from_secs(60),
                async || {
                    let client = current.borrow().clone();
                    match client.post(&body, Some(&key)).await {
                        Ok((201, answer)) => Some(answer),
                        Ok((503, _)) | Err(_) => None,
                        Ok((status, answer)) => panic!("{status} {answer}"),
                    }
                },
            )
            .await;
            count.send_modify(|count| *count += 1);
            Posted {
                answer,
                began,
                took: start.elapsed(),
            }
        }
    });
    posts.buffer_unordered(16).collect().await
}

async fn pushes_repeat_only_with_a_history(mock: &RunningMock, posted: &[Posted], client: &Client) {
    let mut times: HashMap<String, usize> = HashMap::new();
    for id in received(mock, Channel::Fcm) {
        *times.entry(id).or_default() += 1;
    }
    let wanted: HashSet<String> = ids(posted, Channel::Fcm).into_iter().collect();
    let got: HashSet<String> = times.keys().cloned().collect();
    assert_eq!(wanted, got, "pushes lost or made up");
    for (id, _) in times.iter().filter(|(_, times)| **times > 1) {
        let row = client.row(id).await;
        assert!(
            !outcomes(&row).is_empty(),
            "sent twice although all was known: {row}"
        );
    }
}

/// Kills an instance while its one SMS is out under the given fault, and starts another at once.
async fn killed_during_a_call(
    database: &Database,
    fault: Fault,
) -> (Value, std::sync::Arc<RunningMock>) {
    let mock = mock();
    let faulty = Behavior {
        times: Some(1),
        fault: Some(fault),
        ..Behavior::default()
    };
    mock.set_behavior(Target::Sms, faulty).unwrap();
    // The provider's time is not what ends the wait: only the lease does.
    let settings = Settings::new(database, &mock).with_short_leases();
    let process = Process::serve(&settings).await;
    let answer = process.client().pay(&sms("order-1", "010-1234-5678")).await;
    assert!(
        mock.wait_for_requests(Target::Sms, 1, Duration::from_secs(1))
            .await
    );
    process.kill().await;
    let killed = Instant::now();
    let process = Process::serve(&settings).await;
    let row = process
        .client()
        .row_in(&notification(&answer, 0), "SENT")
        .await;
    let took = killed.elapsed();
    let poll_and_a_look_up = Duration::from_secs(2);
    assert!(took < LEASE + poll_and_a_look_up, "it took {took:?}");
    (row, mock)
}

on_both_databases! {
    /// The provider never took it: sent again after one lease.
    async fn a_kill_during_a_call_heals_within_a_lease(database: Database) {
        let (row, mock) = killed_during_a_call(&database, Fault::Hang).await;
        assert_eq!(mock.messages().len(), 1);
        assert_eq!(row["attempts"], 1, "what nobody answered to is not counted by a dead process");
    }
}

on_both_databases! {
    /// The provider had taken it: it is asked, and nothing is sent again.
    async fn a_kill_after_acceptance_is_found_on_look_up(database: Database) {
        let (row, mock) = killed_during_a_call(&database, Fault::AcceptThenHang).await;
        assert_eq!(mock.messages().len(), 1);
        assert_eq!(outcomes(&row), ["found_on_lookup"]);
    }
}

on_both_databases! {
    /// A row that kills whoever sends it ends as FAILED, and takes no neighbour along.
    async fn a_row_that_kills_its_process_is_given_up(database: Database) {
        const NEIGHBOURS: usize = 200;
        const KILLS: u64 = 5;
        let mock = mock();
        let killer = Behavior {
            to: Some(phone(0)),
            fault: Some(Fault::Hang),
            ..Behavior::default()
        };
        mock.set_behavior(Target::Sms, killer).unwrap();
        let settings = Settings::new(&database, &mock);
        let mut process = Process::serve(&settings).await;
        let answer = process.client().pay(&one_sms(0)).await;
        let mut neighbours = 0;
        for kills in 0..KILLS {
            if kills == 2 {
                let others = |n| one_sms(n + 1);
                neighbours = post_many(&[process.client()], NEIGHBOURS, 16, others).await.len();
                // In the mock's books, not just on their way.
                assert!(mock.wait_for(NEIGHBOURS, Duration::from_secs(10)).await.is_some());
            }
            let calls = kills + 1 + u64::try_from(neighbours).unwrap();
            assert!(mock.wait_for_requests(Target::Sms, calls, Duration::from_secs(5)).await);
            process.kill().await;
            // As if the lease had ended.
            database.make_all_due().await;
            process = Process::serve(&settings).await;
        }
        let row = process.client().row_in(&notification(&answer, 0), "FAILED").await;
        assert_eq!(row["reason"], "crashed");
        let others = "SELECT count(*) FROM outbox WHERE status = 'SENT'";
        until("the neighbours are SENT", Duration::from_secs(5), async || {
            (database.number(others).await == i64::try_from(NEIGHBOURS).unwrap()).then_some(())
        })
        .await;
        assert_eq!(mock.messages().len(), NEIGHBOURS);
        let calls = KILLS + u64::try_from(NEIGHBOURS).unwrap();
        assert_eq!(mock.requests(Target::Sms), calls, "the killer was sent again");
    }
}

on_both_databases! {
    /// Paused for longer than its lease while another instance runs: the other one takes over, and
    /// the first one, back, sends nothing and overwrites nothing.
    async fn a_pause_beyond_the_lease_doubles_nothing(database: Database) {
        const QUEUED: usize = 5;
        let mock = mock();
        let stuck = Behavior { times: Some(1), fault: Some(Fault::Hang), ..Behavior::default() };
        mock.set_behavior(Target::Sms, stuck).unwrap();
        let settings = Settings::new(&database, &mock)
            .with_short_leases()
            .with("OUTBOX_MAX_IN_FLIGHT", 1);
        let a = Process::serve(&settings).await;
        let first = a.client().pay(&one_sms(0)).await;
        assert!(mock.wait_for_requests(Target::Sms, 1, Duration::from_secs(1)).await);
        let mut posted = vec![first];
        for n in 1..=QUEUED {
            posted.push(a.client().pay(&one_sms(n)).await);
        }
        a.signal("STOP");
        let b = Process::serve(&settings).await;
        let all = mock.wait_for(QUEUED + 1, Duration::from_secs(15)).await;
        assert!(all.is_some(), "B does not take over");
        all_sent(&database, Duration::from_secs(5)).await;
        a.signal("CONT");
        until("A counts its lost lease", Duration::from_secs(10), async || {
            let lost = a.client().metric("paybell_leases_lost_total").await;
            (lost >= 1.0).then_some(())
        })
        .await;
        let row = b.client().row(&notification(&posted[0], 0)).await;
        assert_eq!(row["status"], "SENT");
        assert!(outcomes(&row).contains(&"lease_lost"), "{row}");
        // A is in order: what comes now goes out through it.
        let next = a.client().pay(&one_sms(QUEUED + 1)).await;
        a.client().row_in(&notification(&next, 0), "SENT").await;
        posted.push(next);
        let posted: Vec<Posted> = posted.into_iter().map(|answer| Posted {
            answer,
            began: chrono::Utc::now(),
            took: Duration::ZERO,
        }).collect();
        assert_once_each(&mock, &posted, Channel::Sms);
    }
}
