//! A TCP proxy before PostgreSQL that cuts, stalls, refuses, and forgets to say what was committed.

mod commits;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use commits::{Conversation, Reply};
use wire::Messages;

/// "No": a server's whole answer to a client that asks for encryption.
const NO_ENCRYPTION: &[u8] = b"N";

/// A running proxy; dropping it ends it and every connection through it.
pub struct Proxy {
    /// Where it listens.
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

struct Shared {
    upstream: SocketAddr,
    line: watch::Sender<Line>,
    /// So many replies that tell of a commit are still to be dropped.
    forgetting: AtomicU32,
    forgotten: AtomicU64,
}

/// How the line is.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    traffic: Traffic,
    /// Connections made before the latest cut are gone.
    cuts: u64,
}

/// How traffic is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Traffic {
    #[default]
    Pass,
    /// Nothing goes through and nothing is lost; what has come in goes on later.
    Stall,
    /// New connections are reset at once.
    Refuse,
}

impl Proxy {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            line: watch::Sender::default(),
            forgetting: AtomicU32::new(0),
            forgotten: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self {
            addr,
            shared,
            accepting,
        })
    }

    /// Lets everything through again, and forgets nothing more.
    pub fn pass(&self) {
        self.shared.forgetting.store(0, Ordering::Relaxed);
        self.set(Traffic::Pass);
    }

    /// Resets every connection; new ones are let through.
    pub fn cut(&self) {
        self.shared.line.send_modify(|line| line.cuts += 1);
    }

    /// Resets every connection, and each new one too.
    pub fn refuse(&self) {
        self.set(Traffic::Refuse);
        self.cut();
    }

    /// Holds both directions, of new connections as well, until it is told otherwise.
    pub fn stall(&self) {
        self.set(Traffic::Stall);
    }

    /// Resets the connection instead of passing on the next `n` replies that tell of a commit.
    pub fn forget_commits(&self, n: u32) {
        self.shared.forgetting.fetch_add(n, Ordering::Relaxed);
    }

    /// How many such replies were dropped.
    pub fn forgotten(&self) -> u64 {
        self.shared.forgotten.load(Ordering::Relaxed)
    }

    fn set(&self, traffic: Traffic) {
        self.shared.line.send_modify(|line| line.traffic = traffic);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.refuse();
    }
}

impl Shared {
    /// Takes one of the replies that are to be dropped.
    fn forgets(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        let taken = self
            .forgetting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if taken.is_ok() {
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(connection(client, Arc::clone(&shared)));
    }
}

/// Carries one connection until either side ends it or the line is cut.
async fn connection(mut client: TcpStream, shared: Arc<Shared>) {
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
    let conversation = Mutex::new(Conversation::default());
    let mut asked = Messages::of_client();
    open(client, server, &mut asked).await?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::select! {
        ended = requests(from_client, to_server, asked, shared, &conversation) => ended,
        ended = replies(from_server, to_client, shared, &conversation) => ended,
    }
}

/// Carries the packet that opens the conversation; one that asks for encryption comes before it.
async fn open(
    client: &mut TcpStream,
    server: &mut TcpStream,
    asked: &mut Messages,
) -> io::Result<()> {
    loop {
        match asked.take().map_err(io::Error::other)? {
            Some(message) if message.asks_for_encryption() => {
                client.write_all(NO_ENCRYPTION).await?;
            }
            Some(message) => return server.write_all(&message.bytes).await,
            None if client.read_buf(asked.buffer()).await? > 0 => {}
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
    while client.read_buf(messages.buffer()).await? > 0 {
        moving(&mut line).await;
        while let Some(message) = messages.take().map_err(io::Error::other)? {
            lock(conversation).client(&message);
            server.write_all(&message.bytes).await?;
        }
    }
    Ok(())
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
                Reply::Committed(_) if shared.forgets() => {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                Reply::Pass(bytes) | Reply::Committed(bytes) => client.write_all(&bytes).await?,
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

fn lock(conversation: &Mutex<Conversation>) -> std::sync::MutexGuard<'_, Conversation> {
    conversation.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
