//! Requests that were accepted and never answered to a client that lives on.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use paybell::provider::mock::{Behavior, Fault, Mock, Target};

use crate::dialects::in_each_dialect;
use crate::support::app::{Settings, TestApp, notifications, payments_to};
use crate::support::client::outcomes;
use crate::support::dialect::{arrived, in_dialect, national, over_wire, speaking};
use crate::support::load::phone;
use crate::support::wire::Wire;

const RECIPIENTS: u64 = 50;
const PATIENCE: Duration = Duration::from_secs(10);

/// Long enough that all requests are out before the first fails: then the breaker stops none.
const ALL_OUT_MS: u64 = 500;

fn recipients() -> Vec<String> {
    (0..RECIPIENTS.try_into().unwrap()).map(phone).collect()
}

async fn post_all(app: &TestApp) -> Vec<String> {
    let bodies = payments_to("sms", &recipients());
    let answers = join_all(bodies.iter().map(|body| app.pay(body))).await;
    answers.iter().flat_map(notifications).collect()
}

/// Each row found its own message, and no second request went out.
async fn each_found_its_own(app: &TestApp, ids: &[String]) {
    let mut found = BTreeSet::new();
    for id in ids {
        let row = app.row_in(id, "SENT").await;
        assert_eq!(outcomes(&row), ["unknown", "found_on_lookup"], "{row}");
        found.insert(row["provider_message_id"].as_str().unwrap().to_owned());
    }
    let once = recipients().iter().map(|to| (national(to), 1)).collect();
    assert_eq!(arrived(&app.mock), once);
    let messages = app.mock.messages();
    let ids = messages.iter().map(|message| message.id.clone());
    assert_eq!(found, ids.collect());
    assert_eq!(app.mock.requests(Target::Sms), RECIPIENTS);
}

in_each_dialect! {
    /// Half of them never hear a word, half are reset, with PROVIDER_TIMEOUT_MS=1000 and
    /// OUTBOX_LEASE_SECS=5.
    async fn what_was_accepted_without_an_answer_is_found(database: Database, dialect: &str) {
        let app = speaking(database, dialect).await;
        for (n, to) in recipients().into_iter().enumerate() {
            let faults = [Fault::AcceptThenHang, Fault::AcceptThenReset];
            let behavior = Behavior {
                to: Some(to),
                fault: Some(faults[n % faults.len()]),
                latency_ms: ALL_OUT_MS,
                ..Behavior::default()
            };
            app.mock.set_behavior(Target::Sms, behavior).unwrap();
        }
        let ids = post_all(&app).await;
        each_found_its_own(&app, &ids).await;
        app.stop().await.0.unwrap();
    }
}

in_each_dialect! {
    /// The line breaks as soon as the requests are out, and the provider accepts them long after:
    /// 2 s after they came, with PROVIDER_TIMEOUT_MS=3000, OUTBOX_LEASE_SECS=7 and
    /// BACKOFF_BASE_MS=100. Asked before the timeout is over, it would know of none.
    async fn what_was_accepted_after_the_line_broke_is_found(database: Database, dialect: &str) {
        let mock = Mock::start(([127, 0, 0, 1], 0).into()).unwrap();
        let wire = Wire::to(mock.addr()).await;
        let settings = in_dialect(&Settings::new(&database, &mock), &mock, dialect)
            .with("PROVIDER_TIMEOUT_MS", 3000)
            .with("OUTBOX_LEASE_SECS", 7);
        let settings = over_wire(settings, &mock, &wire);
        let late = Behavior {
            fault: Some(Fault::LateAccept),
            latency_ms: 2000,
            ..Behavior::default()
        };
        mock.set_behavior(Target::Sms, late).unwrap();
        let app = TestApp::start_over(database, mock, settings).await;
        let ids = post_all(&app).await;
        assert!(app.mock.wait_for_requests(Target::Sms, RECIPIENTS, PATIENCE).await);
        wire.cut();
        assert_eq!(app.mock.messages().len(), 0, "accepted before the line broke");
        each_found_its_own(&app, &ids).await;
        app.stop().await.0.unwrap();
    }
}
