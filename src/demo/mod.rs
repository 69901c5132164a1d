//! `paybell demo`: the whole product on nothing, told as it happens.
//!
//! It uses the service as anybody would, over its HTTP API: what it prints is what a client and an
//! operator can see.

mod screen;
mod story;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;
use uuid::Uuid;

use crate::app::{AppError, Application, signals};
use crate::config::{Config, ConfigErrors, Env};
use crate::provider::client::ClientError;
use crate::provider::mock::{Mock, RunningMock, credentials};
use screen::Screen;
use watch::Watcher;

/// Options of `paybell demo`.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Keep the database in this folder instead of a temporary one
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address that the server listens on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub bind: SocketAddr,
    /// Dialect of the SMS gateway
    #[arg(long, value_enum, default_value_t = SmsDialect::Http)]
    pub sms: SmsDialect,
    /// Stop with 0 once all sample notifications are SENT, with 1 if they are not within 60 s
    #[arg(long)]
    pub exit: bool,
}

/// A dialect of SMS gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SmsDialect {
    /// The generic JSON gateway
    Http,
    /// Twilio Messages
    Twilio,
    /// Solapi
    Solapi,
    /// Naver Cloud SENS
    Sens,
}

impl SmsDialect {
    /// The settings that reach the mock in this dialect.
    fn settings(self, mock: &RunningMock) -> Vec<(&'static str, String)> {
        let base_url = match self {
            Self::Http => mock.sms_base_url(),
            Self::Twilio | Self::Solapi | Self::Sens => mock.base_url(),
        };
        let settings: &[(&str, &str)] = match self {
            Self::Http => &[("SMS_PROVIDER", "http")],
            Self::Twilio => &[
                ("SMS_PROVIDER", "twilio"),
                ("SMS_FROM", credentials::TWILIO_FROM),
                ("TWILIO_ACCOUNT_SID", credentials::TWILIO_ACCOUNT_SID),
                ("TWILIO_AUTH_TOKEN", credentials::TWILIO_AUTH_TOKEN),
            ],
            Self::Solapi => &[
                ("SMS_PROVIDER", "solapi"),
                ("SMS_FROM", credentials::KOREAN_FROM),
                ("SOLAPI_API_KEY", credentials::SOLAPI_API_KEY),
                ("SOLAPI_API_SECRET", credentials::SOLAPI_API_SECRET),
            ],
            Self::Sens => &[
                ("SMS_PROVIDER", "sens"),
                ("SMS_FROM", credentials::KOREAN_FROM),
                ("SENS_SERVICE_ID", credentials::SENS_SERVICE_ID),
                ("SENS_ACCESS_KEY", credentials::SENS_ACCESS_KEY),
                ("SENS_SECRET_KEY", credentials::SENS_SECRET_KEY),
            ],
        };
        let settings = settings
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        settings
            .chain([("SMS_BASE_URL", base_url.to_string())])
            .collect()
    }

    /// As it is called on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Twilio => "twilio",
            Self::Solapi => "solapi",
            Self::Sens => "sens",
        }
    }

    /// The status with which a gateway of this dialect says that it did not take the message.
    fn refusal(self) -> u16 {
        match self {
            Self::Http => 503,
            // Of a 503 they leave it open, and it would be asked about first.
            Self::Twilio | Self::Solapi | Self::Sens => 429,
        }
    }
}

/// All sample notifications are SENT within this time, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the demo could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The service did not start or end well.
    #[error("{0}")]
    App(#[from] AppError),
    /// The folder, the mock's port, the terminal or the signals.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server's address is taken.
    #[error("{0}: choose another with --bind, for example --bind 127.0.0.1:0 for a free port")]
    Bind(io::Error),
    /// The demo's own settings are wrong.
    #[error("the demo cannot be configured: {0}")]
    Config(ConfigErrors),
    /// The service answered something else than it promises.
    #[error("the demo was answered unexpectedly: {0}")]
    Answer(String),
    /// Not everything arrived.
    #[error("not all sample notifications were SENT within {} s", PATIENCE.as_secs())]
    Late,
}

