//! Requests that are wrong: each is told what is wrong and where, nothing is recorded, and the
//! service goes on.

use serde_json::{Value, json};

use crate::support::app::{TestApp, payment, sms};
use crate::support::http::Answer;
use crate::support::on_both_databases;

/// A valid payment with one of its parts set to something else.
fn with(pointer: &str, value: Value) -> String {
    let mut body = valid();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
        object => object[name] = value,
    }
    body.to_string()
}

fn valid() -> Value {
    let notifications = json!([
        { "channel": "sms", "to": "010-1234-5678" },
        { "channel": "fcm", "to": "a-registration-token", "data": {} },
    ]);
    payment("order-1", &notifications)
}

/// The same with the amount written so.
fn amount(literal: &str) -> String {
    let text = valid().to_string();
    assert!(text.contains("\"amount\":15000"));
    text.replace("\"amount\":15000", &format!("\"amount\":{literal}"))
}

async fn post(app: &TestApp, body: impl Into<reqwest::Body>) -> Answer {
    let request = app.http.post(app.url("/payments"));
    let request = request.header("content-type", "application/json");
    Answer::to(request.body(body)).await
}

/// Nothing was recorded, and the service still works.
async fn assert_unharmed(app: &TestApp) {
    let tables = ["payments", "outbox", "attempts"];
    for table in tables {
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(app.database.number(&count).await, 0, "{table}");
    }
    assert_eq!(app.get("/health/ready").await.status, 200);
    app.pay(&sms("after", "010-1234-5678")).await;
}

on_both_databases! {
    async fn an_amount_is_an_integer_literal_within_its_bounds(database: Database) {
        let app = TestApp::start(database).await;
        for literal in [
            "1e3", "1E3", "15000.0", "100.5", "\"100\"", "true", "[100]", "{}", "-1.0",
            "1e400", "-0.0",
        ] {
            let answer = post(&app, amount(literal)).await;
            answer.problem(400, "malformed-body");
            assert_eq!(answer.pointers(), ["/amount"], "{literal}");
        }
        for literal in [
            "-1", "0", "-0", "null", "9007199254740992", "9223372036854775807",
            "9223372036854775808", "18446744073709551616", "12345678901234567890",
            "-9223372036854775809", "99999999999999999999999999999999999999999999999999",
        ] {
            let answer = post(&app, amount(literal)).await;
            answer.problem(422, "invalid");
            assert_eq!(answer.pointers(), ["/amount"], "{literal}");
        }
        for literal in ["NaN", "Infinity", "-Infinity", "0x10", "+1", "01", "1_000", ".5", "1.", ""] {
            let answer = post(&app, amount(literal)).await;
            answer.problem(400, "malformed-body");
            assert_eq!(answer.pointers(), [""], "{literal}");
        }
        assert_unharmed(&app).await;
    }
}

on_both_databases! {
    async fn what_is_not_json_of_the_right_shape_is_malformed(database: Database) {
        let app = TestApp::start(database).await;
        let text = valid().to_string();
        let doubled = |from: &str, to: &str| {
            assert!(text.contains(from));
            text.replace(from, to)
        };
        let cases: [(String, &[&str]); 20] = [
            (String::new(), &[""]),
            (" ".to_owned(), &[""]),
            ("null".to_owned(), &[""]),
            ("[]".to_owned(), &[""]),
            ("\"x\"".to_owned(), &[""]),
            (text[..text.len() - 1].to_owned(), &[""]),
            (format!("{text} {text}"), &[""]),
            (format!("\u{feff}{text}"), &[""]),
            (format!("{text}\0"), &[""]),
            (format!("{{'order_id': 1}}{text}"), &[""]),
            (doubled("\"amount\"", "\"amount\":1,\"amount\""), &["/amount"]),
            // A field given twice is one, however it is spelled.
            (doubled("\"amount\"", "\"am\\u006funt\":1,\"amount\""), &["/amount"]),
            (doubled("\"channel\":\"sms\"", "\"channel\":\"sms\",\"channel\":\"sms\""), &["/notifications/0/channel"]),
            (doubled("\"data\":{}", "\"data\":{\"a\":\"1\",\"a\":\"2\"}"), &["/notifications/1/data/a"]),
            (doubled("\"amount\"", "\"x~y/z\":1,\"amount\""), &["/x~0y~1z"]),
            (with("/notifications/0/text", json!("x")), &["/notifications/0/text"]),
            (with("/order_id", json!(17)), &["/order_id"]),
            (with("/notifications", json!({})), &["/notifications"]),
            (with("/notifications/1", json!("sms")), &["/notifications/1"]),
            (with("/notifications/1/data", json!({ "n": 1 })), &["/notifications/1/data/n"]),
        ];
        for (body, pointers) in cases {
            let answer = post(&app, body.clone()).await;
            answer.problem(400, "malformed-body");
            assert_eq!(answer.pointers(), pointers, "{body}");
        }
        let mut latin = text.clone().into_bytes();
        latin[15] = 0xff;
        let surrogate = doubled("order-1", "\\ud800");
        let overlong = doubled("order-1", "x").into_bytes();
        for body in [latin, surrogate.into_bytes(), [overlong, vec![0xc0, 0x80]].concat()] {
            post(&app, body).await.problem(400, "malformed-body");
        }
        assert_unharmed(&app).await;
    }
}

