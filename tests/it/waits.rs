//! When a row comes back: its own backoff, a provider's wish, and what neither may do.

use std::time::{Duration, Instant};

use chrono::DateTime;
use paybell::provider::mock::{Behavior, Target};
use serde_json::Value;

use crate::support::app::{TestApp, notification};
use crate::support::client::outcomes;
use crate::support::load::{all_sent, one_sms, phone};
use crate::support::on_both_databases;
use crate::support::wait::until;

const ONE_SECOND: Duration = Duration::from_secs(1);

/// Answers one request of this recipient with a status and perhaps a Retry-After.
fn once(n: usize, status: u16, retry_after: Option<&str>) -> Behavior {
    let wish = retry_after.map(|value| ("Retry-After".to_owned(), value.to_owned()));
    Behavior {
        to: Some(phone(n)),
        times: Some(1),
        status: Some(status),
        headers: wish.into_iter().collect(),
        ..Behavior::default()
    }
}

/// An SMS that the gateway takes at once: the failures before it are no outage, and no breaker opens.
async fn gateway_is_well(app: &TestApp, n: usize) {
    let answer = app.pay(&one_sms(1_000_000 + n)).await;
    app.row_in(&notification(&answer, 0), "SENT").await;
}

/// From the end of the first try to the start of the second.
fn wait_of(row: &Value) -> Duration {
    let at = |entry: usize, field: &str| {
        let text = row["history"][entry][field].as_str();
        DateTime::parse_from_rfc3339(text.unwrap_or_else(|| panic!("{row}"))).unwrap()
    };
    (at(1, "started_at") - at(0, "finished_at"))
        .to_std()
        .unwrap()
}

on_both_databases! {
    /// Whatever a gateway writes into Retry-After, the row comes back, never at once and never later
    /// than the cap.
    async fn no_retry_after_loses_or_hurries_a_row(database: Database) {
        let own_backoff = Duration::from_millis(50);
        let cases = [
            ("9223372037", ONE_SECOND),
            ("99999999999999999999", ONE_SECOND),
            ("Fri, 31 Dec 9999 23:59:59 GMT", ONE_SECOND),
            ("1", ONE_SECOND),
            ("-3", own_backoff),
            ("1.5", own_backoff),
            ("", own_backoff),
            ("soon", own_backoff),
            ("Mon, 30 Nov 2020 12:00:00 GMT", own_backoff),
            ("0", own_backoff),
        ];
        let app = TestApp::start_with(database, |settings| {
            settings.with("BACKOFF_BASE_MS", 100).with("BACKOFF_MAX_MS", 1000)
        })
        .await;
        let mut ids = Vec::new();
        for (n, (value, _)) in cases.iter().enumerate() {
            app.mock.set_behavior(Target::Sms, once(n, 429, Some(value))).unwrap();
            ids.push(notification(&app.pay(&one_sms(n)).await, 0));
            if n % 5 == 4 {
                gateway_is_well(&app, n).await;
            }
        }
        for ((value, least), id) in cases.iter().zip(&ids) {
            let row = app.row_in(id, "SENT").await;
            assert_eq!(outcomes(&row), ["deferred", "accepted"], "{value:?}");
            assert_eq!((&row["attempts"], &row["deferrals"]), (&1.into(), &1.into()), "{value:?}");
            let wait = wait_of(&row);
            // The cap, a quarter for the spread, and a poll with room for a busy machine.
            let most = Duration::from_millis(1250 + 1000);
            assert!((*least..most).contains(&wait), "{value:?}: it came back after {wait:?}");
        }
    }
}

on_both_databases! {
    /// Many rows with one Retry-After do not come back in one instant, and none too early.
    async fn rows_with_one_retry_after_are_spread(database: Database) {
        const ROWS: usize = 50;
        let app = TestApp::start(database).await;
        for n in 0..ROWS {
            // Slow enough that all are out before the first answer: then the breaker stops none.
            let refused = Behavior { latency_ms: 1500, ..once(n, 429, Some("3")) };
            app.mock.set_behavior(Target::Sms, refused).unwrap();
        }
        let mut ids = Vec::new();
        for n in 0..ROWS {
            ids.push(notification(&app.pay(&one_sms(n)).await, 0));
            if n % 5 == 4 {
                gateway_is_well(&app, n).await;
            }
        }
        let waiting = "SELECT count(*) FROM outbox WHERE next_retry_at IS NOT NULL";
        until("all rows wait", Duration::from_secs(10), async || {
            let rows = app.database.number(waiting).await;
            (usize::try_from(rows).unwrap() == ROWS).then_some(())
        })
        .await;
        let distinct = "SELECT count(DISTINCT next_retry_at - updated_at) FROM outbox
                        WHERE next_retry_at IS NOT NULL";
        let waits = usize::try_from(app.database.number(distinct).await).unwrap();
        assert!(waits > ROWS / 2, "{ROWS} rows wait only {waits} different times");
        all_sent(&app.database, Duration::from_secs(10)).await;
        for id in &ids {
            let wait = wait_of(&app.row(id).await);
            assert!(wait >= 3 * ONE_SECOND, "a row came back after {wait:?}");
        }
    }
}

