use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::commits::{Conversation, Reply};
use super::wire::{Message, Messages, NotThisProtocol};
use super::{Protocol, Proxy};

/// Long enough for anything that comes at all.
const SOON: Duration = Duration::from_secs(5);

/// How long silence is listened to.
const SILENCE: Duration = Duration::from_millis(100);

fn framed(kind: u8, body: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(kind);
    bytes.put_u32(u32::try_from(body.len()).unwrap() + 4);
    bytes.put_slice(body);
    bytes.freeze()
}

fn message(kind: u8, body: &[u8]) -> Message {
    Message {
        kind: Some(kind),
        bytes: framed(kind, body),
    }
}

fn opening(code: u32) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u32(8);
    bytes.put_u32(code);
    bytes.freeze()
}

/// Everything that is in these bytes when they come a piece at a time.
fn taken(mut messages: Messages, stream: &[u8], piece: usize) -> Vec<Message> {
    let mut found = Vec::new();
    for piece in stream.chunks(piece) {
        messages.buffer().extend_from_slice(piece);
        while let Some(message) = messages.take().unwrap() {
            found.push(message);
        }
    }
    found
}

#[test]
fn messages_are_whole_however_the_bytes_come() {
    let stream = [
        opening(80_877_103),
        opening(196_608),
        framed(b'Q', b"COMMIT\0"),
        framed(b'S', b""),
    ]
    .concat();
    for piece in 1..=stream.len() {
        let found = taken(Messages::of_client(), &stream, piece);
        let kinds: Vec<_> = found.iter().map(|message| message.kind).collect();
        assert_eq!(kinds, [None, None, Some(b'Q'), Some(b'S')], "{piece}");
        assert!(found[0].asks_for_encryption() && !found[1].asks_for_encryption());
        assert_eq!(found[2].body(), b"COMMIT\0");
        let again: Vec<u8> = found.iter().flat_map(|m| m.bytes.to_vec()).collect();
        assert_eq!(again, stream);
    }
}

#[test]
fn a_length_that_cannot_be_is_an_error() {
    let mut messages = Messages::of_server();
    messages.buffer().extend_from_slice(&[b'Z', 0, 0, 0, 3]);
    assert_eq!(messages.take(), Err(NotThisProtocol(3)));
}

/// A client that asks in one exchange for a prepared statement with this text.
fn asks(conversation: &mut Conversation, name: &str, sql: Option<&str>) {
    if let Some(sql) = sql {
        conversation.client(&message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes()));
    }
    conversation.client(&message(b'B', format!("\0{name}\0\0\0\0\0\0\0").as_bytes()));
    conversation.client(&message(b'E', b"\0\0\0\0\0"));
    conversation.client(&message(b'S', b""));
}

/// What becomes of the last of these replies; none before it may tell of a commit.
fn last(conversation: &mut Conversation, replies: &[(u8, &[u8])]) -> Reply {
    let mut last = Reply::Wait;
    for (kind, body) in replies {
        assert!(!matches!(last, Reply::Committed { .. }), "too early");
        last = conversation.server(message(*kind, body));
    }
    last
}

/// Whether the last of these replies tells of a commit.
fn tells(conversation: &mut Conversation, replies: &[(u8, &[u8])]) -> bool {
    matches!(last(conversation, replies), Reply::Committed { .. })
}

#[test]
fn a_change_outside_a_transaction_is_committed_once_the_server_is_idle() {
    let record = "WITH recorded AS (INSERT INTO payments …) SELECT id FROM recorded";
    let mut conversation = Conversation::default();
    asks(&mut conversation, "s0", Some(record));
    let reply = last(
        &mut conversation,
        &[
            (b'2', b""),
            (b'D', b"row"),
            (b'C', b"SELECT 1\0"),
            (b'Z', b"I"),
        ],
    );
    // The reply and the end of the exchange go together or not at all.
    let expected = [framed(b'C', b"SELECT 1\0"), framed(b'Z', b"I")].concat();
    let bytes = expected.into();
    assert_eq!(
        reply,
        Reply::Committed {
            bytes,
            claim: false
        }
    );
    // The statement is known by its name the next time.
    asks(&mut conversation, "s0", None);
    assert!(tells(
        &mut conversation,
        &[(b'C', b"SELECT 2\0"), (b'Z', b"I")]
    ));
}

