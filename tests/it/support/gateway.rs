//! A generic SMS gateway of the barest kind: it keeps what it was sent, byte for byte, and closes
//! connections as it likes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What it does with a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Takes it.
    Accept,
    /// Answers with this status, and does not take it.
    Refuse(u16),
    /// Neither takes nor answers it.
    Hang,
}

/// A message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The header that names the message.
    pub key: String,
    pub body: Vec<u8>,
}

/// The server; it ends with this value.
pub struct Gateway {
    pub base: String,
    received: watch::Receiver<Vec<Received>>,
    /// How many connections it has closed.
    closed: watch::Receiver<usize>,
    serving: JoinHandle<()>,
}

struct State {
    answers: Vec<Answer>,
    idle: Duration,
    received: watch::Sender<Vec<Received>>,
    accepted: Mutex<Vec<String>>,
    closed: watch::Sender<usize>,
}

impl Gateway {
    /// Answers the messages in this order and accepts all that follow; a connection that says
    /// nothing for `idle` is closed.
    pub async fn start(answers: &[Answer], idle: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let (sender, received) = watch::channel(Vec::new());
        let (closings, closed) = watch::channel(0);
        let state = Arc::new(State {
            answers: answers.to_vec(),
            idle,
            received: sender,
            accepted: Mutex::default(),
            closed: closings,
        });
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Arc::clone(&state), BufReader::new(stream)));
            }
        });
        Self {
            base: format!("http://{address}"),
            received,
            closed,
            serving,
        }
    }

    /// Waits until so many messages came; returns all of them.
    pub async fn has_received(&self, messages: usize) -> Vec<Received> {
        let mut received = self.received.clone();
        let enough = received.wait_for(|all| all.len() >= messages);
        let all = timeout(Duration::from_secs(30), enough).await;
        all.expect("it receives too few").unwrap().clone()
    }

    /// Waits until it has closed so many connections.
    pub async fn has_closed(&self, connections: usize) {
        let mut closed = self.closed.clone();
        let enough = closed.wait_for(|closed| *closed >= connections);
        let enough = timeout(Duration::from_secs(30), enough).await;
        enough.expect("it closes too few").unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(state: Arc<State>, mut stream: BufReader<TcpStream>) {
    while let Ok(Some((head, body))) = timeout(state.idle, request(&mut stream)).await {
        let Some((status, answer)) = state.answer(&head, body) else {
            return std::future::pending().await;
        };
        let answer = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
    drop(stream);
    state.closed.send_modify(|closed| *closed += 1);
}

/// Head and body of the next request; `None` at the end of the connection.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, body))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

impl State {
    fn answer(&self, head: &str, body: Vec<u8>) -> Option<(u16, String)> {
        if let Some(path) = head.strip_prefix("GET ") {
            let key = path.split([' ', '/']).nth(2).unwrap_or_default();
            let known = self.accepted.lock().unwrap().iter().any(|one| one == key);
            return Some(match known {
                true => (200, format!("{{\"message_id\":\"m-{key}\"}}")),
                false => (404, "{}".to_owned()),
            });
        }
        let key = header(head, "idempotency-key").unwrap().to_owned();
        let n = self.received.borrow().len();
        let answer = self.answers.get(n).copied().unwrap_or(Answer::Accept);
        if answer == Answer::Accept {
            self.accepted.lock().unwrap().push(key.clone());
        }
        let message = format!("{{\"message_id\":\"m-{key}\"}}");
        self.received
            .send_modify(|all| all.push(Received { key, body }));
        match answer {
            Answer::Accept => Some((200, message)),
            Answer::Refuse(status) => Some((status, "{}".to_owned())),
            Answer::Hang => None,
        }
    }
}