on_both_databases! {
    /// A failing provider is called as the schedule says: no tight loop, no stall.
    async fn a_failing_provider_is_called_by_the_schedule(database: Database) {
        let app = TestApp::start_with(database, |settings| {
            settings
                .with("BACKOFF_BASE_MS", 200)
                .with("BACKOFF_MAX_MS", 400)
                .with("OUTBOX_POLL_INTERVAL_MS", 50)
        })
        .await;
        let down = Behavior { status: Some(503), ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, down).unwrap();
        let began = Instant::now();
        let id = notification(&app.pay(&one_sms(0)).await, 0);
        assert!(app.mock.wait_for_requests(Target::Sms, 8, Duration::from_secs(10)).await);
        let took = began.elapsed();
        // Waits of 200 ms and six of 400 ms, each between half and the whole.
        let least = Duration::from_millis((200 + 6 * 400) / 2);
        let most = Duration::from_millis(200 + 6 * 400 + 7 * 200);
        assert!((least..most).contains(&took), "eight calls took {took:?}");
        app.mock.clear_behavior(Target::Sms);
        let row = app.row_in(&id, "SENT").await;
        let calls = app.mock.requests(Target::Sms);
        assert_eq!(row["deferrals"], calls - 1);
        assert_eq!(row["attempts"], 1, "waits cost attempts");
        assert_eq!(row["history"][0]["times"], calls - 1, "one entry, counted up");
    }
}

on_both_databases! {
    /// Counters at which a doubling overflows give the longest wait, never none; the last one ends
    /// the row.
    async fn counters_near_their_end_do_not_overflow(database: Database) {
        let counters = [
            ("attempts", 63),
            ("attempts", 64),
            ("attempts", 999),
            ("deferrals", 63),
            ("deferrals", 64),
            ("deferrals", i32::MAX),
        ];
        let app = TestApp::start_with(database, |settings| {
            settings
                .with("OUTBOX_MAX_ATTEMPTS", 1000)
                .with("BACKOFF_BASE_MS", 100)
                .with("BACKOFF_MAX_MS", 1000)
        })
        .await;
        let mut ids = Vec::new();
        // A wish at the cap leaves time for the change; then there is a bad answer without one.
        for n in 0..=counters.len() {
            app.mock.set_behavior(Target::Sms, once(n, 429, Some("1"))).unwrap();
            ids.push(notification(&app.pay(&one_sms(n)).await, 0));
        }
        let calls = u64::try_from(ids.len()).unwrap();
        assert!(app.mock.wait_for_requests(Target::Sms, calls, ONE_SECOND).await);
        gateway_is_well(&app, 0).await;
        for n in 0..=counters.len() {
            app.mock.set_behavior(Target::Sms, once(n, 503, None)).unwrap();
        }
        for ((column, value), n) in counters.iter().zip(0..) {
            let sql = format!("UPDATE outbox SET {column} = {value} WHERE recipient = '{}'", phone(n));
            app.database.execute(&sql).await;
        }
        let beyond = format!(
            "UPDATE outbox SET attempts = {} WHERE recipient = '{}'",
            i32::MAX,
            phone(counters.len())
        );
        app.database.execute(&beyond).await;
        for ((column, value), id) in counters.iter().zip(&ids) {
            let row = app.row_in(id, "SENT").await;
            assert_eq!(row[column], value.saturating_add(1), "{row}");
            let wait = wait_of(&row);
            assert!(wait >= ONE_SECOND / 2, "{column} {value}: it came back after {wait:?}");
        }
        let row = app.row_in(ids.last().unwrap(), "FAILED").await;
        assert_eq!(row["reason"], "attempts_exhausted");
    }
}

on_both_databases! {
    /// What each status of the gateway leads to.
    async fn each_status_has_its_meaning(database: Database) {
        let cases = [
            (408, "SENT", "unknown"),
            (425, "SENT", "deferred"),
            (429, "SENT", "deferred"),
            (500, "SENT", "unknown"),
            (502, "SENT", "unknown"),
            (503, "SENT", "deferred"),
            (504, "SENT", "unknown"),
            (401, "SENT", "misconfigured"),
            (403, "SENT", "misconfigured"),
            (407, "SENT", "misconfigured"),
            (400, "FAILED", "rejected"),
            (404, "FAILED", "rejected"),
            (410, "FAILED", "rejected"),
            (413, "FAILED", "rejected"),
            (422, "FAILED", "rejected"),
        ];
        let app = TestApp::start_with(database, |settings| settings.with_short_leases()).await;
        let mut ids = Vec::new();
        for (n, (status, end, outcome)) in cases.iter().enumerate() {
            app.mock.set_behavior(Target::Sms, once(n, *status, None)).unwrap();
            let id = notification(&app.pay(&one_sms(n)).await, 0);
            if *outcome == "misconfigured" {
                // It opens the breaker, whose pauses grow with the next refusal: let it close.
                app.row_in(&id, end).await;
            }
            ids.push(id);
        }
        for ((status, end, outcome), id) in cases.iter().zip(&ids) {
            let row = app.row_in(id, end).await;
            assert_eq!(outcomes(&row)[0], *outcome, "{status}");
            assert_eq!(row["history"][0]["http_status"], *status);
            assert!(row["last_error"].is_string(), "{status}");
        }
        let sent = cases.iter().filter(|(_, end, _)| *end == "SENT").count();
        assert_eq!(app.mock.messages().len(), sent);
        let calls = u64::try_from(cases.len() + sent).unwrap();
        assert_eq!(app.mock.requests(Target::Sms), calls, "something was tried once too often");
    }
}
