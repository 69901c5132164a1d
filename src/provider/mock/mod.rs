//! Mock providers: the real wire formats on one port, with faults on demand.
//!
//! What a real provider checks is checked, and nothing is ever removed as a duplicate: what
//! arrives twice is listed twice. Each dialect is a file beside this one and a line in `routes`.

mod behavior;
mod control;
pub mod credentials;
mod dialect;
mod fcm;
mod google;
mod reset;
mod sens;
mod sms;
mod solapi;
mod state;
mod twilio;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpServer, web};
use url::Url;

pub use behavior::{Behavior, Fault, InvalidBehavior, Target};
pub use state::Accepted;

use google::Google;
use state::State;

/// As common servers have it, and longer than the clients keep an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// Starts mock providers.
#[derive(Debug, Clone, Copy)]
pub struct Mock {
    workers: usize,
    google_auth: bool,
}

/// Mock providers that are running; dropping it stops them.
pub struct RunningMock {
    addr: SocketAddr,
    state: Arc<State>,
    google: Arc<Google>,
    server: ServerHandle,
}

impl Default for Mock {
    fn default() -> Self {
        Self {
            workers: 1,
            google_auth: false,
        }
    }
}

impl Mock {
    /// How many threads serve requests.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// FCM then takes only requests with an access token of the mock's own token endpoint. A token
    /// that comes unasked is checked in any case.
    pub fn with_google_auth(self) -> Self {
        Self {
            google_auth: true,
            ..self
        }
    }

    /// Starts with one thread on `bind`; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound, with the address.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(bind: SocketAddr) -> io::Result<RunningMock> {
        Self::default().run(bind)
    }

    /// Starts on `bind`; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound, with the address.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn run(self, bind: SocketAddr) -> io::Result<RunningMock> {
        let state = Arc::new(State::default());
        let google = Arc::new(Google::new(self.google_auth));
        let shared = (
            web::Data::from(Arc::clone(&state)),
            web::Data::from(Arc::clone(&google)),
        );
        let app = move || {
            App::new()
                .app_data(shared.0.clone())
                .app_data(shared.1.clone())
                .configure(routes)
        };
        let server = HttpServer::new(app)
            .on_connect(reset::remember)
            .workers(self.workers)
            .keep_alive(KEEP_ALIVE)
            // A client that has left is noticed at once, and nothing is stored for it.
            .h1_allow_half_closed(false)
            .disable_signals()
            .bind(bind)
            .map_err(|error| {
                io::Error::new(error.kind(), format!("cannot listen on {bind}: {error}"))
            })?;
        let addr = server.addrs().first().copied().unwrap_or(bind);
        let server = server.run();
        let handle = server.handle();
        tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::error!(%error, "the mock providers' server ended");
            }
        });
        Ok(RunningMock {
            addr,
            state,
            google,
            server: handle,
        })
    }
}

fn routes(config: &mut web::ServiceConfig) {
    // Before the control routes, whose scope takes everything else under `/mock`.
    config
        .configure(google::routes)
        .configure(control::routes)
        // Before the generic gateway, whose scope would swallow paths under /sms.
        .configure(sens::routes)
        .configure(solapi::routes)
        .configure(twilio::routes)
        .configure(sms::routes)
        .configure(fcm::routes);
}

impl RunningMock {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The base URL of FCM, Twilio, Solapi and SENS, and of the control routes under `/mock`.
    ///
    /// # Panics
    ///
    /// Never: an address always makes a URL.
    #[expect(clippy::expect_used, reason = "an http URL of a socket address parses")]
    pub fn base_url(&self) -> Url {
        Url::parse(&format!("http://{}", self.addr)).expect("an address makes a URL")
    }

    /// The base URL of the generic SMS gateway.
    pub fn sms_base_url(&self) -> Url {
        let mut url = self.base_url();
        url.set_path("/sms");
        url
    }

    /// The key file of a service account whose tokens come from this mock, as
    /// `GET /mock/service-account` gives it.
    pub fn service_account(&self) -> String {
        google::key_file(&self.addr.to_string()).to_string()
    }

    /// From now on FCM takes none of the access tokens that were given out.
    pub fn revoke_tokens(&self) {
        self.google.revoke_tokens();
    }

    /// What was accepted, oldest first.
    pub fn messages(&self) -> Vec<Arc<Accepted>> {
        self.state.messages(|_| true)
    }

    /// Forgets what was accepted.
    pub fn forget_messages(&self) {
        self.state.forget_messages();
    }

    /// How many requests of this kind came in that were well-formed, whatever became of them.
    pub fn requests(&self, target: Target) -> u64 {
        self.state.requests(target)
    }

    /// When the latest ten thousand of [`Self::requests`] came in, oldest first.
    pub fn request_times(&self, target: Target) -> Vec<Instant> {
        self.state.request_times(target)
    }

    /// Sets how a target behaves from now on, in place of an earlier behaviour for the same
    /// recipient.
    ///
    /// # Errors
    ///
    /// When the behaviour makes no sense for the target.
    pub fn set_behavior(&self, target: Target, behavior: Behavior) -> Result<(), InvalidBehavior> {
        behavior.check(target)?;
        self.state.set_behavior(target, behavior);
        Ok(())
    }

    /// Lets a target behave well again.
    pub fn clear_behavior(&self, target: Target) {
        self.state.clear_behavior(target);
    }

    /// Waits until at least `n` messages are there and returns all of them; `None` after `timeout`.
    pub async fn wait_for(&self, n: usize, timeout: Duration) -> Option<Vec<Arc<Accepted>>> {
        let enough = self.state.wait_until(|counts| counts.messages >= n);
        tokio::time::timeout(timeout, enough).await.ok()?;
        Some(self.messages())
    }

    /// Waits until at least `n` requests of this kind came in; false after `timeout`.
    pub async fn wait_for_requests(&self, target: Target, n: u64, timeout: Duration) -> bool {
        let enough = self.state.wait_until(|counts| counts.requests(target) >= n);
        tokio::time::timeout(timeout, enough).await.is_ok()
    }

    /// Closes the port and every connection.
    pub async fn stop(self) {
        self.server.stop(false).await;
    }
}

impl Drop for RunningMock {
    fn drop(&mut self) {
        // The command goes out when the future is made; nobody need wait for it.
        drop(self.server.stop(false));
    }
}

#[cfg(test)]
mod tests;
