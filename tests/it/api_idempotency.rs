//! Idempotency keys: one payment for one key, whatever happens on the way.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::app::{TestApp, notification, payment, sms};
use crate::support::http::{Answer, connect};
use crate::support::on_both_databases;
use crate::support::wait::until;

/// POST with a key and a body as written.
async fn post(app: &TestApp, key: &str, body: &str) -> Answer {
    let request = app
        .http
        .post(app.url("/payments"))
        .header("idempotency-key", key);
    let request = request.header("content-type", "application/json");
    Answer::to(request.body(body.to_owned())).await
}

/// Checks that it repeats the first answer, byte for byte.
fn assert_repeats(answer: &Answer, first: &Answer) {
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.text(), first.text());
    assert_eq!(answer.header("location"), first.header("location"));
    assert_eq!(answer.header("content-type"), first.header("content-type"));
    assert_eq!(answer.header("idempotent-replayed"), "true");
}

async fn payments(app: &TestApp) -> i64 {
    app.database.number("SELECT count(*) FROM payments").await
}

async fn rows(app: &TestApp) -> i64 {
    app.database.number("SELECT count(*) FROM outbox").await
}

const FIRST: &str = r#"{"order_id":"주문-1","amount":15000,"currency":"KRW","description":"a/b",
    "notifications":[{"channel":"fcm","to":"a-token","data":{"a":"1","b":"2"}}]}"#;

on_both_databases! {
    async fn the_same_request_in_other_spelling_gets_the_first_answer(database: Database) {
        let app = TestApp::start(database).await;
        let first = post(&app, "key-1", FIRST).await;
        assert_eq!(first.status, 201, "{}", first.text());
        assert_eq!(first.header("idempotent-replayed"), "");
        app.row_in(&notification(&first.json(), 0), "SENT").await;
        for same in [
            FIRST,
            r#" {"currency" : "KRW","amount":15000, "order_id":"주문-1","description":"a\/b",
                "notifications":[{"data":{"b":"2","a":"1"},"to":"a-token","channel":"fcm"}]}"#,
            r#"{"order_id":"\uc8fc\ubb38-1","amount":15000,"currency":"KRW","description":"\u0061/b",
                "locale":null,"notifications":[{"channel":"fcm","to":"a-token","title":null,
                "data":{"a":"1","b":"2","c":null}}]}"#,
        ] {
            assert_repeats(&post(&app, "key-1", same).await, &first);
            // RFC 8941 quotes name the same key.
            assert_repeats(&post(&app, "\"key-1\"", same).await, &first);
        }
        // Statuses are those at birth, and what became of them is seen elsewhere.
        assert_eq!(first.json()["notifications"][0]["status"], "PENDING");
        assert_eq!((payments(&app).await, rows(&app).await), (1, 1));
        assert_eq!(app.mock.messages().len(), 1);
    }
}

on_both_databases! {
    async fn a_key_with_another_request_is_refused(database: Database) {
        let app = TestApp::start(database).await;
        let first = post(&app, "key-1", FIRST).await;
        assert_eq!(first.status, 201);
        for (from, to) in [
            ("15000", "15001"),
            ("\"KRW\"", "\"USD\""),
            ("\"a/b\"", "\"a/c\""),
            ("\"a-token\"", "\"b-token\""),
            ("\"a\":\"1\"", "\"a\":\"3\""),
            ("\"amount\"", "\"locale\":\"ko\",\"amount\""),
            ("\"data\":{\"a\":\"1\",\"b\":\"2\"}", "\"data\":{}"),
        ] {
            assert!(FIRST.contains(from));
            let other = FIRST.replacen(from, to, 1);
            post(&app, "key-1", &other).await.problem(422, "idempotency-key-reused");
        }
        // A key differs by a letter's case; a bad request is told what is wrong, key or not.
        assert_eq!(post(&app, "KEY-1", FIRST).await.header("idempotent-replayed"), "");
        post(&app, "key-1", "{}").await.problem(422, "invalid");
        assert_repeats(&post(&app, "key-1", FIRST).await, &first);
        assert_eq!(payments(&app).await, 2);
    }
}

on_both_databases! {
    async fn without_a_key_every_request_is_a_payment(database: Database) {
        let app = TestApp::start(database).await;
        let body = sms("order-1", "010-1234-5678");
        let (one, other) = tokio::join!(app.pay(&body), app.pay(&body));
        assert_ne!(one["id"], other["id"]);
        app.mock.wait_for(2, Duration::from_secs(5)).await.unwrap();
    }
}

