//! A provider that cannot be reached at all, and parts of ours that break.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use paybell::config::{Config, Env};
use paybell::metrics::Metrics;
use paybell::outbox::Running;
use paybell::payment::Channel;
use paybell::provider::mock::{Mock, Target};
use paybell::provider::{LookUp, Message, Outcome, Provider};
use paybell::store::Store;
use tokio::time::Instant;

use crate::support::app::{Settings, TestApp, notification};
use crate::support::client::outcomes;
use crate::support::load::{all_sent, one_sms};
use crate::support::on_both_databases;
use crate::support::wait::until;

/// An address on which nobody listens.
fn nobodys_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

async fn has_waited(app: &TestApp, id: &str) {
    until("the row waits", Duration::from_secs(10), async || {
        let row = app.row(id).await;
        let error = row["last_error"]
            .as_str()
            .is_some_and(|error| error.contains("connect"));
        (error && row["deferrals"].as_i64() >= Some(2)).then_some(())
    })
    .await;
}

on_both_databases! {
    /// A gateway that refuses connections costs no attempt, and gets its message once it is up.
    async fn a_refused_connection_is_waited_out(database: Database) {
        let address = nobodys_address();
        let app = TestApp::start_with(database, |settings| {
            settings
                .with("SMS_BASE_URL", format!("http://{address}/sms"))
                .with("BACKOFF_MAX_MS", 500)
        })
        .await;
        let id = notification(&app.pay(&one_sms(0)).await, 0);
        has_waited(&app, &id).await;
        let gateway = Mock::start(address).unwrap();
        let row = app.row_in(&id, "SENT").await;
        assert_eq!(row["attempts"], 1);
        assert_eq!(outcomes(&row), ["deferred", "accepted"]);
        assert_eq!((gateway.requests(Target::Sms), gateway.messages().len()), (1, 1));
    }
}

on_both_databases! {
    /// A host name that does not resolve is waited out too; mended, the row is sent.
    async fn a_name_that_does_not_resolve_is_waited_out(database: Database) {
        let app = TestApp::start_with(database.clone(), |settings| {
            // RFC 6761: no such name, ever.
            settings.with("SMS_BASE_URL", "http://gateway.invalid/sms")
        })
        .await;
        let id = notification(&app.pay(&one_sms(0)).await, 0);
        has_waited(&app, &id).await;
        let row = app.row(&id).await;
        assert_eq!((&row["status"], &row["attempts"]), (&"PENDING".into(), &0.into()));
        let (ended, mock) = app.stop().await;
        ended.unwrap();
        let settings = Settings::new(&database, &mock);
        let app = TestApp::start_over(database, mock, settings).await;
        app.row_in(&id, "SENT").await;
        assert_eq!(app.mock.messages().len(), 1);
    }
}

/// Panics on its first message, and takes every other.
#[derive(Default)]
struct PanicsOnce {
    calls: AtomicU32,
}

#[async_trait]
impl Provider for PanicsOnce {
    fn name(&self) -> &'static str {
        "http"
    }

    async fn send(&self, _: &Message) -> Outcome {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        assert!(call > 0, "a bug in an adapter");
        Outcome::Accepted {
            provider_message_id: None,
        }
    }

    async fn look_up(&self, _: &Message) -> LookUp {
        LookUp::NeverSeen
    }
}

on_both_databases! {
    /// A panic in one delivery fails that try, and neither its neighbours nor the engine.
    async fn a_panic_in_a_delivery_is_contained(database: Database) {
        const ROWS: usize = 5;
        let down = format!("http://{}/sms", nobodys_address());
        let app = TestApp::start_with(database.clone(), |settings| {
            settings.with("SMS_BASE_URL", down).with("BACKOFF_BASE_MS", 60_000)
        })
        .await;
        let mut ids = Vec::new();
        for n in 0..ROWS {
            ids.push(notification(&app.pay(&one_sms(n)).await, 0));
        }
        let waiting = "SELECT count(*) FROM outbox WHERE deferrals = 1";
        until("all rows wait", Duration::from_secs(5), async || {
            let waiting = database.number(waiting).await;
            (usize::try_from(waiting).unwrap() == ROWS).then_some(())
        })
        .await;
        app.stop().await.0.unwrap();
        database.make_all_due().await;

        let settings = Settings::new(&database, &Mock::start(nobodys_address()).unwrap())
            .with("PROVIDER_TIMEOUT_MS", 100)
            .with("OUTBOX_LEASE_SECS", 5);
        let env: Env = settings.0.into_iter().collect();
        let config = Config::from_env(&env).unwrap();
        let store = Store::open(&config.database).await.unwrap();
        let provider = Arc::new(PanicsOnce::default());
        let running = Running::start(
            &store,
            &config.outbox,
            config.database.timeout,
            vec![(Channel::Sms, provider.clone())],
            &Metrics::new(),
        );
        all_sent(&database, Duration::from_secs(5)).await;
        let calls = provider.calls.load(Ordering::SeqCst);
        assert_eq!(usize::try_from(calls).unwrap(), ROWS + 1);
        let panicked = "SELECT count(*) FROM attempts WHERE outcome = 'unknown'";
        assert_eq!(database.number(panicked).await, 1);
        assert!(running.shut_down(Instant::now() + Duration::from_secs(5)).await);
    }
}
