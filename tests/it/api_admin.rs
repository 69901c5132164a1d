//! What operators read: who may, the list with its filters and pages, one row, the numbers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::app::{ADMIN_TOKEN, Settings, TestApp, notification, payment, sms};
use crate::support::http::Answer;
use crate::support::on_both_databases;
use crate::support::wait::until;
use paybell::provider::mock::{Behavior, Target};

const ROUTES: [(&str, &str); 6] = [
    ("GET", "/admin/outbox"),
    ("GET", "/admin/outbox/stats"),
    ("GET", "/admin/outbox/00000000-0000-0000-0000-000000000000"),
    ("POST", "/admin/outbox/replay"),
    (
        "POST",
        "/admin/outbox/00000000-0000-0000-0000-000000000000/replay",
    ),
    (
        "POST",
        "/admin/outbox/00000000-0000-0000-0000-000000000000/cancel",
    ),
];

/// Ids of a page's rows.
fn ids(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Ids of the rows that a filter lets through, newest first.
async fn listed(app: &TestApp, filter: &str) -> Vec<String> {
    ids(&app.admin(&format!("/admin/outbox?{filter}")).await)
}

on_both_databases! {
    async fn only_the_token_opens_the_admin_routes(database: Database) {
        let app = TestApp::start_with(database, |s| s.with("API_KEYS", "shop=shop-key-of-the-tests")).await;
        let cut = &ADMIN_TOKEN[..ADMIN_TOKEN.len() - 1];
        for (method, path) in ROUTES {
            for value in [
                None, Some(String::new()), Some("Bearer".to_owned()), Some(ADMIN_TOKEN.to_owned()),
                Some(format!("Basic {ADMIN_TOKEN}")), Some(format!("Bearer {cut}")),
                Some(format!("Bearer {ADMIN_TOKEN}x")), Some("Bearer shop-key-of-the-tests".to_owned()),
            ] {
                let mut request = app.http.request(method.parse().unwrap(), app.url(path));
                if let Some(value) = value {
                    request = request.header("authorization", value);
                }
                let answer = Answer::to(request).await;
                answer.problem(401, "unauthorized");
                assert_eq!(answer.header("www-authenticate"), "Bearer");
                assert!(!answer.text().contains(cut));
            }
        }
        // Nor does the operator's token post payments.
        let request = app.http.post(app.url("/payments")).bearer_auth(ADMIN_TOKEN);
        Answer::to(request.json(&sms("o", "010-1234-5678"))).await.problem(401, "unauthorized");
    }
}

on_both_databases! {
    async fn without_a_token_there_is_nothing(database: Database) {
        let app = TestApp::start_with(database, |s| s.with("ADMIN_TOKEN", "")).await;
        for (_, path) in ROUTES {
            for method in ["GET", "HEAD", "POST", "DELETE"] {
                for token in [None, Some(ADMIN_TOKEN), Some("")] {
                    let mut request = app.http.request(method.parse().unwrap(), app.url(path));
                    if let Some(token) = token {
                        request = request.bearer_auth(token);
                    }
                    let answer = Answer::to(request).await;
                    assert_eq!(answer.status, 404, "{method} {path}");
                    assert_eq!(answer.header("allow"), "");
                }
            }
        }
    }
}

on_both_databases! {
    async fn every_filter_lets_through_what_it_says(database: Database) {
        let app = TestApp::start(database).await;
        let refuse = Behavior { to: Some("+821012340000".to_owned()), status: Some(400), ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, refuse).unwrap();
        let defer = Behavior { status: Some(503), headers: [("Retry-After".to_owned(), "600".to_owned())].into(), ..Behavior::default() };
        app.mock.set_behavior(Target::Fcm, defer).unwrap();
        let sent = app.pay(&sms("order-1", "010-1234-5678")).await;
        let mixed = payment("order-2", &json!([
            { "channel": "sms", "to": "010-1234-0000" }, { "channel": "fcm", "to": "a-registration-token" },
        ]));
        let mixed = app.pay(&mixed).await;
        let (sent_id, failed, pending) = (notification(&sent, 0), notification(&mixed, 0), notification(&mixed, 1));
        app.row_in(&sent_id, "SENT").await;
        app.row_in(&failed, "FAILED").await;

        let all = [&pending, &failed, &sent_id];
        assert_eq!(ids(&app.admin("/admin/outbox").await).iter().collect::<Vec<_>>(), all);
        let second = mixed["id"].as_str().unwrap();
        let created = |row: &Value| row["created_at"].as_str().unwrap().to_owned();
        let born = created(&app.row(&sent_id).await);
        let later = created(&app.row(&pending).await);
        assert!(born < later, "{born} {later}");
        let with_offset = born.replace('Z', "%2B00:00");
        let nothing: [&String; 0] = [];
        for (filter, expected) in [
            ("status=PENDING".to_owned(), &[&pending][..]),
            ("status=SENT".to_owned(), &[&sent_id]),
            ("status=FAILED,PENDING".to_owned(), &[&pending, &failed]),
            ("status=CANCELED".to_owned(), &nothing),
            ("channel=sms".to_owned(), &[&failed, &sent_id]),
            ("channel=fcm".to_owned(), &[&pending]),
            ("event_type=PAYMENT_APPROVED".to_owned(), &all),
            ("event_type=PAYMENT_CANCELED".to_owned(), &nothing),
            (format!("payment_id={second}"), &[&pending, &failed]),
            ("order_id=order-1".to_owned(), &[&sent_id]),
            ("order_id=order-1%27%20OR%201%3D1--".to_owned(), &nothing),
            (format!("created_from={later}"), &[&pending, &failed]),
            (format!("created_to={later}"), &[&sent_id]),
            (format!("created_from={born}&created_to={later}"), &[&sent_id]),
            (format!("created_to={with_offset}"), &nothing),
            ("created_from=9999-12-31T23:59:59Z".to_owned(), &nothing),
            ("created_to=0001-01-01T00:00:00Z".to_owned(), &nothing),
            (format!("payment_id={second}&channel=sms&status=FAILED&order_id=order-2"), &[&failed]),
            (format!("payment_id={second}&order_id=order-1"), &nothing),
        ] {
            assert_eq!(listed(&app, &filter).await.iter().collect::<Vec<_>>(), expected, "{filter}");
        }
    }
}

on_both_databases! {
    async fn a_bad_filter_is_refused_and_not_ignored(database: Database) {
        let app = TestApp::start(database).await;
        for (query, name) in [
            ("status=", "status"), ("status=sent", "status"), ("status=SENT,", "status"),
            ("status=IN_PROGRESS", "status"), ("status=SENT&status=FAILED", "status"),
            ("channel=pigeon", "channel"), ("channel=", "channel"), ("event_type=", "event_type"),
            ("event_type=%00", "event_type"), ("payment_id=1", "payment_id"), ("payment_id=", "payment_id"),
            ("order_id=%00", "order_id"), ("created_from=yesterday", "created_from"),
            ("created_from=2026-11-30", "created_from"), ("created_to=2026-11-30T12:00:00", "created_to"),
            ("created_to=2026-13-30T12:00:00Z", "created_to"), ("limit=0", "limit"), ("limit=501", "limit"),
            ("limit=1000000000", "limit"), ("limit=-1", "limit"), ("cursor=x", "cursor"), ("state=SENT", "state"),
        ] {
            let answer = app.admin_get(&format!("/admin/outbox?{query}")).await;
            let problem = answer.problem(400, "bad-parameter");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.starts_with(&format!("{name}: ")), "{query}: {detail}");
        }
        for id in ["x", "%00", "00000000-0000-0000-0000-000000000000"] {
            app.admin_get(&format!("/admin/outbox/{id}")).await.problem(404, "not-found");
        }
    }
}

