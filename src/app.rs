//! The composition root: what runs, in which order it starts, and in which order it stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::config::{Config, DatabaseConfig, FcmConfig, SmsConfig};
use crate::http::auth::{AdminToken, ApiKeys};
use crate::http::body::Limits;
use crate::http::{AppState, Server, bind};
use crate::metrics::Metrics;
use crate::outbox::{Providers, Running};
use crate::payment::Channel;
use crate::payment::request::Rules;
use crate::payment::sms_text::SmsText;
use crate::provider::Provider;
use crate::provider::client::{Client, ClientError, ClientSettings};
use crate::provider::fcm::{Fcm, FcmSettings};
use crate::provider::sms::http::HttpSms;
use crate::provider::sms::sens::Sens;
use crate::provider::sms::solapi::Solapi;
use crate::provider::sms::twilio::Twilio;
use crate::store::{Store, StoreError};

/// Of the grace, what is kept for the engine after the HTTP server has stopped.
const ENGINE_SHARE: Duration = Duration::from_secs(3);

/// Why the service could not run, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The database at start.
    #[error("cannot use the database {url}: {fault}; check DATABASE_URL and that it can be used")]
    Database {
        /// Which one, without its password.
        url: String,
        /// What is wrong.
        fault: StoreError,
    },
    /// A provider's client.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// The address, or the signals.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A part of the engine died.
    #[error("a part of the delivery engine died: see the log; a restart loses nothing")]
    Died,
    /// Not everything was written within the grace.
    #[error(
        "stopped before everything was written: the rows heal when their leases end, nothing is lost"
    )]
    Unclean,
}

/// The service, built and not yet answering.
pub struct Application {
    server: Server,
    running: Running,
    stopping: Arc<AtomicBool>,
    grace: Duration,
}

impl Application {
    /// Opens the database, brings its schema up to date, starts the engine and binds the server.
    ///
    /// # Errors
    /// When the database or the address cannot be had.
    pub async fn build(config: Config) -> Result<Self, AppError> {
        let (store, applied) = open_database(&config.database).await?;
        if !applied.is_empty() {
            info!(versions = %applied.join(", "), "migrations applied");
        }
        let metrics = Metrics::new();
        let providers = providers(&config)?;
        let channels: Vec<Channel> = providers.iter().map(|(channel, _)| *channel).collect();
        let sms_text = sms_text(&providers);
        for channel in Channel::ALL {
            if !channels.contains(&channel) {
                warn!(%channel, "this channel is not configured: its rows wait");
            }
        }
        let patience = config.database.timeout;
        let running = Running::start(&store, &config.outbox, patience, providers, &metrics);
        let stopping = Arc::new(AtomicBool::new(false));
        if config.http.admin_token.is_none() {
            warn!("ADMIN_TOKEN is not set: the admin routes do not exist");
        }
        let state = AppState {
            engine: running.engine(),
            store,
            metrics,
            rules: Rules {
                region: config.messages.region,
                default_locale: config.messages.locale,
                channels,
                sms_text,
            },
            api_keys: api_keys(&config),
            admin_token: config.http.admin_token.as_ref().map(AdminToken::new),
            limits: Limits::default(),
            stopping: Arc::clone(&stopping),
        };
        let grace = config.outbox.shutdown_grace;
        let http_grace = grace.saturating_sub(ENGINE_SHARE);
        let server = bind(config.http.bind, state, http_grace)?;
        info!(address = %server.addr, "listening");
        Ok(Self {
            server,
            running,
            stopping,
            grace,
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.server.addr
    }

    /// Answers until `stop` resolves, then stops in order.
    ///
    /// # Errors
    /// When a part died, or not everything was written within the grace.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), AppError> {
        let handle = self.server.handle();
        let mut server = Box::pin(self.server.run());
        let died = tokio::select! {
            () = stop => false,
            () = self.running.died() => true,
            ended = &mut server => {
                error!(?ended, "the HTTP server ended by itself");
                true
            }
        };
        let deadline = Instant::now() + self.grace;
        info!(grace_seconds = self.grace.as_secs(), "stopping");
        self.stopping.store(true, Ordering::Relaxed);
        let http = async {
            handle.stop(true).await;
        };
        let answered = async {
            // The server itself must be polled for its workers to stop.
            tokio::select! {
                () = http => {}
                _ = &mut server => {}
            }
        };
        if tokio::time::timeout_at(deadline, answered).await.is_err() {
            warn!("requests were still open at the end of the grace");
        }
        drop(server);
        let clean = self.running.shut_down(deadline).await;
        info!(clean, "stopped");
        match (died, clean) {
            (true, _) => Err(AppError::Died),
            (false, false) => Err(AppError::Unclean),
            (false, true) => Ok(()),
        }
    }
}

/// Opens the database and brings its schema up to date; returns the versions applied, too.
///
/// # Errors
/// When it cannot be used.
pub async fn open_database(config: &DatabaseConfig) -> Result<(Store, Vec<String>), AppError> {
    let opened = async {
        let store = Store::open(config).await?;
        let applied = store.migrate().await?;
        Ok((store, applied))
    };
    opened.await.map_err(|fault| AppError::Database {
        url: config.url.to_string(),
        fault,
    })
}

/// Resolves at the first SIGINT or SIGTERM. A second one ends the process at once: the leases heal
/// what was under way.
///
/// # Errors
/// When the operating system grants no signal handlers.
pub fn signals() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        either(&mut terminate, &mut interrupt).await;
        tokio::spawn(async move {
            either(&mut terminate, &mut interrupt).await;
            warn!("second signal: ending at once");
            std::process::exit(1);
        });
    })
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

fn api_keys(config: &Config) -> ApiKeys {
    let keys: Vec<_> = config
        .http
        .api_keys
        .iter()
        .map(|key| (key.name.clone(), key.key.clone()))
        .collect();
    ApiKeys::new(&keys)
}

/// One line a provider.
fn providers(config: &Config) -> Result<Providers, AppError> {
    let mut providers = Providers::new();
    if let Some(sms) = &config.sms {
        providers.push((Channel::Sms, sms_provider(sms.clone(), client(config)?)));
    }
    if let Some(FcmConfig {
        base_url,
        project_id,
        account,
    }) = &config.fcm
    {
        let settings = FcmSettings {
            base_url: base_url.clone(),
            project_id: project_id.clone(),
            account: account.clone(),
        };
        providers.push((Channel::Fcm, Arc::new(Fcm::new(settings, client(config)?))));
    }
    Ok(providers)
}

/// What the provider of text messages can carry.
fn sms_text(providers: &Providers) -> SmsText {
    let mut all = providers.iter();
    all.find(|(channel, _)| *channel == Channel::Sms)
        .map(|(_, provider)| provider.sms_text())
        .unwrap_or_default()
}

fn sms_provider(config: SmsConfig, client: Client) -> Arc<dyn Provider> {
    match config {
        SmsConfig::Http(settings) => Arc::new(HttpSms::new(settings, client)),
        SmsConfig::Twilio(settings) => Arc::new(Twilio::new(settings, client)),
        SmsConfig::Solapi(settings) => Arc::new(Solapi::new(settings, client)),
        SmsConfig::Sens(settings) => Arc::new(Sens::new(settings, client)),
    }
}

/// Each provider has its own client, so that their connections are apart.
fn client(config: &Config) -> Result<Client, ClientError> {
    Client::new(ClientSettings {
        timeout: config.outbox.provider_timeout,
        proxy: config.proxy.as_ref().map(|proxy| proxy.url().clone()),
    })
}