#[test]
fn what_changes_nothing_tells_of_no_commit() {
    for (sql, tag) in [
        ("SELECT id FROM outbox", "SELECT 3\0"),
        ("SELECT id FROM outbox FOR UPDATE SKIP LOCKED", "SELECT 3\0"),
        ("UPDATE outbox SET epoch = 1", "UPDATE 0\0"),
        ("SET lock_timeout = 1", "SET\0"),
    ] {
        let mut conversation = Conversation::default();
        asks(&mut conversation, "", Some(sql));
        let replies: &[(u8, &[u8])] = &[(b'C', tag.as_bytes()), (b'Z', b"I")];
        assert!(!tells(&mut conversation, replies), "{sql}");
    }
}

#[test]
fn a_change_that_fails_at_its_end_is_no_commit() {
    let mut conversation = Conversation::default();
    asks(&mut conversation, "", Some("DELETE FROM outbox"));
    let replies: &[(u8, &[u8])] = &[
        (b'C', b"DELETE 1\0"),
        (b'E', b"serialization"),
        (b'Z', b"I"),
    ];
    assert!(!tells(&mut conversation, replies));
}

#[test]
fn a_transaction_is_committed_by_its_commit_alone() {
    let mut conversation = Conversation::default();
    conversation.client(&message(b'Q', b"BEGIN\0"));
    assert!(!tells(
        &mut conversation,
        &[(b'C', b"BEGIN\0"), (b'Z', b"T")]
    ));
    asks(&mut conversation, "s1", Some("UPDATE outbox SET epoch = 2"));
    assert!(!tells(
        &mut conversation,
        &[(b'C', b"UPDATE 1\0"), (b'Z', b"T")]
    ));
    conversation.client(&message(b'Q', b"COMMIT\0"));
    assert!(tells(
        &mut conversation,
        &[(b'C', b"COMMIT\0"), (b'Z', b"I")]
    ));
    conversation.client(&message(b'Q', b"COMMIT\0"));
    let failed: &[(u8, &[u8])] = &[(b'C', b"ROLLBACK\0"), (b'Z', b"I")];
    assert!(!tells(&mut conversation, failed));
}

#[test]
fn exchanges_asked_ahead_are_told_apart() {
    let mut conversation = Conversation::default();
    asks(&mut conversation, "a", Some("SELECT 1"));
    asks(&mut conversation, "b", Some("INSERT INTO t VALUES (1)"));
    assert!(!tells(
        &mut conversation,
        &[(b'C', b"SELECT 1\0"), (b'Z', b"I")]
    ));
    assert!(tells(
        &mut conversation,
        &[(b'C', b"INSERT 0 1\0"), (b'Z', b"I")]
    ));
}

/// A proxy before a listener of ours, and a conversation that is open on both sides.
struct Line {
    proxy: Proxy,
    listener: TcpListener,
    client: TcpStream,
    server: TcpStream,
}

impl Line {
    async fn open() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap(), Protocol::Postgres)
            .await
            .unwrap();
        let mut client = TcpStream::connect(proxy.addr).await.unwrap();
        client.write_all(&opening(196_608)).await.unwrap();
        let (mut server, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
        assert_eq!(read(&mut server, 8).await, opening(196_608));
        Self {
            proxy,
            listener,
            client,
            server,
        }
    }

    /// The client asks, the server hears it and says that it did so.
    async fn insert(&mut self) {
        let query = framed(b'Q', b"INSERT INTO t VALUES (1)\0");
        self.client.write_all(&query).await.unwrap();
        assert_eq!(read(&mut self.server, query.len()).await, query);
        self.server.write_all(&Self::inserted()).await.unwrap();
    }

    fn inserted() -> Vec<u8> {
        [framed(b'C', b"INSERT 0 1\0"), framed(b'Z', b"I")].concat()
    }
}

async fn read(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let all = timeout(SOON, stream.read_exact(&mut bytes)).await.unwrap();
    all.unwrap();
    bytes
}

