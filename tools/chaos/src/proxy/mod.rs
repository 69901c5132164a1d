//! A TCP proxy that cuts, stalls and refuses; before PostgreSQL it also forgets to say what was
//! committed.

mod carry;
mod commits;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// A port may be taken: a start tries so many.
const PORTS: usize = 20;

/// Between two tries to listen again.
const RETRY: Duration = Duration::from_millis(10);

/// What is spoken through a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// PostgreSQL's, unencrypted.
    Postgres,
    /// Whatever it is.
    Any,
}

/// A running proxy; dropping it ends it and every connection through it.
pub struct Proxy {
    /// Where it listens.
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

struct Shared {
    upstream: SocketAddr,
    protocol: Protocol,
    line: watch::Sender<Line>,
    /// So many replies that tell of a commit are still to be dropped.
    forgetting: AtomicU32,
    forgotten: AtomicU64,
    stalls_at_claim: AtomicBool,
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
    /// Nobody listens.
    Refuse,
}

impl Proxy {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(upstream: SocketAddr, protocol: Protocol) -> io::Result<Self> {
        let listener = listen().await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            protocol,
            line: watch::Sender::default(),
            forgetting: AtomicU32::new(0),
            forgotten: AtomicU64::new(0),
            stalls_at_claim: AtomicBool::new(false),
        });
        let accepting = tokio::spawn(accept(listener, addr, Arc::clone(&shared))).abort_handle();
        Ok(Self {
            addr,
            shared,
            accepting,
        })
    }

    /// Lets everything through again, and forgets nothing more.
    pub fn pass(&self) {
        self.shared.forgetting.store(0, Ordering::Relaxed);
        self.shared.stalls_at_claim.store(false, Ordering::Relaxed);
        self.shared.set(Traffic::Pass);
    }

    /// Resets every connection; new ones are let through.
    pub fn cut(&self) {
        self.shared.line.send_modify(|line| line.cuts += 1);
    }

    /// Resets every connection, and refuses new ones.
    pub fn refuse(&self) {
        self.shared.set(Traffic::Refuse);
        self.cut();
    }

    /// Holds both directions, of new connections as well, until it is told otherwise.
    pub fn stall(&self) {
        self.shared.set(Traffic::Stall);
    }

    /// Stalls as soon as the server has claimed rows, before it can say so.
    pub fn stall_at_claim(&self) {
        self.shared.stalls_at_claim.store(true, Ordering::Relaxed);
    }

    /// Waits until it stalls; false after `within`.
    pub async fn until_stalled(&self, within: Duration) -> bool {
        let mut line = self.shared.line.subscribe();
        let stalled = line.wait_for(|line| line.traffic == Traffic::Stall);
        timeout(within, stalled).await.is_ok()
    }

    /// Resets the connection instead of passing on the next `n` replies that tell of a commit.
    pub fn forget_commits(&self, n: u32) {
        self.shared.forgetting.fetch_add(n, Ordering::Relaxed);
    }

    /// How many such replies were dropped.
    pub fn forgotten(&self) -> u64 {
        self.shared.forgotten.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.refuse();
    }
}

impl Shared {
    fn set(&self, traffic: Traffic) {
        self.line.send_modify(|line| line.traffic = traffic);
    }

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

/// Listens below the range of outgoing connections, one of which could have the port while it
/// refuses.
async fn listen() -> io::Result<TcpListener> {
    let mut listener = Err(io::ErrorKind::AddrInUse.into());
    for _ in 0..PORTS {
        listener = TcpListener::bind(("127.0.0.1", fastrand::u16(20_000..32_000))).await;
        if listener.is_ok() {
            break;
        }
    }
    listener
}

/// Accepts connections while it does not refuse them.
async fn accept(listener: TcpListener, addr: SocketAddr, shared: Arc<Shared>) {
    let mut line = shared.line.subscribe();
    let mut listening = Some(listener);
    loop {
        let Some(listener) = &listening else {
            if line
                .wait_for(|line| line.traffic != Traffic::Refuse)
                .await
                .is_err()
            {
                return;
            }
            listening = TcpListener::bind(addr).await.ok();
            if listening.is_none() {
                sleep(RETRY).await;
            }
            continue;
        };
        tokio::select! {
            accepted = listener.accept() => if let Ok((client, _)) = accepted {
                tokio::spawn(carry::connection(client, Arc::clone(&shared)));
            },
            _ = line.wait_for(|line| line.traffic == Traffic::Refuse) => listening = None,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
