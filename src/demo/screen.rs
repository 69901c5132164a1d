//! What the demo prints.

use std::io;
use std::time::Instant;

use tokio::sync::{Mutex, MutexGuard};

use super::Stage;
use crate::terminal::print;

/// Standard output, with a clock.
pub struct Screen {
    started: Instant,
    turn: Mutex<()>,
}

impl Screen {
    /// Starts the clock.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            turn: Mutex::default(),
        }
    }

    /// Held from a question to the service until its answer is printed, so that nothing is told of a
    /// payment before the payment itself.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// What is running where.
    pub fn opening(&self, stage: &Stage) -> io::Result<()> {
        print(&format!(
            "Paybell demo: payments come in over HTTP, their SMS and push notifications arrive.\n\n\
             \x20 database   {} (embedded SQLite)\n\
             \x20 providers  mock SMS gateway ({}) and mock FCM on {}\n\
             \x20 server     {}\n\n\
             Four payments are posted; the SMS gateway refuses the one of unlucky-1 twice before it \
             takes it.\nAmounts are in the currency's minor unit.\n\n",
            stage.database.display(),
            stage.sms.name(),
            trimmed(&stage.mock.base_url()),
            trimmed(&stage.server),
        ))
    }

    /// One event, with the seconds since the start.
    pub fn event(&self, text: &str) -> io::Result<()> {
        let seconds = self.started.elapsed().as_secs_f64();
        print(&format!("{seconds:>8.3} s  {text}\n"))
    }

    /// How to go on.
    pub fn closing(&self, stage: &Stage, notifications: usize, exit: bool) -> io::Result<()> {
        print(&format!("\nAll {notifications} notifications are SENT.\n"))?;
        if exit {
            return Ok(());
        }
        let server = trimmed(&stage.server);
        print(&format!(
            "\nThe service keeps running. Admin token: {token}\n\n\
             Post another payment; what becomes of it is told here:\n\
             \x20 curl -s {server}/payments -H 'Content-Type: application/json' -d \
             '{{\"order_id\":\"mine-1\",\"amount\":15000,\"currency\":\"KRW\",\"notifications\":\
             [{{\"channel\":\"sms\",\"to\":\"010-1234-5678\"}}]}}'\n\
             Look into the outbox:\n\
             \x20 curl -s {server}/admin/outbox -H 'Authorization: Bearer {token}'\n\
             See what arrived at the providers:\n\
             \x20 curl -s {mock}/mock/messages\n\n\
             Ctrl-C stops it.\n\n",
            token = stage.admin_token,
            mock = trimmed(&stage.mock.base_url()),
        ))
    }
}

fn trimmed(url: &url::Url) -> &str {
    url.as_str().trim_end_matches('/')
}
