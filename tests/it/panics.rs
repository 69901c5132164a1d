//! Bugs of ours: what panics takes nothing else along.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use paybell::config::{Config, Env};
use paybell::metrics::Metrics;
use paybell::outbox::Running;
use paybell::payment::Channel;
use paybell::provider::mock::Mock;
use paybell::provider::{LookUp, Message, Outcome, Provider};
use paybell::store::Store;
use tokio::time::Instant;

use crate::support::app::{Settings, TestApp};
use crate::support::load::{all_sent, nobodys_address, one_sms};
use crate::support::on_both_databases;
use crate::support::wait::until;

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
        for n in 0..ROWS {
            app.pay(&one_sms(n)).await;
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
