//! Bounds toward a provider: the breaker leaves a failing one alone, the throttle spares a slow one.
//!
//! `PAYBELL_TEST_SCALE=full` keeps the providers of [`a_long_outage_is_waited_out`] down for two
//! minutes.

use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use paybell::payment::Channel;
use paybell::provider::mock::{Behavior, Fault, Mock, RunningMock, Target};
use tokio::net::TcpSocket;

use crate::support::app::{Settings, TestApp, sms};
use crate::support::client::Client;
use crate::support::database::Database;
use crate::support::load::{
    Posted, all_sent, assert_once_each, figures, one_sms, post_many, post_one, size,
};
use crate::support::on_both_databases;
use crate::support::process::Process;
use crate::support::wait::until;

async fn breaker_is(app: &TestApp, state: &str) {
    until(state, Duration::from_secs(20), async || {
        let answer = app.http.get(app.url("/health/ready")).send().await.unwrap();
        assert_eq!(
            answer.status(),
            200,
            "a provider's trouble never flips readiness"
        );
        let ready: serde_json::Value = answer.json().await.unwrap();
        (ready["delivery"]["lanes"][0]["breaker"] == state).then_some(())
    })
    .await;
}

on_both_databases! {
    /// Down, the provider sees a probe now and then; up again, it gets everything; nothing fails.
    async fn a_provider_that_is_down_is_left_alone(database: Database) {
        let app = TestApp::start_with(database, |s| s.with("OUTBOX_MAX_IN_FLIGHT", 20)).await;
        let down = Behavior { status: Some(503), ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, down).unwrap();
        for n in 0..60 {
            app.pay(&sms(&format!("order-{n}"), &format!("010-2000-{n:04}"))).await;
        }
        breaker_is(&app, "open").await;
        let before = app.mock.requests(Target::Sms);
        let since = Instant::now();
        // Two more probes, a second and two apart, and not one of the sixty rows beside them.
        assert!(app.mock.wait_for_requests(Target::Sms, before + 2, Duration::from_secs(20)).await);
        let probes = app.mock.requests(Target::Sms) - before;
        assert!(since.elapsed() > Duration::from_millis(900), "{probes} in {:?}", since.elapsed());
        app.mock.clear_behavior(Target::Sms);
        assert!(app.mock.wait_for(60, Duration::from_secs(40)).await.is_some());
        breaker_is(&app, "closed").await;
        let stats = until("all are SENT", Duration::from_secs(10), async || {
            let stats = app.admin("/admin/outbox/stats").await;
            (stats["by_status"]["SENT"] == 60).then_some(stats)
        })
        .await;
        assert_eq!(stats["by_status"]["FAILED"], 0);
        assert_eq!(app.mock.messages().len(), 60);
    }
}

on_both_databases! {
    /// Never more than the allowed requests in a second, however much waits.
    async fn the_throttle_holds_in_every_second(database: Database) {
        let app = TestApp::start_with(database, |s| s.with("SMS_MAX_PER_SECOND", 20)).await;
        for n in 0..60 {
            app.pay(&sms(&format!("order-{n}"), &format!("010-2000-{n:04}"))).await;
        }
        let arrived = app.mock.wait_for(60, Duration::from_secs(20)).await.unwrap();
        let mut times: Vec<_> = arrived.iter().map(|message| message.received_at).collect();
        times.sort_unstable();
        for window in times.windows(42) {
            let span = window[41] - window[0];
            // A second's worth may have piled up before the first.
            assert!(span.num_milliseconds() >= 950, "42 requests in {span}");
        }
    }
}

on_both_databases! {
    /// While more payments come in than may be sent, rows that found no place in the channel have
    /// their turn as well.
    async fn fresh_rows_take_not_every_token(database: Database) {
        let app = TestApp::start_with(database, |s| s.with("SMS_MAX_PER_SECOND", 20)).await;
        let client = Client::new(&app.base);
        let over = AtomicBool::new(false);
        // Three times twenty a second; the channel holds a second's worth.
        let posting = [0, 10_000, 20_000].map(|first| {
            keep_paying(&client, first, || over.load(Ordering::Relaxed))
        });
        let waiting = async {
            let without_a_place = until("a row has to wait", PATIENCE, async || {
                let waiting = app.admin("/admin/outbox?status=PENDING&limit=500").await;
                let rows = waiting["items"].as_array().unwrap();
                let oldest = rows.iter().rfind(|row| row["claimed_by"].is_null())?;
                Some(oldest["id"].as_str().unwrap().to_owned())
            })
            .await;
            until("it is sent", PATIENCE, async || {
                (app.row(&without_a_place).await["status"] == "SENT").then_some(())
            })
            .await;
            over.store(true, Ordering::Relaxed);
        };
        tokio::join!(join_all(posting), waiting);
    }
}