on_both_databases! {
    async fn pages_hold_each_row_once_while_rows_come_and_change(database: Database) {
        let app = TestApp::start(database.clone()).await;
        // Slow enough that all are out before the first answer: then the breaker stops none.
        let hold = Behavior { status: Some(503), latency_ms: 1500, headers: [("Retry-After".to_owned(), "600".to_owned())].into(), ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, hold).unwrap();
        let recipients = (0..19).map(|n| json!({ "channel": "sms", "to": format!("010-1234-{n:04}") }));
        let recipients = Value::Array(recipients.collect());
        let mut before = Vec::new();
        for n in 0..2 {
            let created = app.pay(&payment(&format!("order-{n}"), &recipients)).await;
            before.extend((0..19).map(|n| notification(&created, n)));
        }
        until("all rows wait for their retry", Duration::from_secs(10), async || {
            let fresh = database.number("SELECT count(*) FROM outbox WHERE deferrals = 0").await;
            (fresh == 0).then_some(())
        })
        .await;
        database.execute("UPDATE outbox SET created_at = (SELECT min(created_at) FROM outbox)").await;
        app.mock.clear_behavior(Target::Sms);

        let mut listed = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = app.admin(&format!("/admin/outbox?limit=7{cursor}")).await;
            listed.extend(ids(&page));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
            // Meanwhile one comes, one is canceled, and one already listed is replayed.
            let new = json!([{ "channel": "fcm", "to": "a-token" }]);
            let new = app.pay(&payment("new", &new)).await;
            app.row_in(&notification(&new, 0), "SENT").await;
            let last = &listed[listed.len() - 1];
            let force = json!({ "force": true });
            let path = format!("/admin/outbox/{last}");
            assert_eq!(app.admin_post(&format!("{path}/cancel"), &force).await.status(), 200);
            assert_eq!(app.admin_post(&format!("{path}/replay"), &force).await.status(), 200);
        }
        before.reverse();
        assert_eq!(listed, before);
    }
}

