#![expect(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use crate::provider::mock::{Behavior, Fault, Target};
use crate::provider::testing::{
    self, PATIENCE, PHONE, RawServer, answer, client, client_with_timeout,
};

async fn get(client: &Client, url: &Url) -> Result<Reply, Failure> {
    client.call(|http| http.get(url.clone())).await
}

fn not_sent(result: Result<Reply, Failure>) -> String {
    match result {
        Err(Failure::NotSent(text)) => text,
        Err(other) => panic!("{other:?}"),
        Ok(reply) => panic!("answered {}", reply.status),
    }
}

fn unanswered(result: Result<Reply, Failure>) -> String {
    match result {
        Err(Failure::Unanswered(text)) => text,
        Err(other) => panic!("{other:?}"),
        Ok(reply) => panic!("answered {}", reply.status),
    }
}

#[tokio::test]
async fn a_refused_connection_sent_nothing() {
    let url = testing::refusing().await;
    let text = not_sent(get(&client(), &url).await);
    assert!(text.starts_with("could not connect: "), "{text}");
    assert!(!text.contains("secret-path"), "{text}");
}

#[tokio::test]
async fn an_unknown_host_was_sent_nothing() {
    let url = Url::parse("http://no-such-host.invalid/secret-path").unwrap();
    let text = not_sent(get(&client(), &url).await);
    assert!(!text.contains("secret-path"), "{text}");
}

#[tokio::test]
async fn a_failed_tls_handshake_sent_nothing() {
    let server = RawServer::start(answer("200 OK", ""), true).await;
    let mut url = server.url.clone();
    url.set_scheme("https").unwrap();
    // A ClientHello is no HTTP request, so the server says nothing until the handshake times out.
    let client = client_with_timeout(Duration::from_millis(400));
    not_sent(get(&client, &url).await);

    let mock = testing::mock();
    let mut url = mock.base_url();
    url.set_scheme("https").unwrap();
    not_sent(get(&testing::client(), &url).await);
}

#[tokio::test]
async fn a_request_without_an_answer_may_have_arrived() {
    let mock = testing::mock();
    let url = mock.sms_base_url();
    for fault in [Fault::Hang, Fault::Reset] {
        let behavior = Behavior {
            fault: Some(fault),
            ..Behavior::default()
        };
        mock.set_behavior(Target::SmsLookup, behavior).unwrap();
        let client = match fault {
            Fault::Hang => client_with_timeout(Duration::from_millis(300)),
            _ => testing::client(),
        };
        let text = unanswered(get(&client, &endpoint(&url, &["messages", PHONE])).await);
        let expected = match fault {
            Fault::Hang => "no complete answer in time",
            _ => "the connection broke after the request went out",
        };
        assert!(text.starts_with(expected), "{text}");
    }
}