/// Connects as soon as it listens.
async fn connected(proxy: &Proxy) -> TcpStream {
    let connected = async {
        loop {
            match TcpStream::connect(proxy.addr).await {
                Ok(stream) => return stream,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    timeout(SOON, connected).await.unwrap()
}

async fn is_reset(stream: &mut TcpStream) -> bool {
    let end = timeout(SOON, stream.read_u8()).await.unwrap();
    end.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}

#[tokio::test]
async fn only_so_many_commits_are_forgotten() {
    let mut line = Line::open().await;
    line.insert().await;
    assert_eq!(
        read(&mut line.client, Line::inserted().len()).await,
        Line::inserted()
    );
    line.proxy.forget_commits(1);
    line.insert().await;
    assert!(is_reset(&mut line.client).await, "it was told");
    assert_eq!(line.proxy.forgotten(), 1);
    let mut next = TcpStream::connect(line.proxy.addr).await.unwrap();
    next.write_all(&opening(196_608)).await.unwrap();
    let (server, _) = timeout(SOON, line.listener.accept())
        .await
        .unwrap()
        .unwrap();
    (line.client, line.server) = (next, server);
    read(&mut line.server, 8).await;
    line.insert().await;
    assert_eq!(
        read(&mut line.client, Line::inserted().len()).await,
        Line::inserted()
    );
}

#[tokio::test]
async fn a_cut_resets_both_sides_and_lets_new_connections_through() {
    let mut line = Line::open().await;
    line.proxy.cut();
    assert!(is_reset(&mut line.client).await && is_reset(&mut line.server).await);
    let mut next = TcpStream::connect(line.proxy.addr).await.unwrap();
    next.write_all(&opening(196_608)).await.unwrap();
    timeout(SOON, line.listener.accept())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn connections_are_refused_until_it_passes_again() {
    let mut line = Line::open().await;
    line.proxy.refuse();
    assert!(is_reset(&mut line.client).await);
    // The port closes a moment later; a connection made until then is reset.
    let refused = async {
        while let Ok(mut early) = TcpStream::connect(line.proxy.addr).await {
            assert!(is_reset(&mut early).await);
        }
    };
    timeout(SOON, refused).await.unwrap();
    line.proxy.pass();
    let mut next = connected(&line.proxy).await;
    next.write_all(&opening(196_608)).await.unwrap();
    timeout(SOON, line.listener.accept())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_stall_holds_both_directions_and_loses_nothing() {
    let mut line = Line::open().await;
    line.proxy.stall();
    let (question, answer) = (framed(b'Q', b"SELECT 1\0"), framed(b'C', b"SELECT 1\0"));
    line.client.write_all(&question).await.unwrap();
    line.server.write_all(&answer).await.unwrap();
    let heard = timeout(SILENCE, line.server.read_u8()).await;
    let told = timeout(SILENCE, line.client.read_u8()).await;
    assert!(heard.is_err() && told.is_err(), "something came through");
    line.proxy.pass();
    assert_eq!(read(&mut line.server, question.len()).await, question);
    assert_eq!(read(&mut line.client, answer.len()).await, answer);
}

#[tokio::test]
async fn encryption_is_declined_in_the_servers_place() {
    let line = Line::open().await;
    let mut client = TcpStream::connect(line.proxy.addr).await.unwrap();
    client.write_all(&opening(80_877_103)).await.unwrap();
    assert_eq!(read(&mut client, 1).await, b"N");
    client.write_all(&opening(196_608)).await.unwrap();
    let (mut server, _) = timeout(SOON, line.listener.accept())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read(&mut server, 8).await, opening(196_608));
}

#[tokio::test]
async fn it_stalls_at_the_reply_to_a_claim_alone() {
    let mut line = Line::open().await;
    line.proxy.stall_at_claim();
    line.insert().await;
    let inserted = Line::inserted();
    assert_eq!(read(&mut line.client, inserted.len()).await, inserted);
    let claim = framed(
        b'Q',
        b"WITH due AS (SELECT FOR UPDATE SKIP LOCKED) UPDATE outbox\0",
    );
    line.client.write_all(&claim).await.unwrap();
    read(&mut line.server, claim.len()).await;
    let claimed = [framed(b'C', b"UPDATE 3\0"), framed(b'Z', b"I")].concat();
    line.server.write_all(&claimed).await.unwrap();
    assert!(line.proxy.until_stalled(SOON).await);
    assert!(
        timeout(SILENCE, line.client.read_u8()).await.is_err(),
        "it was told"
    );
    line.proxy.pass();
    assert_eq!(read(&mut line.client, claimed.len()).await, claimed);
}

#[tokio::test]
async fn another_protocol_goes_through_as_it_is() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let upstream = listener.local_addr().unwrap();
    let proxy = Proxy::start(upstream, Protocol::Any).await.unwrap();
    let mut client = TcpStream::connect(proxy.addr).await.unwrap();
    client.write_all(b"GET / HTTP/1.1").await.unwrap();
    let (mut server, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    assert_eq!(read(&mut server, 14).await, b"GET / HTTP/1.1");
    proxy.stall();
    server.write_all(b"HTTP/1.1 204").await.unwrap();
    assert!(
        timeout(SILENCE, client.read_u8()).await.is_err(),
        "it came through"
    );
    proxy.pass();
    assert_eq!(read(&mut client, 12).await, b"HTTP/1.1 204");
}
