//! One connection through the proxy, and its two directions.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;

use super::commits::{Conversation, Reply};
use super::wire::Messages;
use super::{Line, Protocol, Shared, Traffic};

/// "No": a server's whole answer to a client that asks for encryption.
const NO_ENCRYPTION: &[u8] = b"N";

/// Carries one connection until either side ends it or the line is cut.
pub async fn connection(mut client: TcpStream, shared: Arc<Shared>) {
    let mut line = shared.line.subscribe();
    let born = *line.borrow_and_update();
    let cut = async {
        // It fails only when the proxy is gone.
        let _gone = line.wait_for(|line| line.cuts != born.cuts).await.is_err();
    };
    let server = if born.traffic == Traffic::Refuse {
        None
    } else {
        TcpStream::connect(shared.upstream).await.ok()
    };
    if let Some(mut server) = server {
        let _undelayed = (client.set_nodelay(true), server.set_nodelay(true));
        let ended = tokio::select! {
            ended = carry(&mut client, &mut server, &shared) => ended,
            () = cut => Err(io::ErrorKind::ConnectionReset.into()),
        };
        if ended.is_ok() {
            return;
        }
        reset(&server);
    }
    reset(&client);
}

/// Closing then says RST.
fn reset(stream: &TcpStream) {
    // It fails on a closed socket, which needs no reset.
    let _closed = stream.set_zero_linger().is_err();
}

async fn carry(client: &mut TcpStream, server: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    if shared.protocol == Protocol::Any {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        return tokio::select! {
            ended = bytes(from_client, to_server, shared) => ended,
            ended = bytes(from_server, to_client, shared) => ended,
        };
    }
    let conversation = Mutex::new(Conversation::default());
    let mut asked = Messages::of_client();
    open(client, server, &mut asked, shared).await?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::select! {
        ended = requests(from_client, to_server, asked, shared, &conversation) => ended,
        ended = replies(from_server, to_client, shared, &conversation) => ended,
    }
}

async fn bytes(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, shared: &Shared) -> io::Result<()> {
    let mut line = shared.line.subscribe();
    let mut read = BytesMut::new();
    while from.read_buf(&mut read).await? > 0 {
        moving(&mut line).await;
        to.write_all(&read.split()).await?;
    }
    Ok(())
}

/// Carries the packet that opens the conversation; one that asks for encryption comes before it.
async fn open(
    client: &mut TcpStream,
    server: &mut TcpStream,
    asked: &mut Messages,
    shared: &Shared,
) -> io::Result<()> {
    let mut line = shared.line.subscribe();
    loop {
        match asked.take().map_err(io::Error::other)? {
            Some(message) if message.asks_for_encryption() => {
                client.write_all(NO_ENCRYPTION).await?;
            }
            Some(message) => return server.write_all(&message.bytes).await,
            None if client.read_buf(asked.buffer()).await? > 0 => moving(&mut line).await,
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

async fn requests(
    mut client: ReadHalf<'_>,
    mut server: WriteHalf<'_>,
    mut messages: Messages,
    shared: &Shared,
    conversation: &Mutex<Conversation>,
) -> io::Result<()> {
    let mut line = shared.line.subscribe();
    loop {
        while let Some(message) = messages.take().map_err(io::Error::other)? {
            lock(conversation).client(&message);
            server.write_all(&message.bytes).await?;
        }
        if client.read_buf(messages.buffer()).await? == 0 {
            return Ok(());
        }
        moving(&mut line).await;
    }
}

async fn replies(
    mut server: ReadHalf<'_>,
    mut client: WriteHalf<'_>,
    shared: &Shared,
    conversation: &Mutex<Conversation>,
) -> io::Result<()> {
    let mut messages = Messages::of_server();
    let mut line = shared.line.subscribe();
    while server.read_buf(messages.buffer()).await? > 0 {
        moving(&mut line).await;
        while let Some(message) = messages.take().map_err(io::Error::other)? {
            let reply = lock(conversation).server(message);
            match reply {
                Reply::Wait => {}
                Reply::Pass(bytes) => client.write_all(&bytes).await?,
                Reply::Committed { .. } if shared.forgets() => {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                Reply::Committed { bytes, claim } => {
                    if claim && shared.stalls_at_claim.swap(false, Ordering::Relaxed) {
                        shared.set(Traffic::Stall);
                        moving(&mut line).await;
                    }
                    client.write_all(&bytes).await?;
                }
            }
        }
    }
    Ok(())
}

/// Waits while the line is stalled.
async fn moving(line: &mut watch::Receiver<Line>) {
    let _gone = line
        .wait_for(|line| line.traffic != Traffic::Stall)
        .await
        .is_err();
}

fn lock(conversation: &Mutex<Conversation>) -> MutexGuard<'_, Conversation> {
    conversation.lock().unwrap_or_else(PoisonError::into_inner)
}