impl From<ClientError> for DemoError {
    fn from(error: ClientError) -> Self {
        Self::App(error.into())
    }
}

impl From<reqwest::Error> for DemoError {
    fn from(error: reqwest::Error) -> Self {
        Self::Answer(error.to_string())
    }
}

/// Where everything of one demo is.
pub(crate) struct Stage {
    /// The service.
    pub server: Url,
    /// Opens its admin routes.
    pub admin_token: String,
    /// The mock providers.
    pub mock: RunningMock,
    /// Speaks HTTP to both.
    pub http: reqwest::Client,
    /// The database file.
    pub database: PathBuf,
    /// The dialect that the text messages are sent in.
    pub sms: SmsDialect,
}

/// Shows the demo.
///
/// # Errors
/// When something does not start, or not every sample notification is SENT in time.
pub async fn run(args: &DemoArgs) -> Result<(), DemoError> {
    let stop = signals()?;
    let temporary = match args.data {
        Some(_) => None,
        None => Some(TempDir::with_prefix("paybell-demo-")?),
    };
    let folder = match (&args.data, &temporary) {
        (Some(folder), _) => folder.clone(),
        (None, Some(temporary)) => temporary.path().to_owned(),
        (None, None) => std::env::temp_dir(),
    };
    std::fs::create_dir_all(&folder)?;
    let (stage, service) = set_up(args, folder.join("paybell.db")).await?;
    let stage = Arc::new(stage);
    let shown = tokio::select! {
        () = stop => Ok(()),
        shown = show(Arc::clone(&stage), args.exit) => shown,
    };
    service.stop.cancel();
    match service.task.await {
        Ok(ended) => ended?,
        Err(error) => return Err(DemoError::Answer(error.to_string())),
    }
    drop(temporary);
    shown
}

/// The running service.
struct Service {
    task: JoinHandle<Result<(), AppError>>,
    stop: CancellationToken,
}

async fn set_up(args: &DemoArgs, database: PathBuf) -> Result<(Stage, Service), DemoError> {
    let mock = Mock::start(([127, 0, 0, 1], 0).into())?;
    let admin_token = Uuid::new_v4().simple().to_string();
    let settings = [
        ("DATABASE_URL", format!("sqlite://{}", database.display())),
        ("BIND_ADDR", args.bind.to_string()),
        ("ADMIN_TOKEN", admin_token.clone()),
        ("FCM_BASE_URL", mock.base_url().to_string()),
        ("FCM_PROJECT_ID", "demo-project".to_owned()),
        // What is told as the time of the next try should be it.
        ("OUTBOX_POLL_INTERVAL_MS", "100".to_owned()),
    ];
    let env: Env = settings
        .into_iter()
        .chain(args.sms.settings(&mock))
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let config = Config::from_env(&env).map_err(DemoError::Config)?;
    let app = Box::pin(Application::build(config))
        .await
        .map_err(|error| match error {
            AppError::Io(error) => DemoError::Bind(error),
            other => DemoError::App(other),
        })?;
    let server = format!("http://{}", app.addr());
    let server = Url::parse(&server).map_err(|error| DemoError::Answer(error.to_string()))?;
    let stop = CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let task = tokio::spawn(app.run_until(stopped));
    let http = story::client()?;
    let stage = Stage {
        server,
        admin_token,
        mock,
        http,
        database,
        sms: args.sms,
    };
    Ok((stage, Service { task, stop }))
}

async fn show(stage: Arc<Stage>, exit: bool) -> Result<(), DemoError> {
    let screen = Arc::new(Screen::start());
    screen.opening(&stage)?;
    let mut watcher = Watcher::new(Arc::clone(&stage), Arc::clone(&screen));
    watcher.skip_the_past().await?;
    let samples = tokio::select! {
        samples = story::tell(&stage, &screen) => samples?,
        ended = watcher.for_ever() => return ended,
    };
    timeout(PATIENCE, watcher.until_sent(&samples))
        .await
        .map_err(|_| DemoError::Late)??;
    screen.closing(&stage, samples.len(), exit)?;
    if exit {
        return Ok(());
    }
    // Whatever is posted by hand is told in the same way.
    watcher.for_ever().await
}
