//! A line to a server that can be cut.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A TCP proxy; dropping it cuts every connection for good.
pub struct Wire {
    /// Where it listens.
    pub addr: SocketAddr,
    cuts: watch::Sender<()>,
    listening: JoinHandle<()>,
}

impl Wire {
    /// A line to the server at `target`, on a free port.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (cuts, _) = watch::channel(());
        let cut = cuts.clone();
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, target, cut.subscribe()));
            }
        });
        Self {
            addr,
            cuts,
            listening,
        }
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