/// Of the test above, far beyond what it takes.
const PATIENCE: Duration = Duration::from_secs(15);

/// How a provider is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Down {
    /// It answers that it is overloaded.
    Busy,
    /// It takes requests, sends and look-ups, and answers none.
    Hanging,
    /// Its port refuses connections.
    Refusing,
}

/// A provider that can go down in any of these ways, always at the same address.
struct Gateway {
    down: Down,
    /// `None` while it refuses connections.
    mock: Option<RunningMock>,
    /// Keeps the port from everybody else while the mock is not on it. It never listens.
    port: TcpSocket,
}

impl Gateway {
    fn start(down: Down) -> Self {
        let port = TcpSocket::new_v4().unwrap();
        port.set_reuseaddr(true).unwrap();
        port.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let mock = Mock::start(port.local_addr().unwrap()).unwrap();
        Self {
            down,
            mock: Some(mock),
            port,
        }
    }

    fn mock(&self) -> &RunningMock {
        self.mock.as_ref().expect("it is not there")
    }

    async fn go_down(&mut self) {
        let all = |behavior: Behavior| {
            for target in [Target::Sms, Target::SmsLookup] {
                self.mock().set_behavior(target, behavior.clone()).unwrap();
            }
        };
        match self.down {
            Down::Busy => all(Behavior {
                status: Some(503),
                ..Behavior::default()
            }),
            Down::Hanging => all(Behavior {
                fault: Some(Fault::Hang),
                ..Behavior::default()
            }),
            Down::Refusing => self.mock.take().unwrap().stop().await,
        }
    }

    /// Returns how many look-ups had hung until then: no fewer, and no more.
    fn come_up(&mut self) -> [u64; 2] {
        if self.mock.is_none() {
            self.mock = Some(Mock::start(self.port.local_addr().unwrap()).unwrap());
        }
        let least = self.mock().requests(Target::SmsLookup);
        for target in [Target::SmsLookup, Target::Sms] {
            self.mock().clear_behavior(target);
        }
        [least, self.mock().requests(Target::SmsLookup)]
    }
}

/// Of a provider that hangs: what was out when it went down, up to two hundred requests at once, is
/// over before the calm is looked at.
const SHORT_TIMEOUT: Duration = Duration::from_secs(2);

/// So many requests in any one second are calm.
const CALM: f64 = 5.0;

/// Notifications wait and payments keep coming while the provider is down; it is left in peace, and
/// then gets everything, each once.
async fn is_waited_out(database: Database, down: Down) {
    let outage = seconds(12, 120);
    // Usually: the timeout twice, since what was out when it went down has to end first.
    let unrest = seconds(4, 15);
    let mut gateway = Gateway::start(down);
    let mut settings = Settings::new(&database, gateway.mock());
    if down == Down::Hanging {
        settings = settings
            .with("PROVIDER_TIMEOUT_MS", SHORT_TIMEOUT.as_millis())
            .with("OUTBOX_LEASE_SECS", 6);
    }
    let process = Process::serve(&settings).await;
    let client = process.client();
    post_one(&client, &one_sms(1_000_000)).await;
    all_sent(&database, Duration::from_secs(10)).await;
    gateway.mock().forget_messages();

    gateway.go_down().await;
    let went_down = Instant::now();
    let calm_from = went_down + unrest;
    let mut posted = post_many(slice::from_ref(&client), size(300, 600), 16, one_sms).await;
    let (more, looks) = keep_paying(&client, posted.len(), || went_down.elapsed() >= outage).await;
    posted.extend(more);
    let calm = match down {
        Down::Busy | Down::Hanging => Calm::of_requests(gateway.mock(), calm_from),
        Down::Refusing => Calm::of_looks(&looks, calm_from),
    };
    let look_ups = gateway.come_up();
    let came_up = Instant::now();
    let arriving = || {
        let none = gateway.mock().messages().is_empty();
        !none || came_up.elapsed() > Duration::from_secs(60)
    };
    posted.extend(keep_paying(&client, posted.len(), arriving).await.0);
    all_sent(&database, Duration::from_secs(60)).await;
    figures(&format!(
        "{down:?} for {outage:?}, {} notifications: from {unrest:?} on {} requests, at most {} in \
         any second; all delivered {:?} after it was back",
        posted.len(),
        calm.requests,
        calm.busiest,
        came_up.elapsed()
    ));
    assert!(
        calm.requests > 0.0,
        "{down:?}: nobody looked whether it is back"
    );
    assert!(
        calm.busiest <= CALM,
        "{down:?}: {} in a second",
        calm.busiest
    );
    assert_once_each(gateway.mock(), &posted, Channel::Sms);
    assert_attempts(&database, &gateway, look_ups).await;
}