on_both_databases! {
    async fn nesting_is_no_danger(database: Database) {
        let app = TestApp::start(database).await;
        for depth in [127, 128, 129, 10_000, 65_000] {
            let open = "[".repeat(depth);
            let answer = post(&app, open).await;
            answer.problem(400, "malformed-body");
            let nested = format!("{}{}", "[".repeat(depth / 2), "]".repeat(depth / 2));
            let answer = post(&app, nested.clone()).await;
            answer.problem(400, "malformed-body");
            if depth < 60_000 {
                let answer = post(&app, with("/amount", json!("X")).replace("\"X\"", &nested)).await;
                answer.problem(400, "malformed-body");
                assert_eq!(answer.pointers(), ["/amount"]);
            }
            let objects = "{\"a\":".repeat(depth / 5);
            post(&app, objects).await.problem(400, "malformed-body");
        }
        // Beyond the size limit it is not even read.
        post(&app, "[".repeat(200_000)).await.problem(413, "body-too-large");
        let path = "/admin/outbox/replay";
        for depth in [128, 60_000] {
            let request = app.http.post(app.url(path)).bearer_auth(crate::support::app::ADMIN_TOKEN);
            let body = "[".repeat(depth);
            let request = request.header("content-type", "application/json").body(body);
            Answer::to(request).await.problem(400, "malformed-body");
        }
        assert_unharmed(&app).await;
    }
}

