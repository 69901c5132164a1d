//! Answers without end, and answers of 1 GB in a few packed megabytes, to many requests at once:
//! the memory of the service hardly grows.
//!
//! `PAYBELL_TEST_SCALE=full` has a hundred requests out at a time.

use std::time::Duration;

use futures_util::future::join_all;
use paybell::provider::mock::{Behavior, Fault, Mock, RunningMock, Target};
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::time::{interval, sleep, timeout};

use crate::support::app::{Settings, notification, payment};
use crate::support::client::Client;
use crate::support::database::Database;
use crate::support::dialect::dialects;
use crate::support::inflating::Inflating;
use crate::support::load::{all_sent, figures, one_sms, post_many, size, sms_and_push};
use crate::support::on_both_databases;
use crate::support::process::Process;
use crate::support::wait::until;

/// How much the service may grow.
const MOST: u64 = 16 * 1024 * 1024;

const PATIENCE: Duration = Duration::from_secs(30);

/// Before the mock answers. All requests are out by then.
const GATHERING: Duration = Duration::from_millis(1_500);

/// Of the access tokens: each round of pushes asks for one.
const TOKEN_LIFE: Duration = Duration::from_secs(1);

fn mock() -> RunningMock {
    Mock::start(([127, 0, 0, 1], 0).into()).unwrap()
}

fn kind(database: &Database) -> &'static str {
    if database.is_sqlite() {
        "SQLite"
    } else {
        "PostgreSQL"
    }
}

/// A provider whose answers can be made big.
enum Provider {
    /// It then answers without end.
    Endless(RunningMock),
    /// It then answers with a body that inflates to 1 GB.
    Inflating(Inflating),
}

impl Provider {
    fn endless() -> Self {
        let mock = mock();
        let short = Behavior {
            body: Some(json!({ "expires_in": TOKEN_LIFE.as_secs() })),
            ..Behavior::default()
        };
        mock.set_behavior(Target::Token, short).unwrap();
        Self::Endless(mock)
    }

    async fn inflating() -> Self {
        Self::Inflating(Inflating::start().await)
    }

    fn base(&self) -> String {
        match self {
            Self::Endless(mock) => mock.base_url().to_string(),
            Self::Inflating(server) => server.base.clone(),
        }
    }

    /// From now on the answers are big; the first `n` are out together.
    fn spoil(&self, target: Target, n: usize) {
        match self {
            Self::Inflating(server) => server.spoil(target, n),
            Self::Endless(mock) => {
                let endless = Behavior {
                    latency_ms: GATHERING.as_millis().try_into().unwrap(),
                    fault: Some(Fault::EndlessBody),
                    ..Behavior::default()
                };
                mock.set_behavior(target, endless).unwrap();
            }
        }
    }

    fn heal(&self, target: Target) {
        match self {
            Self::Endless(mock) => mock.clear_behavior(target),
            Self::Inflating(server) => server.heal(target),
        }
    }

    /// Checks that the last `n` requests were out together: the mock answers each after the same
    /// time, and the other server none before all are there.
    fn were_out_together(&self, target: Target, n: usize) {
        let Self::Endless(mock) = self else { return };
        let times = mock.request_times(target);
        let (first, last) = (times[times.len() - n], times[times.len() - 1]);
        assert!(last - first < GATHERING, "{target:?}: {:?}", last - first);
    }

    /// Waits until so many more requests are to be answered big.
    async fn was_asked(&self, target: Target, n: usize) {
        let asked = async {
            match self {
                Self::Inflating(server) => server.was_asked(target, n).await,
                Self::Endless(mock) => {
                    let all = mock.requests(target) + u64::try_from(n).unwrap();
                    assert!(mock.wait_for_requests(target, all, PATIENCE).await);
                }
            }
        };
        timeout(PATIENCE, asked).await.expect("too few requests");
    }

    /// The key file of a service account whose tokens come from here.
    fn key(&self, like: &RunningMock) -> NamedTempFile {
        let file = NamedTempFile::new().unwrap();
        let key = like.service_account();
        let there = like.base_url().to_string();
        std::fs::write(file.path(), key.replace(&there, &self.base())).unwrap();
        file
    }
}

/// A service under test, with a provider.
struct Run {
    what: String,
    database: Database,
    provider: Provider,
    process: Process,
    client: Client,
    n: usize,
    /// Resident bytes after ordinary traffic, as much at a time.
    usual: u64,
}

impl Run {
    async fn start(
        what: String,
        database: Database,
        provider: Provider,
        settings: &Settings,
    ) -> Self {
        let settings = settings
            .clone()
            .with("PROVIDER_TIMEOUT_MS", 6_000)
            .with("OUTBOX_LEASE_SECS", 15)
            // What was answered big comes again when the test says so.
            .with("BACKOFF_BASE_MS", 100_000);
        let process = Process::serve(&settings).await;
        let mut run = Self {
            what,
            database,
            provider,
            client: process.client(),
            process,
            n: size(50, 100),
            usual: 0,
        };
        for _ in 0..3 {
            run.post(sms_and_push).await;
            all_sent(&run.database, PATIENCE).await;
        }
        run.process.forget_peak();
        run.usual = run.process.memory().resident;
        run
    }

    /// Posts as many payments as there are to be requests at a time, all at once.
    async fn post(&self, make: fn(usize) -> serde_json::Value) {
        let clients = [self.client.clone()];
        post_many(&clients, self.n, self.n, make).await;
    }

    /// Waits until this holds of as many rows as there are requests at a time.
    async fn all_are(&self, condition: &str) {
        let sql = format!("SELECT count(*) FROM outbox WHERE {condition}");
        until(condition, PATIENCE, async || {
            let n = self.database.number(&sql).await;
            (usize::try_from(n).unwrap() >= self.n).then_some(())
        })
        .await;
    }

