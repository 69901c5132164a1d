//! SIGTERM: the process ends in time, and what it had not begun is sent by the next one at once.
//!
//! `PAYBELL_TEST_SCALE=full` runs the first two tests with 1,000 rows.

use std::time::{Duration, Instant};

use paybell::payment::Channel;
use paybell::provider::mock::{Behavior, Fault, RunningMock, Target};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::support::app::{Settings, notification};
use crate::support::client::{Client, outcomes};
use crate::support::database::Database;
use crate::support::load::{all_sent, assert_once_each, mock, one_sms, phone, post_many, size};
use crate::support::on_both_databases;
use crate::support::process::{Ended, Process};
use crate::support::wait::until;

const IN_FLIGHT: usize = 20;
const GRACE: Duration = Duration::from_secs(5);

/// SIGTERM with a backlog behind a slow provider; then the next instance, with a lease so long that
/// only released rows can be sent in time.
async fn stopped_with_a_backlog(database: &Database, queue_capacity: usize) {
    let mock = mock();
    let slow = Behavior {
        latency_ms: 500,
        ..Behavior::default()
    };
    mock.set_behavior(Target::Sms, slow).unwrap();
    let settings = Settings::new(database, &mock)
        .with("OUTBOX_LEASE_SECS", 600)
        .with("OUTBOX_QUEUE_CAPACITY", queue_capacity)
        .with("OUTBOX_MAX_IN_FLIGHT", IN_FLIGHT)
        .with("SHUTDOWN_GRACE_SECS", GRACE.as_secs());
    let process = Process::serve(&settings).await;
    let n = size(300, 1000);
    let posted = post_many(&[process.client()], n, 100, one_sms).await;
    let before = mock.requests(Target::Sms);
    let began = Instant::now();
    process.signal("TERM");
    let Ended { code, log } = process.ended(GRACE + Duration::from_secs(1)).await;
    assert_eq!(code, Some(0), "{log:#?}");
    let took = began.elapsed();
    assert!(took < GRACE, "it took {took:?}");
    let begun = usize::try_from(mock.requests(Target::Sms) - before).unwrap();
    assert!(
        begun <= 2 * IN_FLIGHT,
        "{begun} requests were begun after the signal"
    );
    let sent = "SELECT count(*) FROM outbox WHERE status = 'SENT'";
    let sent = usize::try_from(database.number(sent).await).unwrap();
    assert_eq!(sent, mock.messages().len(), "an outcome was not written");
    assert!(sent < n, "nothing was left over: the test shows nothing");
    let held = "SELECT count(*) FROM outbox WHERE claimed_by IS NOT NULL";
    assert_eq!(
        database.number(held).await,
        0,
        "rows that were not begun are still held"
    );
    let costs = "SELECT count(*) FROM outbox WHERE attempts + deferrals > 0 AND status = 'PENDING'";
    assert_eq!(database.number(costs).await, 0, "letting go cost something");

    mock.clear_behavior(Target::Sms);
    let next = Process::serve(&settings).await;
    all_sent(database, Duration::from_secs(10)).await;
    assert_once_each(&mock, &posted, Channel::Sms);
    assert_eq!(
        mock.requests(Target::SmsLookup),
        0,
        "a row that was not begun was asked about"
    );
    drop(next);
}

on_both_databases! {
    /// All rows are in the process's own queue.
    async fn a_stop_releases_what_is_queued(database: Database) {
        stopped_with_a_backlog(&database, 1000).await;
    }
}

on_both_databases! {
    /// Most rows are due in the database: no more are claimed.
    async fn a_stop_ends_the_claiming(database: Database) {
        stopped_with_a_backlog(&database, 10).await;
    }
}

on_both_databases! {
    /// Clients that never pause on their connections: what was asked is answered, and the stop takes
    /// seconds.
    async fn a_stop_answers_what_busy_clients_asked(database: Database) {
        let mock = mock();
        let process = Process::serve(&Settings::new(&database, &mock)).await;
        let (count, mut answered) = watch::channel(0);
        let clients: Vec<_> = (0..4)
            .map(|n| tokio::spawn(post_until_it_is_gone(process.client(), n, count.clone())))
            .collect();
        answered.wait_for(|answered| *answered >= 40).await.unwrap();
        process.signal("TERM");
        let began = Instant::now();
        let Ended { code, log } = process.ended(Duration::from_secs(15)).await;
        assert_eq!(code, Some(0), "{log:#?}");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(3), "it took {took:?}");
        let mut accepted = 0;
        for client in clients {
            accepted += client.await.unwrap();
        }
        let recorded = database.number("SELECT count(*) FROM payments").await;
        assert_eq!(recorded, accepted, "a committed payment was not answered");
    }
}