#[tokio::test]
async fn a_close_before_the_answer_may_have_arrived() {
    let server = RawServer::start(Vec::new(), true).await;
    unanswered(get(&client(), &server.url).await);
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_its_status() {
    let raw = b"HTTP/1.1 503 x\r\nContent-Length: 100\r\nRetry-After: 7\r\n\r\nbusy".to_vec();
    let server = RawServer::start(raw, true).await;
    let reply = get(&client(), &server.url).await.unwrap();
    assert_eq!(reply.status, 503);
    assert_eq!(reply.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(reply.text(), "busy");
    assert!(reply.broken.is_some());
}

#[tokio::test]
async fn an_inflating_body_is_cut() {
    let bomb = gzip_bomb(20_000);
    let server = RawServer::start(answer("500 x\nContent-Encoding: gzip", bomb), true).await;
    let reply = get(&client(), &server.url).await.unwrap();
    assert_eq!(reply.status, 500);
    assert_eq!(reply.body.len(), MAX_BODY_BYTES);
    assert_eq!(reply.broken, None);
}

#[tokio::test]
async fn an_endless_body_is_cut() {
    let mock = testing::mock();
    let behavior = Behavior {
        fault: Some(Fault::EndlessBody),
        ..Behavior::default()
    };
    mock.set_behavior(Target::SmsLookup, behavior).unwrap();
    let url = endpoint(&mock.sms_base_url(), &["messages", "x"]);
    let reply = get(&client(), &url).await.unwrap();
    assert_eq!(reply.body.len(), MAX_BODY_BYTES);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = RawServer::start(answer("200 OK", ""), true).await;
    let head = format!("307 x\nLocation: {}", elsewhere.url);
    let server = RawServer::start(answer(&head, ""), true).await;
    let reply = get(&client(), &server.url).await.unwrap();
    assert_eq!(reply.status, 307);
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_proxy_is_used_when_it_is_set() {
    let mut proxy = RawServer::start(answer("204 x", ""), true).await;
    let client = Client::new(ClientSettings {
        timeout: PATIENCE,
        proxy: Some(proxy.url.clone()),
    })
    .unwrap();
    let url = Url::parse("http://no-such-host.invalid/x").unwrap();
    assert_eq!(get(&client, &url).await.unwrap().status, 204);
    let request = proxy.requests.recv().await.unwrap();
    assert!(
        request.starts_with("GET http://no-such-host.invalid/x "),
        "{request}"
    );
}

#[test]
fn a_proxy_that_cannot_be_used_is_an_error() {
    let settings = ClientSettings {
        timeout: PATIENCE,
        proxy: Some(Url::parse("socks5://user:password@host").unwrap()),
    };
    let error = Client::new(settings).err().unwrap().to_string();
    assert!(error.contains("PROVIDER_PROXY"), "{error}");
    assert!(!error.contains("password"), "{error}");
}

#[tokio::test]
async fn connections_are_reused_until_the_pool_is_old() {
    let server = RawServer::start(answer("200 OK", "{}"), false).await;
    let client = client();
    for _ in 0..3 {
        get(&client, &server.url).await.unwrap();
    }
    assert_eq!(server.connections(), 1);

    client.current.lock().unwrap().old_at = Instant::now();
    for _ in 0..3 {
        get(&client, &server.url).await.unwrap();
    }
    assert_eq!(server.connections(), 2);
}

#[test]
fn endpoints_are_added_to_the_path_and_encoded() {
    let table = [
        ("http://h", "http://h/messages/a%2Fb%20c%3F"),
        ("http://h/", "http://h/messages/a%2Fb%20c%3F"),
        ("http://h/sms", "http://h/sms/messages/a%2Fb%20c%3F"),
        ("http://h/sms/", "http://h/sms/messages/a%2Fb%20c%3F"),
    ];
    for (base, expected) in table {
        let base = Url::parse(base).unwrap();
        let url = endpoint(&base, &["messages", "a/b c?"]);
        assert_eq!(url.as_str(), expected);
    }
}

#[test]
fn an_id_that_cannot_be_stored_is_dropped() {
    assert_eq!(message_id("SM1"), Some("SM1".to_owned()));
    assert_eq!(message_id(""), None);
    assert_eq!(message_id("a\0b"), None);
    assert_eq!(message_id(&"x".repeat(255)).unwrap().len(), 255);
    assert_eq!(message_id(&"x".repeat(256)), None);
}

/// A gzip stream of `bytes` bytes that inflates to about 160 times as much: one zero, and then the
/// longest copies of what came before that fixed Huffman codes can say.
fn gzip_bomb(bytes: usize) -> Vec<u8> {
    const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    // Final block, fixed codes, the literal 0; then length 258 and distance 1 again and again.
    const START: &str = "110" /* least significant bit first: 1, then 01 */;
    const LITERAL_ZERO: &str = "00110000";
    const COPY_258: &str = "1100010100000";
    let mut bits = format!("{START}{LITERAL_ZERO}").into_bytes();
    while bits.len() < (bytes - HEADER.len()) * 8 {
        bits.extend_from_slice(COPY_258.as_bytes());
    }
    let packed = bits.chunks(8).map(|chunk| {
        let set = chunk.iter().enumerate().filter(|(_, bit)| **bit == b'1');
        set.fold(0, |byte, (place, _)| byte | (1 << place))
    });
    HEADER.into_iter().chain(packed).collect()
}
