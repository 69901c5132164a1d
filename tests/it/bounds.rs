//! Bounds toward a provider: the breaker leaves a failing one alone, the throttle spares a slow one.

use std::time::Duration;

use paybell::provider::mock::{Behavior, Target};
use tokio::time::Instant;

use crate::support::app::{TestApp, sms};
use crate::support::on_both_databases;
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