on_both_databases! {
    async fn every_rule_names_its_field(database: Database) {
        let app = TestApp::start(database).await;
        let many = |n: usize| {
            let sms = |n| json!({ "channel": "sms", "to": format!("010-1234-{n:04}") });
            json!((0..n).map(sms).collect::<Vec<_>>())
        };
        let keys = |n: usize| json!((0..n).map(|n| (format!("k{n}"), "v".into())).collect::<serde_json::Map<_, Value>>());
        let x = |n: usize| json!("가".repeat(n));
        let fcm = |name: &str| format!("/notifications/1/{name}");
        let rules = [
            ("/order_id".to_owned(), json!("")),
            ("/order_id".to_owned(), x(129)),
            ("/order_id".to_owned(), json!(null)),
            ("/order_id".to_owned(), json!("a\0b")),
            ("/order_id".to_owned(), json!("a\nb")),
            ("/order_id".to_owned(), json!("a\u{85}b")),
            ("/currency".to_owned(), json!("XXQ")),
            ("/currency".to_owned(), json!("krw")),
            ("/currency".to_owned(), json!("DEM")),
            ("/currency".to_owned(), json!("KRW\0")),
            ("/description".to_owned(), x(501)),
            ("/description".to_owned(), json!("a\0b")),
            ("/description".to_owned(), json!("a\u{1b}[31mb")),
            ("/locale".to_owned(), json!("")),
            ("/locale".to_owned(), json!("ko_KR")),
            ("/locale".to_owned(), json!("../../etc/passwd")),
            ("/notifications".to_owned(), json!(null)),
            ("/notifications".to_owned(), json!([])),
            ("/notifications".to_owned(), many(21)),
            ("/notifications/0/channel".to_owned(), json!("fax")),
            ("/notifications/0/channel".to_owned(), json!("SMS")),
            ("/notifications/0/to".to_owned(), json!("")),
            ("/notifications/0/to".to_owned(), json!("02-123-4567")),
            ("/notifications/0/to".to_owned(), json!("1588-1234")),
            ("/notifications/0/to".to_owned(), json!("+82 (0)10 0123 4567")),
            ("/notifications/0/to".to_owned(), json!("010-1234-567\0")),
            ("/notifications/0/to".to_owned(), json!("9".repeat(5000))),
            ("/notifications/0/title".to_owned(), x(201)),
            ("/notifications/0/title".to_owned(), json!("a\nb")),
            ("/notifications/0/body".to_owned(), x(2001)),
            ("/notifications/0/body".to_owned(), json!("a\0b")),
            ("/notifications/0/body".to_owned(), json!(" ")),
            ("/notifications/0/data".to_owned(), json!({})),
            (fcm("to"), json!("")),
            (fcm("to"), json!("a b")),
            (fcm("to"), json!("토큰")),
            (fcm("to"), json!("x".repeat(4097))),
            (fcm("data"), keys(21)),
            (fcm("data"), json!({ "k": "v".repeat(2048) })),
            (fcm("data/from"), json!("x")),
            (fcm("data/google.x"), json!("x")),
            (fcm("data/gcm"), json!("x")),
            (fcm("data/payment_id"), json!("x")),
            (fcm("data/event_type"), json!("x")),
            (fcm("data/outbox_id"), json!("x")),
            (fcm("data/k"), json!("a\0b")),
        ];
        for (pointer, value) in rules {
            let answer = post(&app, with(&pointer, value.clone())).await;
            answer.problem(422, "invalid");
            assert_eq!(answer.pointers(), [pointer.as_str()], "{value}");
            assert!(!answer.text().contains("9999999999"), "{}", answer.text());
        }
        let twice = json!([
            { "channel": "sms", "to": "010-1234-5678" }, { "channel": "sms", "to": "+821012345678" },
        ]);
        let answer = post(&app, with("/notifications", twice)).await;
        answer.problem(422, "invalid");
        assert_eq!(answer.pointers(), ["/notifications/1/to"]);
        assert!(!answer.text().contains("12345678"), "{}", answer.text());
        assert_unharmed(&app).await;
    }
}

on_both_databases! {
    async fn the_bounds_themselves_are_taken(database: Database) {
        let app = TestApp::start(database).await;
        let x = |n: usize| "가".repeat(n);
        let data: serde_json::Map<_, _> = (0..20)
            .map(|n| (format!("k{n:02}"), if n == 0 { "v".repeat(2048 - 60) } else { String::new() }.into()))
            .collect();
        let mut notifications = vec![
            json!({ "channel": "sms", "to": "010-1234-5678", "title": x(200), "body": x(2000) }),
            json!({ "channel": "fcm", "to": "x".repeat(4096), "data": data }),
        ];
        notifications.extend((0..18).map(|n| json!({ "channel": "sms", "to": format!("010-1234-{n:04}") })));
        let body = json!({
            "order_id": x(128), "amount": 1, "currency": "USD", "description": x(500),
            "locale": "x-my-private", "notifications": notifications,
        });
        let created = app.pay(&body).await;
        assert_eq!(created["notifications"].as_array().unwrap().len(), 20);
        let arrived = app.mock.wait_for(20, std::time::Duration::from_secs(20)).await;
        assert!(arrived.is_some(), "not all of them arrived");
    }
}

on_both_databases! {
    async fn all_faults_are_told_at_once(database: Database) {
        let app = TestApp::start(database).await;
        let body = json!({
            "amount": 0, "currency": "won", "locale": "!",
            "notifications": [
                { "channel": "sms", "to": "1", "title": "" }, { "channel": "pigeon" },
            ],
        });
        let rules = [
            "/order_id", "/amount", "/currency", "/locale", "/notifications/0/to",
            "/notifications/0/title", "/notifications/1/channel", "/notifications/1/to",
        ];
        let answer = post(&app, body.to_string()).await;
        let problem = answer.problem(422, "invalid");
        assert_eq!(answer.pointers(), rules);
        assert_eq!(problem["detail"], "8 faults were found, see errors");
        // One malformed field makes it a 400, and hides none of the others.
        let mut body = body;
        body["amount"] = json!("0");
        body["colour"] = json!("red");
        let answer = post(&app, body.to_string()).await;
        answer.problem(400, "malformed-body");
        assert_eq!(answer.pointers(), [&rules[..], &["/colour"]].concat());
        assert_unharmed(&app).await;
    }
}