on_both_databases! {
    async fn a_row_is_shown_with_what_is_sent_and_what_happened(database: Database) {
        let app = TestApp::start_with(database, Settings::with_short_leases).await;
        let twice = Behavior { times: Some(2), status: Some(500), ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, twice).unwrap();
        let body = payment("order-1", &json!([{ "channel": "sms", "to": "010-1234-5678", "title": "Paid", "body": "See you" }]));
        let created = app.pay(&body).await;
        let row = app.row_in(&notification(&created, 0), "SENT").await;
        let fields = [
            "id", "payment_id", "order_id", "event_type", "channel", "recipient", "status", "reason", "attempts",
            "deferrals", "processable_after", "next_retry_at", "last_error", "provider", "provider_message_id",
            "claimed_by", "created_at", "updated_at", "sent_at",
        ];
        let listed = app.admin("/admin/outbox").await;
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>();
        let expected: std::collections::BTreeSet<_> = fields.map(str::to_owned).into();
        assert_eq!(names(&listed["items"][0]), expected);
        let with_more = expected.union(&["payload".to_owned(), "history".to_owned()].into()).cloned().collect();
        assert_eq!(names(&row), with_more);

        assert_eq!(row["payment_id"], created["id"]);
        assert_eq!(row["order_id"], "order-1");
        assert_eq!(row["event_type"], "PAYMENT_APPROVED");
        assert_eq!(row["channel"], "sms");
        assert_eq!(row["recipient"], "+82*****5678");
        assert_eq!(row["provider"], "http");
        assert_eq!((&row["attempts"], &row["deferrals"]), (&json!(3), &json!(0)));
        let message = &app.mock.messages()[0];
        assert_eq!(row["provider_message_id"], message.id.as_str());
        assert_eq!(row["payload"]["body"], message.text.as_deref().unwrap());
        assert_eq!(row["payload"]["title"], "Paid");
        assert!(row["sent_at"].is_string() && row["last_error"].is_string(), "{row}");
        let history = row["history"].as_array().unwrap();
        assert_eq!(history.len(), 3, "{history:?}");
        for (n, entry) in history.iter().enumerate() {
            for name in [
                "epoch", "attempt", "started_at", "finished_at", "outcome", "http_status", "error", "provider",
                "provider_message_id",
            ] {
                assert!(entry.get(name).is_some(), "{name} is missing in {entry}");
            }
            assert_eq!(entry["attempt"], n + 1);
            assert!(entry["started_at"].as_str() <= entry["finished_at"].as_str());
        }
        assert_eq!((&history[0]["outcome"], &history[0]["http_status"]), (&json!("unknown"), &json!(500)));
        assert_eq!(history[2]["outcome"], "accepted");
        let epochs: Vec<_> = history.iter().map(|entry| entry["epoch"].as_i64().unwrap()).collect();
        assert!(epochs.is_sorted() && epochs[0] >= 1, "{epochs:?}");
    }
}

on_both_databases! {
    async fn the_numbers_add_up(database: Database) {
        let app = TestApp::start(database).await;
        let empty = app.admin("/admin/outbox/stats").await;
        let none = json!({ "PENDING": 0, "SENT": 0, "FAILED": 0, "CANCELED": 0 });
        assert_eq!(empty, json!({
            "by_status": none, "by_channel": { "sms": none, "fcm": none }, "due": 0, "in_flight": 0,
            "oldest_due_age_seconds": null, "newer_version": 0, "recorded": 0, "purged": 0,
        }));
        let hang = Behavior { fault: Some(paybell::provider::mock::Fault::Hang), ..Behavior::default() };
        app.mock.set_behavior(Target::Fcm, hang).unwrap();
        let refuse = Behavior { to: Some("+821012340000".to_owned()), status: Some(400), ..Behavior::default() };
        app.mock.set_behavior(Target::Sms, refuse).unwrap();
        let created = app.pay(&payment("order-1", &json!([
            { "channel": "sms", "to": "010-1234-5678" }, { "channel": "sms", "to": "010-1234-0000" },
            { "channel": "fcm", "to": "a-registration-token" },
        ]))).await;
        app.row_in(&notification(&created, 0), "SENT").await;
        app.row_in(&notification(&created, 1), "FAILED").await;
        let stats = app.admin("/admin/outbox/stats").await;
        assert_eq!(stats, json!({
            "by_status": { "PENDING": 1, "SENT": 1, "FAILED": 1, "CANCELED": 0 },
            "by_channel": {
                "sms": { "PENDING": 0, "SENT": 1, "FAILED": 1, "CANCELED": 0 },
                "fcm": { "PENDING": 1, "SENT": 0, "FAILED": 0, "CANCELED": 0 },
            },
            "due": 0, "in_flight": 1, "oldest_due_age_seconds": null, "newer_version": 0, "recorded": 3, "purged": 0,
        }));
    }
}
