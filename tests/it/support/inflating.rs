//! A provider that speaks several dialects well enough, and answers with 1 GB in a few packed
//! megabytes when it is told to.

use std::collections::HashMap;
use std::sync::Arc;

use paybell::provider::mock::Target;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use uuid::Uuid;

/// What a spoilt target's body inflates to.
const INFLATED_BYTES: usize = 1 << 30;

/// The server. Its connections end when the client leaves.
pub struct Inflating {
    /// `http://…/` of every provider in it.
    pub base: String,
    spoilt: watch::Sender<HashMap<Target, Spoilt>>,
}

/// How a target is spoilt.
#[derive(Clone, Copy)]
struct Spoilt {
    /// No answer before so many requests are there.
    together: usize,
    came: usize,
}

impl Inflating {
    /// Starts it on a free port; it answers well.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        let (spoilt, _) = watch::channel(HashMap::new());
        let shared = spoilt.clone();
        let bomb: Arc<[u8]> = bomb(INFLATED_BYTES).into();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone(), Arc::clone(&bomb)));
            }
        });
        Self { base, spoilt }
    }

    /// From now on the answers inflate; the first `together` are sent when all are asked for.
    pub fn spoil(&self, target: Target, together: usize) {
        let spoilt = Spoilt { together, came: 0 };
        self.spoilt.send_modify(|all| {
            all.insert(target, spoilt);
        });
    }

    /// Ends [`Self::spoil`].
    pub fn heal(&self, target: Target) {
        self.spoilt.send_modify(|all| {
            all.remove(&target);
        });
    }

    /// Waits until so many requests came since [`Self::spoil`].
    pub async fn was_asked(&self, target: Target, n: usize) {
        let came = |all: &HashMap<Target, Spoilt>| all[&target].came >= n;
        drop(self.spoilt.subscribe().wait_for(came).await.unwrap());
    }
}

async fn serve(stream: TcpStream, spoilt: watch::Sender<HashMap<Target, Spoilt>>, bomb: Arc<[u8]>) {
    let mut stream = BufReader::new(stream);
    while let Some(target) = request(&mut stream).await {
        spoilt.send_modify(|all| {
            if let Some(spoilt) = all.get_mut(&target) {
                spoilt.came += 1;
            }
        });
        let is_spoilt = spoilt.borrow().contains_key(&target);
        let written = if is_spoilt {
            let all_there = |all: &HashMap<Target, Spoilt>| {
                all.get(&target)
                    .is_none_or(|spoilt| spoilt.came >= spoilt.together)
            };
            drop(spoilt.subscribe().wait_for(all_there).await.unwrap());
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                        Content-Encoding: gzip\r\n";
            write(&mut stream, head, &bomb).await
        } else {
            write(&mut stream, "HTTP/1.1 201 Created\r\n", well().as_bytes()).await
        };
        // A client that has read enough leaves.
        if written.is_err() {
            return;
        }
    }
}

/// Reads a request; `None` at the end of the connection.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<Target> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let target = match line.split_once(' ')? {
        (_, path) if path.starts_with("/token ") => Target::Token,
        (_, path) if path.starts_with("/v1/projects/") => Target::Fcm,
        ("GET", _) => Target::SmsLookup,
        _ => Target::Sms,
    };
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap();
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(target)
}

async fn write(stream: &mut BufReader<TcpStream>, head: &str, body: &[u8]) -> std::io::Result<()> {
    let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await
}

/// An acceptance in the words of the generic gateway, Twilio and FCM, an empty list of Twilio's and a
/// grant of Google's.
fn well() -> String {
    let id = Uuid::new_v4();
    json!({
        "message_id": id,
        "sid": id,
        "messages": [],
        "name": format!("projects/demo-project/messages/{id}"),
        "access_token": id,
        // Over before the next request of a test, so that there is always a next one to answer.
        "expires_in": 1,
        "token_type": "Bearer",
    })
    .to_string()
}

/// A gzip stream that inflates to so many bytes: one zero, and then the longest copies of what came
/// before that fixed Huffman codes can say.
fn bomb(inflated: usize) -> Vec<u8> {
    const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    // Least significant bit first: the final block, in fixed codes, and the literal 0.
    const START: &str = "110" /* 1, then 01 */;
    const LITERAL_ZERO: &str = "00110000";
    // Length 258 and distance 1; and eight of them, which end where a byte ends.
    const COPY_258: &str = "1100010100000";
    let copies = COPY_258.repeat(8);
    let mut packed: Vec<u8> = HEADER.into();
    // The first copies fill up the byte in which the start ends.
    let start = format!("{START}{LITERAL_ZERO}{copies}");
    let phase = start.len() % 8;
    packed.extend(bytes(&start[..start.len() - phase]));
    let again = format!("{}{}", &start[start.len() - phase..], copies);
    let again: Vec<u8> = bytes(&again[..copies.len()]).collect();
    for _ in 1..inflated.div_ceil(8 * 258) {
        packed.extend_from_slice(&again);
    }
    packed
}

fn bytes(bits: &str) -> impl Iterator<Item = u8> {
    bits.as_bytes().chunks(8).map(|chunk| {
        let set = chunk.iter().enumerate().filter(|(_, bit)| **bit == b'1');
        set.fold(0, |byte, (place, _)| byte | (1 << place))
    })
}
