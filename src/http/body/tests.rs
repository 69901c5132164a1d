#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

use actix_web::dev::{self, ServerHandle};
use actix_web::error::PayloadError;
use actix_web::test::TestRequest;
use actix_web::{App, FromRequest, HttpResponse, HttpServer, web};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// A server that answers with the length of what it read.
async fn length(
    request: HttpRequest,
    payload: Payload,
    limits: web::Data<Limits>,
) -> Result<HttpResponse, Problem> {
    let body = read_json(&request, payload, &limits).await?;
    Ok(HttpResponse::Ok().body(body.len().to_string()))
}

fn serve(limits: Limits) -> (SocketAddr, ServerHandle) {
    let server = HttpServer::new(move || {
        App::new()
            .app_data(web::Data::new(limits))
            .default_service(web::to(length))
    })
    .workers(1)
    .disable_signals()
    .bind(("127.0.0.1", 0))
    .unwrap();
    let address = server.addrs()[0];
    let running = server.run();
    let handle = running.handle();
    actix_web::rt::spawn(running);
    (address, handle)
}

/// Sends raw bytes and gives back everything that was answered until the connection closed.
async fn talk(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// A request that asks for the connection to be closed afterwards.
fn post(headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

const JSON: &str = "Content-Type: application/json\r\n";

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("no answer")
}

#[actix_web::test]
async fn only_plain_json_in_utf8_is_read() {
    let (address, server) = serve(Limits::default());
    for (headers, expected) in [
        (JSON, "200"),
        ("Content-Type: Application/JSON; charset=UTF-8\r\n", "200"),
        (
            "Content-Type: application/json; charset=\"utf-8\"; x=y\r\n",
            "200",
        ),
        (
            "Content-Type: application/json\r\nContent-Encoding: identity\r\n",
            "200",
        ),
        ("", "415"),
        ("Content-Type: text/plain\r\n", "415"),
        ("Content-Type: application/x-www-form-urlencoded\r\n", "415"),
        ("Content-Type: application/problem+json\r\n", "415"),
        ("Content-Type: json\r\n", "415"),
        ("Content-Type: application/json; charset=euc-kr\r\n", "415"),
        (
            "Content-Type: application/json\r\nContent-Type: application/json\r\n",
            "415",
        ),
        (
            "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
            "415",
        ),
        (
            "Content-Type: application/json\r\nContent-Encoding: identity, gzip\r\n",
            "415",
        ),
    ] {
        let answer = talk(address, &post(headers, "{}")).await;
        assert_eq!(status(&answer), expected, "{headers}");
    }
    server.stop(false).await;
}

#[actix_web::test]
async fn the_limit_is_exact_with_and_without_a_length() {
    let (address, server) = serve(Limits::default());
    for (size, expected) in [
        (0, "200"),
        (65_536, "200"),
        (65_537, "413"),
        (3_000_000, "413"),
    ] {
        let body = "x".repeat(size);
        let answer = talk(address, &post(JSON, &body)).await;
        assert_eq!(status(&answer), expected, "{size}");
        let chunked = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{JSON}Transfer-Encoding: \
             chunked\r\n\r\n{}0\r\n\r\n",
            if size == 0 {
                String::new()
            } else {
                format!("{size:x}\r\n{body}\r\n")
            }
        );
        let answer = talk(address, chunked.as_bytes()).await;
        assert_eq!(status(&answer), expected, "{size} chunked");
    }
    server.stop(false).await;
}

#[actix_web::test]
async fn the_connection_serves_the_next_request_after_a_refusal() {
    let (address, server) = serve(Limits::default());
    let large = "x".repeat(1_000_000);
    let mut bytes = format!(
        "POST / HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: {}\r\n\r\n{large}",
        large.len()
    )
    .into_bytes();
    bytes.extend(post(JSON, "[1]"));
    let answer = talk(address, &bytes).await;
    assert_eq!(status(&answer), "413");
    let second = answer.split("HTTP/1.1 ").nth(2).unwrap_or("no answer");
    assert!(second.starts_with("200"), "{answer}");
    assert!(second.ends_with("\r\n\r\n3"), "{answer}");
    server.stop(false).await;
}

#[actix_web::test]
async fn a_body_that_does_not_come_is_a_timeout() {
    let limits = Limits {
        deadline: Duration::from_millis(50),
        ..Limits::default()
    };
    let (address, server) = serve(limits);
    // The client waits for the answer without ever sending the rest.
    let headers = format!("POST / HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: 10\r\n\r\n[1");
    let answer = talk(address, headers.as_bytes()).await;
    assert_eq!(status(&answer), "408");
    assert!(
        answer.to_ascii_lowercase().contains("connection: close"),
        "{answer}"
    );
    // Nor does a refusal wait longer than the deadline for the rest.
    let headers = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\n[1";
    assert_eq!(status(&talk(address, headers.as_bytes()).await), "415");
    server.stop(false).await;
}

#[actix_web::test]
async fn a_client_that_hangs_up_harms_nobody() {
    let (address, server) = serve(Limits::default());
    let mut stream = TcpStream::connect(address).unwrap();
    let headers = format!("POST / HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: 10\r\n\r\n[1");
    stream.write_all(headers.as_bytes()).unwrap();
    drop(stream);
    assert_eq!(status(&talk(address, &post(JSON, "{}")).await), "200");
    server.stop(false).await;
}

#[actix_web::test]
async fn a_body_that_breaks_off_is_incomplete() {
    let request = TestRequest::post()
        .insert_header((CONTENT_TYPE, "application/json"))
        .to_http_request();
    let chunks = [
        Ok(Bytes::from_static(b"[1")),
        Err(PayloadError::Incomplete(None)),
    ];
    let mut payload: dev::Payload = dev::Payload::Stream {
        payload: Box::pin(futures_util::stream::iter(chunks)),
    };
    let payload = Payload::from_request(&request, &mut payload).await.unwrap();
    let result = read_json(&request, payload, &Limits::default()).await;
    assert_eq!(result, Err(Problem::IncompleteBody));
}