    /// Checks how much it has grown since [`Self::start`], at its most.
    fn has_hardly_grown(&self, by: &str) {
        let growth = self.process.memory().peak.saturating_sub(self.usual);
        let Self { what, n, usual, .. } = self;
        figures(&format!(
            "{what}, {by}, {n} at a time: {usual} bytes grew by {growth} ({:.1} MiB)",
            f64::from(u32::try_from(growth).unwrap()) / 1024.0 / 1024.0
        ));
        assert!(growth < MOST, "{what}, {by}: it grew by {growth} bytes");
    }

    async fn sends(&self) {
        self.provider.spoil(Target::Sms, self.n);
        self.post(one_sms).await;
        self.all_are("channel = 'sms' AND status = 'PENDING' AND maybe_sent")
            .await;
        self.provider.were_out_together(Target::Sms, self.n);
        self.has_hardly_grown("sends");
    }

    /// Asked about what [`Self::sends`] left open. One that goes well in between lets all of them
    /// out at once, since it ends the provider's being left alone.
    async fn look_ups(&self) {
        self.provider.spoil(Target::SmsLookup, self.n);
        self.provider.heal(Target::Sms);
        self.one_is_sent("sms", "010-9999-9999").await;
        self.database.make_all_due().await;
        self.all_are("channel = 'sms' AND status = 'PENDING' AND attempts = 2")
            .await;
        self.provider.were_out_together(Target::SmsLookup, self.n);
        self.has_hardly_grown("look-ups");
    }

    async fn pushes(&self) {
        self.provider.spoil(Target::Fcm, self.n);
        self.post(one_push).await;
        self.all_are("channel = 'fcm' AND status = 'PENDING' AND attempts > 0")
            .await;
        self.provider.were_out_together(Target::Fcm, self.n);
        self.has_hardly_grown("pushes");
    }

    /// A token is asked for again and again, and there is none to send with.
    async fn tokens(&self) {
        self.provider.spoil(Target::Token, 1);
        // Until then the last one of before serves on.
        sleep(TOKEN_LIFE).await;
        // Those that are put off wait long, so it is for others that it is asked for again.
        let pushes = async {
            self.post(one_push).await;
            let mut turns = interval(Duration::from_millis(100));
            for n in self.n.. {
                turns.tick().await;
                self.client.pay(&one_push(n)).await;
            }
        };
        // The second time is after the first answer was read, as far as it is read.
        tokio::select! {
            () = self.provider.was_asked(Target::Token, 2) => {}
            () = pushes => {}
        }
        self.has_hardly_grown("tokens");
    }

    /// It works on.
    async fn one_is_sent(&self, channel: &str, to: &str) {
        let body = payment("another", &json!([{ "channel": channel, "to": to }]));
        let answer = self.client.pay(&body).await;
        self.client.row_in(&notification(&answer, 0), "SENT").await;
    }
}

fn one_push(n: usize) -> serde_json::Value {
    let to = format!("token-{n}");
    payment(
        &format!("order-{n}"),
        &json!([{ "channel": "fcm", "to": to }]),
    )
}

/// Sends, look-ups and pushes, one after the other, in one process.
async fn stays_small(database: Database, provider: Provider, dialect: &str) {
    let mock = mock();
    let settings = Settings::new(&database, &mock);
    let base = provider.base();
    let (_, settings) = dialects(&settings, &mock)
        .into_iter()
        .find(|(name, _)| *name == dialect)
        .unwrap();
    let root = if dialect == "http" { "sms" } else { "" };
    let settings = settings
        .with("SMS_BASE_URL", format!("{base}{root}"))
        .with("FCM_BASE_URL", &base);
    let what = format!("{dialect}, {}", kind(&database));
    let run = Run::start(what, database, provider, &settings).await;
    run.sends().await;
    run.look_ups().await;
    run.pushes().await;
    for target in [Target::Sms, Target::SmsLookup, Target::Fcm] {
        run.provider.heal(target);
    }
    run.one_is_sent("sms", "010-9999-9998").await;
    run.one_is_sent("fcm", "another-token").await;
}

/// Pushes whose access token cannot be had.
async fn stays_small_without_tokens(database: Database, provider: Provider) {
    let mock = mock();
    let key = provider.key(&mock);
    let settings = Settings::new(&database, &mock)
        .with("FCM_BASE_URL", provider.base())
        .with("FCM_PROJECT_ID", "")
        .with("GOOGLE_APPLICATION_CREDENTIALS", key.path().display());
    let what = format!("Google, {}", kind(&database));
    let run = Run::start(what, database, provider, &settings).await;
    run.tokens().await;
    run.provider.heal(Target::Token);
    run.one_is_sent("fcm", "another-token").await;
}

on_both_databases! {
    /// Two side by side, each in a process of its own: more would keep the machine too busy for
    /// all requests to be out together.
    async fn endless_answers_fill_no_memory(database: Database) {
        for pair in [["http", "twilio"], ["solapi", "sens"]] {
            let both = pair.map(async |dialect| {
                let database = database.another().await;
                stays_small(database, Provider::endless(), dialect).await;
            });
            join_all(both).await;
        }
    }
}

on_both_databases! {
    async fn inflating_answers_fill_no_memory(database: Database) {
        let all = ["http", "twilio"].map(async |dialect| {
            let database = database.another().await;
            stays_small(database, Provider::inflating().await, dialect).await;
        });
        join_all(all).await;
    }
}

on_both_databases! {
    async fn big_answers_of_the_token_endpoint_fill_no_memory(database: Database) {
        let other = database.another().await;
        tokio::join!(
            stays_small_without_tokens(database, Provider::endless()),
            stays_small_without_tokens(other, Provider::inflating().await),
        );
    }
}
