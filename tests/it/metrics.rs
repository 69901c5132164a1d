//! `/metrics`, read as Prometheus reads it.

use std::collections::{BTreeMap, BTreeSet};

use paybell::provider::mock::{Behavior, Target};
use serde_json::json;

use crate::support::app::{TestApp, notification, payment};
use crate::support::http::Answer;
use crate::support::on_both_databases;

/// Samples by `name{labels}`, after checking that the text is well-formed.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut families = BTreeMap::new();
    let mut samples = BTreeMap::new();
    let (body, end) = text
        .rsplit_once("# EOF\n")
        .expect("no end of the exposition");
    assert!(end.is_empty());
    for line in body.lines() {
        if let Some(about) = line.strip_prefix("# ") {
            let mut words = about.splitn(3, ' ');
            let (what, name, rest) = (
                words.next().unwrap(),
                words.next().unwrap(),
                words.next().unwrap(),
            );
            assert!(["HELP", "TYPE", "UNIT"].contains(&what), "{line}");
            if what == "TYPE" {
                let known = families.insert(name.to_owned(), rest.to_owned());
                assert!(known.is_none(), "{name} has two types");
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect(line);
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        let name = series.split('{').next().unwrap();
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{line}"
        );
        let family = ["_total", "_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| {
                name.strip_suffix(suffix)
                    .filter(|name| families.contains_key(*name))
            })
            .unwrap_or(name);
        let kind = families
            .get(family)
            .unwrap_or_else(|| panic!("{line} has no type"));
        assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        assert!(
            samples.insert(series.to_owned(), value).is_none(),
            "{line} twice"
        );
    }
    samples
}

async fn scrape(app: &TestApp) -> BTreeMap<String, f64> {
    let answer = app.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let content_type = answer.header("content-type");
    assert_eq!(
        content_type,
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    samples(answer.text())
}

on_both_databases! {
    async fn the_figures_are_those_of_what_happened(database: Database) {
        let app = TestApp::start(database).await;
        let refuse = Behavior { to: Some("+821012340000".to_owned()), status: Some(400), ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, refuse).unwrap();
        let busy = Behavior { status: Some(503), headers: [("Retry-After".to_owned(), "600".to_owned())].into(), ..Behavior::default() };
        app.mock.set_behavior(Target::Fcm, busy).unwrap();
        let created = app.pay(&payment("order-1", &json!([
            { "channel": "sms", "to": "010-1234-5678" }, { "channel": "sms", "to": "010-1234-0000" },
            { "channel": "fcm", "to": "a-registration-token" },
        ]))).await;
        app.row_in(&notification(&created, 0), "SENT").await;
        app.row_in(&notification(&created, 1), "FAILED").await;
        assert!(app.mock.wait_for_requests(Target::Fcm, 1, std::time::Duration::from_secs(5)).await);
        crate::support::wait::until("the deferral is written", std::time::Duration::from_secs(5), async || {
            (app.row(&notification(&created, 2)).await["deferrals"] == 1).then_some(())
        })
        .await;

        let figures = scrape(&app).await;
        for (series, expected) in [
            ("paybell_outbox_rows{channel=\"sms\",status=\"SENT\"}", 1.0),
            ("paybell_outbox_rows{channel=\"sms\",status=\"FAILED\"}", 1.0),
            ("paybell_outbox_rows{channel=\"fcm\",status=\"PENDING\"}", 1.0),
            ("paybell_outbox_rows{channel=\"fcm\",status=\"CANCELED\"}", 0.0),
            ("paybell_outbox_due", 0.0),
            ("paybell_outbox_in_flight", 0.0),
            ("paybell_lane_queue_depth{channel=\"sms\"}", 0.0),
            ("paybell_lane_queue_depth{channel=\"fcm\"}", 0.0),
            ("paybell_provider_outcomes_total{provider=\"http\",outcome=\"accepted\"}", 1.0),
            ("paybell_provider_outcomes_total{provider=\"http\",outcome=\"rejected\"}", 1.0),
            ("paybell_provider_outcomes_total{provider=\"fcm\",outcome=\"deferred\"}", 1.0),
            ("paybell_provider_request_seconds_count{provider=\"http\"}", 2.0),
            ("paybell_payments_committed_total", 1.0),
            ("paybell_leases_lost_total", 0.0),
            ("paybell_http_requests_total{method=\"POST\",route=\"/payments\",status=\"201\"}", 1.0),
        ] {
            assert_eq!(figures.get(series), Some(&expected), "{series} in {figures:#?}");
        }
        for channel in ["sms", "fcm"] {
            let series = format!("paybell_lane_seconds_since_last_poll{{channel=\"{channel}\"}}");
            assert!((0.0..30.0).contains(&figures[&series]), "{series}");
        }
    }
}

on_both_databases! {
    /// Every new label value is a series that Prometheus keeps: a scanner must not make any.
    async fn strange_requests_make_no_series(database: Database) {
        let app = TestApp::start(database).await;
        let request = async |method: &str, path: &str| {
            Answer::to(app.http.request(method.parse().unwrap(), app.url(path))).await
        };
        for method in ["GET", "PUT", "BREW"] {
            request(method, "/nowhere").await;
            request(method, "/payments/x").await;
        }
        let before: BTreeSet<String> = scrape(&app).await.into_keys().collect();
        for n in 0..200 {
            let method = ["GET", "PUT", "BREW", "M-SEARCH", "PROPFIND", "PURGE"][n % 6];
            let path = [format!("/nowhere/{n}"), format!("/payments/{n}"), format!("/wp-admin-{n}.php?x={n}")][n % 3].clone();
            request(method, &path).await;
        }
        let after: BTreeSet<String> = scrape(&app).await.into_keys().collect();
        let new: Vec<_> = after.difference(&before).collect();
        // The scrapes themselves are a request that is counted only afterwards.
        let scrape = "paybell_http_requests_total{method=\"GET\",route=\"/metrics\",status=\"200\"}";
        assert!(new.iter().all(|series| *series == scrape), "{new:#?}");
        assert!(after.iter().all(|series| !series.contains("wp-admin") && !series.contains("BREW")));
    }
}
