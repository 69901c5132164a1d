//! HTTP itself: sizes, media types, headers, methods, and connections that behave badly.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};

use crate::support::app::{ADMIN_TOKEN, TestApp, sms};
use crate::support::database::Database;
use crate::support::http::{Answer, connect, rest, status, talk};

async fn app() -> TestApp {
    TestApp::start(Database::sqlite()).await
}

/// Nothing but `expected` payments were recorded, and the service still works.
async fn assert_unharmed(app: &TestApp, expected: i64) {
    let payments = app.database.number("SELECT count(*) FROM payments").await;
    assert_eq!(payments, expected);
    app.pay(&sms("after", "010-1234-5678")).await;
    let metrics = app.get("/metrics").await;
    assert!(
        !metrics.text().contains("status=\"500\""),
        "{}",
        metrics.text()
    );
}

/// A valid payment of exactly `size` bytes.
fn padded(size: usize) -> String {
    let body = sms("order-1", "010-1234-5678").to_string();
    let padding = " ".repeat(size - body.len());
    body + &padding
}

fn chunked(body: String) -> reqwest::Body {
    let half = body.len() / 2;
    let (first, second) = body.split_at(half);
    let chunks = [first.to_owned(), second.to_owned()].map(Ok::<_, std::io::Error>);
    reqwest::Body::wrap_stream(futures_util::stream::iter(chunks))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_has_at_most_64_kib() {
    let app = app().await;
    let post = async |body: reqwest::Body| {
        let request = app.http.post(app.url("/payments"));
        Answer::to(
            request
                .header("content-type", "application/json")
                .body(body),
        )
        .await
    };
    assert_eq!(post(padded(65_536).into()).await.status, 201);
    assert_eq!(post(chunked(padded(65_536))).await.status, 201);
    for size in [65_537, 3_000_000] {
        let answer = post(padded(size).into()).await;
        let problem = answer.problem(413, "body-too-large");
        assert!(problem["detail"].as_str().unwrap().contains("65536"));
        post(chunked(padded(size)))
            .await
            .problem(413, "body-too-large");
    }
    assert_unharmed(&app, 2).await;
}

/// Whoever writes a large body must get to read why it is not wanted, not a reset connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_readable_behind_a_large_body() {
    let app = TestApp::start_with(Database::sqlite(), |s| s.with("API_KEYS", "shop=key-1")).await;
    let large = "x".repeat(3_000_000);
    for (method, path, expected) in [
        ("POST", "/payments", 401),
        ("POST", "/admin/outbox/replay", 401),
        ("POST", "/nowhere", 404),
        ("PUT", "/payments", 405),
        ("POST", "/health/live", 405),
    ] {
        for _ in 0..5 {
            let request = app.http.request(method.parse().unwrap(), app.url(path));
            let request = request.header("content-type", "application/json");
            let answer = Answer::to(request.body(large.clone())).await;
            assert_eq!(answer.status, expected, "{method} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_plain_json_in_utf8_is_taken() {
    let app = app().await;
    let body = sms("order-1", "010-1234-5678").to_string();
    for content_type in [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "application/json; charset=euc-kr",
        "multipart/form-data; boundary=x",
        "json",
        ";",
    ] {
        let request = app
            .http
            .post(app.url("/payments"))
            .header("content-type", content_type);
        let answer = Answer::to(request.body(body.clone())).await;
        answer.problem(415, "unsupported-media-type");
    }
    let without = app.http.post(app.url("/payments")).body(body.clone());
    Answer::to(without)
        .await
        .problem(415, "unsupported-media-type");
    for encoding in ["gzip", "deflate", "br", "zstd", "identity, gzip"] {
        let request = app
            .http
            .post(app.url("/payments"))
            .header("content-type", "application/json");
        let request = request
            .header("content-encoding", encoding)
            .body(body.clone());
        Answer::to(request)
            .await
            .problem(415, "unsupported-media-type");
    }
    // 30 KB of gzip that would be 30 MB: refused by its header, never inflated.
    let bomb = app
        .http
        .post(app.url("/payments"))
        .header("content-type", "application/json");
    let bomb = bomb
        .header("content-encoding", "gzip")
        .body(vec![0x1f_u8; 30_000]);
    Answer::to(bomb)
        .await
        .problem(415, "unsupported-media-type");
    for content_type in ["application/json", "Application/JSON;charset=UTF-8"] {
        let request = app
            .http
            .post(app.url("/payments"))
            .header("content-type", content_type);
        assert_eq!(Answer::to(request.body(body.clone())).await.status, 201);
    }
    assert_unharmed(&app, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_idempotency_key_is_refused_and_not_ignored() {
    let app = app().await;
    let body = sms("order-1", "010-1234-5678");
    let long = "k".repeat(256);
    let keys: [&[&str]; 8] = [
        &[""],
        &["  "],
        &["\"\""],
        &["\"half"],
        &["half\""],
        &[&long],
        &["a", "a"],
        &["a", "b"],
    ];
    for values in keys {
        let mut request = app.http.post(app.url("/payments")).json(&body);
        for value in values {
            request = request.header("idempotency-key", *value);
        }
        let answer = Answer::to(request).await;
        let problem = answer.problem(400, "bad-header");
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .contains("Idempotency-Key"),
            "{problem}"
        );
    }
    let request = app.http.post(app.url("/payments")).json(&body);
    let request = request.header("idempotency-key", "키".as_bytes());
    Answer::to(request).await.problem(400, "bad-header");
    let request = app.http.post(app.url("/payments")).json(&body);
    let longest = request.header("idempotency-key", "k".repeat(255));
    assert_eq!(Answer::to(longest).await.status, 201);
    assert_unharmed(&app, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_methods_are_told_which_ones_there_are() {
    let app = app().await;
    let id = "00000000-0000-0000-0000-000000000000";
    for (path, allowed) in [
        ("/payments".to_owned(), "GET, HEAD, POST"),
        (format!("/payments/{id}"), "GET, HEAD"),
        ("/admin/outbox".to_owned(), "GET, HEAD"),
        ("/admin/outbox/stats".to_owned(), "GET, HEAD"),
        ("/admin/outbox/replay".to_owned(), "POST"),
        (format!("/admin/outbox/{id}"), "GET, HEAD"),
        (format!("/admin/outbox/{id}/replay"), "POST"),
        (format!("/admin/outbox/{id}/cancel"), "POST"),
        ("/health/live".to_owned(), "GET, HEAD"),
        ("/health/ready".to_owned(), "GET, HEAD"),
        ("/metrics".to_owned(), "GET, HEAD"),
    ] {
        for method in [
            "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW",
        ] {
            if allowed.split(", ").any(|allowed| allowed == method) {
                continue;
            }
            let request = app.http.request(method.parse().unwrap(), app.url(&path));
            let answer = Answer::to(request.bearer_auth(ADMIN_TOKEN)).await;
            answer.problem(405, "method-not-allowed");
            assert_eq!(answer.header("allow"), allowed, "{method} {path}");
        }
    }
}

/// RFC 9110, 9.1: whoever answers GET answers HEAD; monitors ask so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_is_get_without_the_body() {
    let app = app().await;
    let created = app.pay(&sms("order-1", "010-1234-5678")).await;
    let id = created["id"].as_str().unwrap();
    let row = created["notifications"][0]["id"].as_str().unwrap();
    for (path, expected) in [
        ("/health/live".to_owned(), 200),
        ("/health/ready".to_owned(), 200),
        ("/metrics".to_owned(), 200),
        (format!("/payments/{id}"), 200),
        ("/payments?order_id=order-1".to_owned(), 200),
        ("/payments/x".to_owned(), 404),
        ("/admin/outbox".to_owned(), 200),
        ("/admin/outbox/stats".to_owned(), 200),
        (format!("/admin/outbox/{row}"), 200),
        ("/nowhere".to_owned(), 404),
        ("/admin/outbox/replay".to_owned(), 405),
    ] {
        let request = app.http.head(app.url(&path)).bearer_auth(ADMIN_TOKEN);
        let answer = Answer::to(request).await;
        assert_eq!(answer.status, expected, "{path}");
        assert!(answer.body.is_empty(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_queries_name_their_parameter() {
    let app = app().await;
    let list = "/payments?order_id=o&";
    let long = "o".repeat(129);
    for (path, name) in [
        ("/payments".to_owned(), "order_id"),
        ("/payments?order_id=".to_owned(), "order_id"),
        ("/payments?order_id=%00".to_owned(), "order_id"),
        (format!("/payments?order_id={long}"), "order_id"),
        ("/payments?order_id=o&order_id=o".to_owned(), "order_id"),
        (format!("{list}limit=0"), "limit"),
        (format!("{list}limit=-1"), "limit"),
        (format!("{list}limit=501"), "limit"),
        (format!("{list}limit=1000000000"), "limit"),
        (format!("{list}limit=99999999999999999999"), "limit"),
        (format!("{list}limit=1.5"), "limit"),
        (format!("{list}limit="), "limit"),
        (format!("{list}cursor="), "cursor"),
        (format!("{list}cursor=made-up"), "cursor"),
        (format!("{list}cursor=after-0"), "cursor"),
        (format!("{list}cursor=after-{}", "z".repeat(32)), "cursor"),
        (format!("{list}cursor=%27%3B--"), "cursor"),
        (format!("{list}colour=red"), "colour"),
        (format!("{list}%FF=1"), "\u{fffd}"),
    ] {
        let problem = app.get(&path).await.problem(400, "bad-parameter");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with(&format!("{name}: ")), "{path}: {detail}");
    }
    assert_eq!(app.get(&format!("{list}limit=500")).await.status, 200);
}

/// A body that drips in would hold a connection for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_must_be_complete_within_its_time() {
    let app = app().await;
    let started = Instant::now();
    let dripping = async {
        let mut stream = connect(&app.base).await;
        let head = "POST /payments HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                    Content-Length: 1000\r\n\r\n{\"order_id\":";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        let (mut read, mut write) = stream.split();
        let mut answer = Vec::new();
        let reading = tokio::io::AsyncReadExt::read_to_end(&mut read, &mut answer);
        let dripping = async {
            loop {
                tick.tick().await;
                // The server has gone when this fails; what it said is read beside.
                if write.write_all(b" ").await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            read = reading => { read.unwrap(); }
            () = dripping => {}
        }
        String::from_utf8(answer).unwrap()
    };
    let headless = async {
        let mut stream = connect(&app.base).await;
        stream
            .write_all(b"POST /payments HTTP/1.1\r\nHost: x\r\nX")
            .await
            .unwrap();
        rest(&mut stream).await
    };
    let patience = Duration::from_secs(20);
    let (dripped, headless) = timeout(patience, async { tokio::join!(dripping, headless) })
        .await
        .expect("a slow client holds its connection");
    assert!(
        started.elapsed() >= Duration::from_secs(9),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(status(&dripped), 408, "{dripped}");
    assert!(dripped.contains("urn:paybell:problem:timeout"), "{dripped}");
    assert_eq!(status(&headless), 408, "{headless}");
    assert_unharmed(&app, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_hardly_http_harms_nobody() {
    let app = app().await;
    let long = "a".repeat(300_000);
    let cases = [
        ("\r\n\r\n".to_owned(), 0..=499),
        ("hello\r\n\r\n".to_owned(), 400..=499),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400..=505),
        (format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"), 400..=499),
        (format!("GET / HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n"), 400..=499),
        ("OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(), 400..=499),
        ("CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\n\r\n".to_owned(), 400..=499),
        ("GET http://other/payments?order_id=o HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(), 200..=499),
        ("GET /payments?order_id=\u{7f}\u{ac00} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(), 200..=499),
        ("POST /payments HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n".to_owned(), 400..=499),
        ("POST /payments HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello".to_owned(), 400..=499),
        ("POST /payments HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned(), 400..=499),
        ("GET /health/live HTTP/1.0\r\n\r\n".to_owned(), 200..=200),
    ];
    for (bytes, expected) in cases {
        let mut stream = connect(&app.base).await;
        // The server may have answered and left before it has read everything.
        drop(stream.write_all(bytes.as_bytes()).await);
        drop(stream.shutdown().await);
        let mut answer = Vec::new();
        let read = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer);
        drop(
            timeout(Duration::from_secs(15), read)
                .await
                .expect("the connection stays open"),
        );
        let answer = String::from_utf8_lossy(&answer);
        let status = status(&answer);
        let shown: String = bytes.chars().take(80).collect();
        assert!(
            expected.contains(&status),
            "{shown:?} gave {status}: {answer}"
        );
    }
    assert_unharmed(&app, 0).await;
}

/// Several requests on one connection, sent before the first is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_is_answered_in_its_order() {
    let app = app().await;
    let body = json!({}).to_string();
    let post = format!(
        "POST /payments HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let last = "GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = talk(&app.base, format!("{post}{post}{last}").as_bytes()).await;
    let statuses: Vec<u16> = answer
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|part| part[..3].parse().unwrap())
        .collect();
    assert_eq!(statuses, [422, 422, 200], "{answer}");
}
