//! A line to a server that can be held and cut.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A TCP proxy; dropping it cuts every connection for good.
pub struct Wire {
    /// Where it listens.
    pub addr: SocketAddr,
    held: watch::Sender<bool>,
    cuts: watch::Sender<()>,
    taken: watch::Receiver<usize>,
    listening: JoinHandle<()>,
}

impl Wire {
    /// A line to the server at `target`, on a free port.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (held, _) = watch::channel(false);
        let (cuts, _) = watch::channel(());
        let (count, taken) = watch::channel(0);
        let (hold, cut) = (held.clone(), cuts.clone());
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.send_modify(|taken| *taken += 1);
                let (mut hold, cut) = (hold.subscribe(), cut.subscribe());
                tokio::spawn(async move {
                    if hold.wait_for(|held| !held).await.is_ok() {
                        carry(client, target, cut).await;
                    }
                });
            }
        });
        Self {
            addr,
            held,
            cuts,
            taken,
            listening,
        }
    }

    /// While it is held, new connections are taken and nothing passes over them.
    pub fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }

    /// Waits until it has taken so many connections; false after `within`.
    pub async fn has_taken(&self, connections: usize, within: Duration) -> bool {
        let mut taken = self.taken.clone();
        let enough = taken.wait_for(|taken| *taken >= connections);
        timeout(within, enough)
            .await
            .is_ok_and(|enough| enough.is_ok())
    }

    /// Resets every connection that there is; new ones pass.
    pub fn cut(&self) {
        self.cuts.send_replace(());
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.listening.abort();
        self.cut();
    }
}

async fn carry(mut client: TcpStream, target: SocketAddr, mut cut: watch::Receiver<()>) {
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = cut.changed() => client.set_zero_linger().unwrap(),
    }
}
