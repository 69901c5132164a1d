//! What the adapters' tests share.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use url::Url;
use uuid::Uuid;

use super::client::{Client, ClientSettings};
use super::mock::{Mock, RunningMock};
use super::{Message, Outcome};
use crate::payment::{PAYMENT_APPROVED, Payload, Recipient};

pub(super) const PHONE: &str = "+821012345678";
pub(super) const TOKEN: &str = "fGt:APA91bHxyzQWERTYuiopLKJHgfdsaZXCVbnm";

/// Far longer than anything here takes, so that reaching it is a failure.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn message(recipient: &str) -> Message {
    let outbox_id = Uuid::now_v7();
    Message {
        outbox_id,
        payment_id: Uuid::now_v7(),
        event_type: PAYMENT_APPROVED.into(),
        reference: outbox_id.to_string().into(),
        recipient: Recipient::stored(recipient.to_owned()),
        payload: Arc::new(Payload {
            title: Some("Paid".to_owned()),
            body: "Your payment was approved".to_owned(),
            data: Default::default(),
        }),
        deadline: Instant::now() + 10 * PATIENCE,
    }
}

/// The outcome without its words, to compare with a table's row.
pub(super) fn summary(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Accepted {
            provider_message_id,
        } => format!("accepted {provider_message_id:?}"),
        Outcome::Deferred { retry_after, .. } => format!("deferred {retry_after:?}"),
        Outcome::Unknown { retry_after, .. } => format!("unknown {retry_after:?}"),
        Outcome::Rejected { reason, .. } => format!("rejected {reason:?}"),
        Outcome::Misconfigured { .. } => "misconfigured".to_owned(),
    }
}

/// A client that gives a local server all the time it may need.
pub(super) fn client() -> Client {
    client_with_timeout(PATIENCE)
}

pub(super) fn client_with_timeout(timeout: Duration) -> Client {
    let proxy = None;
    Client::new(ClientSettings { timeout, proxy }).unwrap()
}

pub(super) fn mock() -> RunningMock {
    Mock::start(free_port()).unwrap()
}

fn free_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// An address where nobody listens.
pub(super) async fn refusing() -> Url {
    let listener = TcpListener::bind(free_port()).await.unwrap();
    url(&listener)
}

fn url(listener: &TcpListener) -> Url {
    let addr = listener.local_addr().unwrap();
    Url::parse(&format!("http://{addr}/secret-path")).unwrap()
}

/// A server that gives every request the same bytes.
pub(super) struct RawServer {
    pub(super) url: Url,
    pub(super) requests: mpsc::UnboundedReceiver<String>,
    connections: Arc<AtomicUsize>,
}

impl RawServer {
    /// Answers with these bytes, and closes the connection after them if `close`.
    pub(super) async fn start(answer: Vec<u8>, close: bool) -> Self {
        let listener = TcpListener::bind(free_port()).await.unwrap();
        let url = url(&listener);
        let (seen, requests) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&answer), close, seen.clone()));
            }
        });
        Self {
            url,
            requests,
            connections,
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: Arc<Vec<u8>>,
    close: bool,
    seen: mpsc::UnboundedSender<String>,
) {
    while let Some(request) = read_request(&mut stream).await {
        // The test may be past caring, and the client past reading.
        let _seen = seen.send(request).is_ok();
        if stream.write_all(&answer).await.is_err() || close {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .map_or(0, |(_, length)| length.parse().unwrap());
        if body.len() >= length {
            return Some(text.into_owned());
        }
    }
}

/// An answer with a Content-Length; `head` is the status and further headers, a line each.
pub(super) fn answer(head: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = head.replace('\n', "\r\n");
    let length = body.len();
    let mut answer = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    answer.extend_from_slice(body);
    answer
}