on_both_databases! {
    /// Two instances, or two processes on one file.
    async fn fifty_at_once_through_two_instances_are_one_payment(database: Database) {
        let one = TestApp::start(database.clone()).await;
        let (sms_url, fcm_url) = (one.mock.sms_base_url(), one.mock.base_url());
        let other = TestApp::start_with(database, |settings| {
            settings.with("SMS_BASE_URL", sms_url).with("FCM_BASE_URL", fcm_url)
        })
        .await;
        let answers = join_all((0..50).map(|n| post(if n % 2 == 0 { &one } else { &other }, "key-1", FIRST))).await;
        let firsts: Vec<_> = answers.iter().filter(|a| a.header("idempotent-replayed").is_empty()).collect();
        assert_eq!(firsts.len(), 1);
        for answer in answers.iter().filter(|a| !a.header("idempotent-replayed").is_empty()) {
            assert_repeats(answer, firsts[0]);
        }
        assert_eq!((payments(&one).await, rows(&one).await), (1, 1));
        assert_sent_once(&one, &firsts[0].json()).await;

        // Of different requests with one key one wins, and the others are told.
        let bodies: Vec<String> = (0..20).map(|n| FIRST.replace("15000", &format!("{}", 1 + n))).collect();
        let answers = join_all(bodies.iter().enumerate().map(|(n, body)| {
            post(if n % 2 == 0 { &one } else { &other }, "key-2", body)
        }))
        .await;
        let created = answers.iter().filter(|answer| answer.status == 201).count();
        assert_eq!(created, 1);
        for answer in answers.iter().filter(|answer| answer.status != 201) {
            answer.problem(422, "idempotency-key-reused");
        }
        assert_eq!((payments(&one).await, rows(&one).await), (2, 2));
    }
}

async fn assert_sent_once(app: &TestApp, created: &Value) {
    let row = app.row_in(&notification(created, 0), "SENT").await;
    assert_eq!(row["attempts"], 1);
    assert_eq!(app.mock.messages().len(), 1);
}

on_both_databases! {
    async fn clients_have_keys_of_their_own(database: Database) {
        let app = TestApp::start_with(database, |s| s.with("API_KEYS", "shop=key-s,club=key-c,shop=key-s2")).await;
        let post = async |api_key: &str, amount: i64| {
            let mut body = sms("order-1", "010-1234-5678");
            body["amount"] = json!(amount);
            let request = app.http.post(app.url("/payments")).bearer_auth(api_key);
            Answer::to(request.header("idempotency-key", "key-1").json(&body)).await
        };
        let shop = post("key-s", 1).await;
        let club = post("key-c", 2).await;
        assert_eq!((shop.status, club.status), (201, 201));
        assert_ne!(shop.json()["id"], club.json()["id"]);
        // A client's second key is still that client.
        assert_repeats(&post("key-s2", 1).await, &shop);
        assert_repeats(&post("key-c", 2).await, &club);
        post("key-c", 1).await.problem(422, "idempotency-key-reused");
    }
}

on_both_databases! {
    async fn a_key_outlives_its_rows_and_a_restart(database: Database) {
        let app = TestApp::start(database.clone()).await;
        let first = post(&app, "key-1", FIRST).await;
        app.row_in(&notification(&first.json(), 0), "SENT").await;
        app.stop().await.0.unwrap();
        database.make_older("outbox", "updated_at", 169).await;

        let app = TestApp::start(database).await;
        until("retention removed the row", Duration::from_secs(10), async || {
            (rows(&app).await == 0).then_some(())
        })
        .await;
        assert_repeats(&post(&app, "key-1", FIRST).await, &first);
        assert_eq!((payments(&app).await, rows(&app).await), (1, 0));
        assert!(app.mock.messages().is_empty());
    }
}

on_both_databases! {
    /// The client cannot know whether its payment was recorded; its key finds out.
    async fn a_client_that_left_before_the_answer_repeats_safely(database: Database) {
        let app = TestApp::start(database).await;
        for n in 0..20 {
            let key = format!("key-{n}");
            let body = payment(&format!("order-{n}"), &json!([{ "channel": "sms", "to": format!("010-1234-{n:04}") }])).to_string();
            let request = format!(
                "POST /payments HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {key}\r\nContent-Type: \
                 application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let mut stream = connect(&app.base).await;
            stream.write_all(request.as_bytes()).await.unwrap();
            drop(stream);
            assert_eq!(post(&app, &key, &body).await.status, 201);
        }
        assert_eq!((payments(&app).await, rows(&app).await), (20, 20));
        app.mock.wait_for(20, Duration::from_secs(10)).await.unwrap();
        until("all rows are SENT", Duration::from_secs(10), async || {
            let sent = app.database.number("SELECT count(*) FROM outbox WHERE status = 'SENT'").await;
            (sent == 20).then_some(())
        })
        .await;
        assert_eq!(app.mock.messages().len(), 20);
    }
}

on_both_databases! {
    /// 503 says that the payment may have been recorded; repeating with the key settles it.
    async fn a_payment_that_waited_too_long_is_found_by_its_key(database: Database) {
        let app = TestApp::start_with(database.clone(), |s| s.with("DATABASE_TIMEOUT_MS", 500)).await;
        let lock = database.hold_writes_back().await;
        let late = post(&app, "key-1", FIRST).await;
        late.problem(503, "unavailable");
        assert!(late.header("retry-after").parse::<u64>().unwrap() >= 1);
        lock.let_go().await;
        let repeated = until("the database takes writes again", Duration::from_secs(10), async || {
            let answer = post(&app, "key-1", FIRST).await;
            (answer.status == 201).then_some(answer)
        })
        .await;
        assert_sent_once(&app, &repeated.json()).await;
        assert_eq!((payments(&app).await, rows(&app).await), (1, 1));
    }
}