/// What is busy or refuses connections has not processed anything: each row counts the one request
/// that was accepted. One that hangs may have: each send and each look-up without an answer counts.
async fn assert_attempts(database: &Database, gateway: &Gateway, look_ups: [u64; 2]) {
    let down = gateway.down;
    if down != Down::Hanging {
        let others = "SELECT count(*) FROM outbox WHERE attempts <> 1";
        assert_eq!(database.number(others).await, 0, "{down:?}");
        return;
    }
    let counted = database.number("SELECT sum(attempts) FROM outbox").await;
    let sends = gateway.mock().requests(Target::Sms);
    let [least, most] = look_ups.map(|unanswered| sends + unanswered);
    let counted = u64::try_from(counted).unwrap();
    assert!(
        (least..=most).contains(&counted),
        "{least} <= {counted} <= {most}"
    );
}

fn number(n: usize) -> f64 {
    u32::try_from(n).unwrap().into()
}

fn seconds(usual: usize, full: usize) -> Duration {
    Duration::from_secs(u64::try_from(size(usual, full)).unwrap())
}

/// How many requests the service has made by its own account, at some moment.
type Look = (Instant, f64);

/// Posts about twenty payments a second until `over`.
async fn keep_paying(
    client: &Client,
    first: usize,
    over: impl Fn() -> bool,
) -> (Vec<Posted>, Vec<Look>) {
    let (mut posted, mut looks) = (Vec::new(), Vec::new());
    let mut turns = tokio::time::interval(Duration::from_millis(50));
    while !over() {
        turns.tick().await;
        posted.push(post_one(client, &one_sms(first + posted.len())).await);
        let made = client.metric("paybell_provider_outcomes_total").await;
        looks.push((Instant::now(), made));
    }
    (posted, looks)
}

/// What a provider that is down had to bear.
struct Calm {
    requests: f64,
    /// The most in any one second.
    busiest: f64,
}

impl Calm {
    /// By the record of the provider, up to now.
    fn of_requests(mock: &RunningMock, from: Instant) -> Self {
        let all = [Target::Sms, Target::SmsLookup].map(|target| mock.request_times(target));
        let mut times: Vec<Instant> = all.concat();
        times.retain(|at| *at >= from);
        let within = |start: &Instant| {
            let second = *start..*start + Duration::from_secs(1);
            times.iter().filter(|at| second.contains(*at)).count()
        };
        Self {
            requests: number(times.len()),
            busiest: number(times.iter().map(within).max().unwrap_or(0)),
        }
    }

    /// By the service's account, since nobody sees a connection that is refused. A second between
    /// two looks counts with all that happened from the look before it to the look after it.
    fn of_looks(looks: &[Look], from: Instant) -> Self {
        let looks: Vec<&Look> = looks.iter().filter(|(at, _)| *at >= from).collect();
        let around = |pair: &[&Look]| {
            let end = pair[1].0 + Duration::from_secs(1);
            let after = looks.iter().find(|(at, _)| *at >= end)?;
            Some(after.1 - pair[0].1)
        };
        Self {
            requests: looks[looks.len() - 1].1 - looks[0].1,
            busiest: looks.windows(2).filter_map(around).fold(0.0, f64::max),
        }
    }
}

on_both_databases! {
    /// Side by side, to take no longer than one.
    async fn a_long_outage_is_waited_out(database: Database) {
        let (two, three) = (database.another().await, database.another().await);
        tokio::join!(
            Box::pin(is_waited_out(database, Down::Busy)),
            Box::pin(is_waited_out(two, Down::Hanging)),
            Box::pin(is_waited_out(three, Down::Refusing)),
        );
    }
}