/// Posts on one connection until the service is gone; how many were answered 201.
async fn post_until_it_is_gone(client: Client, n: usize, count: watch::Sender<usize>) -> i64 {
    let mut accepted = 0;
    for i in 0.. {
        match client.post(&one_sms(n * 1_000_000 + i), None).await {
            Ok((201, _)) => accepted += 1,
            Ok((status, answer)) => panic!("{status} {answer}"),
            Err(_) => break,
        }
        count.send_modify(|count| *count += 1);
    }
    accepted
}

/// Two SMS that are out without an answer, one of them accepted.
async fn two_hanging(process: &Process, mock: &RunningMock) -> [String; 2] {
    for (n, fault) in [(0, Fault::Hang), (1, Fault::AcceptThenHang)] {
        let behavior = Behavior {
            to: Some(phone(n)),
            times: Some(1),
            fault: Some(fault),
            ..Behavior::default()
        };
        mock.set_behavior(Target::Sms, behavior).unwrap();
    }
    let client = process.client();
    let answers = [client.pay(&one_sms(0)).await, client.pay(&one_sms(1)).await];
    assert!(
        mock.wait_for_requests(Target::Sms, 2, Duration::from_secs(5))
            .await
    );
    answers.map(|answer| notification(&answer, 0))
}

on_both_databases! {
    /// Requests that stay without an answer are cut; their rows keep lease and name, and the next
    /// holder asks about them.
    async fn a_stop_cuts_requests_that_hang(database: Database) {
        let mock = mock();
        let settings = Settings::new(&database, &mock)
            .with("SHUTDOWN_GRACE_SECS", 4)
            .with("OUTBOX_LEASE_SECS", 600);
        let process = Process::serve(&settings).await;
        let [unsent, sent] = two_hanging(&process, &mock).await;
        process.signal("TERM");
        let Ended { code, log } = process.ended(Duration::from_secs(4)).await;
        assert_eq!(code, Some(0), "{log:#?}");
        let now = database.hours_from_now(0);
        let held = format!(
            "SELECT count(*) FROM outbox WHERE claimed_by IS NOT NULL AND status = 'PENDING'
             AND attempts = 0 AND processable_after > {now}"
        );
        assert_eq!(database.number(&held).await, 2);

        database.make_all_due().await;
        let next = Process::serve(&settings).await;
        let row = next.client().row_in(&unsent, "SENT").await;
        assert_eq!(outcomes(&row), ["accepted"]);
        let row = next.client().row_in(&sent, "SENT").await;
        assert_eq!(outcomes(&row), ["found_on_lookup"]);
        assert_eq!(mock.messages().len(), 2);
    }
}

on_both_databases! {
    /// A second SIGTERM does not wait for anything.
    async fn a_second_signal_ends_it_at_once(database: Database) {
        let mock = mock();
        let settings = Settings::new(&database, &mock).with("SHUTDOWN_GRACE_SECS", 60);
        let process = Process::serve(&settings).await;
        two_hanging(&process, &mock).await;
        let address = process.base.strip_prefix("http://").unwrap().to_owned();
        process.signal("TERM");
        until("it takes no connections any more", Duration::from_secs(5), async || {
            TcpStream::connect(&address).await.is_err().then_some(())
        })
        .await;
        process.signal("TERM");
        let ended = process.ended(Duration::from_secs(1)).await;
        assert_eq!(ended.code, Some(1));
    }
}

on_both_databases! {
    /// A database that takes no writes keeps nobody up: the stop ends in time and says by its code
    /// that something was not written, which the next instance finds out from the gateway.
    async fn a_stop_without_its_database_ends_in_time(database: Database) {
        let mock = mock();
        let slow = Behavior { latency_ms: 300, times: Some(1), ..Behavior::default() };
        mock.set_behavior(Target::Sms, slow).unwrap();
        let settings = Settings::new(&database, &mock)
            .with("OUTBOX_LEASE_SECS", 600)
            .with("SHUTDOWN_GRACE_SECS", 3);
        let process = Process::serve(&settings).await;
        let answer = process.client().pay(&one_sms(0)).await;
        let lock = database.hold_writes_back().await;
        assert!(mock.wait_for(1, Duration::from_secs(2)).await.is_some());
        let began = Instant::now();
        process.signal("TERM");
        let Ended { code, log } = process.ended(Duration::from_secs(15)).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(4), "it took {took:?}");
        assert_eq!(code, Some(1), "{log:#?}");

        lock.let_go().await;
        database.make_all_due().await;
        let next = Process::serve(&settings).await;
        let row = next.client().row_in(&notification(&answer, 0), "SENT").await;
        assert_eq!(outcomes(&row), ["found_on_lookup"]);
        assert_eq!(mock.messages().len(), 1);
    }
}
