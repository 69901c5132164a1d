//! Configuration: environment variables in, typed and checked settings out.
//!
//! One file per area; each lists its variables with their units. [`variables`] is the one table of
//! all names and defaults, and the only way to read a variable is to name its entry there. Every
//! fault is found in one pass and reported with the variable, the value (masked when it is a
//! secret) and how to mend it.

mod channels;
mod database;
mod env;
mod fcm;
mod http;
mod log;
mod mask;
mod messages;
mod outbox;
mod postgres_url;
mod reader;
mod sms;
mod summary;
pub mod variables;

pub use channels::ProxyUrl;
pub use database::{DatabaseConfig, DatabaseUrl};
pub use env::Env;
pub use fcm::FcmConfig;
pub use http::{ApiKey, HttpConfig, SAMPLE_ADMIN_TOKEN};
pub use log::{LogConfig, LogFormat};
pub use messages::MessageDefaults;
pub use outbox::OutboxConfig;
pub use postgres_url::{PostgresUrl, RootCert, SslMode};
pub use reader::{ConfigErrors, Fault};
pub use sms::SmsConfig;
pub use summary::Summary;

use reader::{Faulty, Reader};

/// Everything that `paybell serve` is told from outside.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where payments and outbox rows are kept.
    pub database: DatabaseConfig,
    /// The server, and who may talk to it.
    pub http: HttpConfig,
    /// What a request leaves open.
    pub messages: MessageDefaults,
    /// The SMS channel; `None`: off.
    pub sms: Option<SmsConfig>,
    /// The push channel; `None`: off.
    pub fcm: Option<FcmConfig>,
    /// The delivery engine.
    pub outbox: OutboxConfig,
    /// Outbound proxy of provider calls.
    pub proxy: Option<ProxyUrl>,
    /// The log.
    pub log: LogConfig,
    /// Settings that are allowed and yet probably not meant, one sentence each.
    pub warnings: Vec<String>,
    summary: Summary,
}

impl Config {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// All faults of the environment at once.
    pub fn from_env(env: &Env) -> Result<Self, ConfigErrors> {
        let mut reader = Reader::new(env);
        let config = Self::read(&mut reader);
        reader.warn_of_unknown_variables();
        let warnings = reader.take_warnings();
        reader
            .finish(config)
            .map(|config| Self { warnings, ..config })
    }

    /// Every variable with its effective value, secrets masked.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Faulty> {
        // All areas are read before the first `?`, so that one fault does not hide another.
        let database = DatabaseConfig::read(reader);
        let http = HttpConfig::read(reader);
        let messages = MessageDefaults::read(reader);
        let sms = SmsConfig::read(reader);
        let fcm = FcmConfig::read(reader);
        let outbox = OutboxConfig::read(reader);
        let proxy = ProxyUrl::read(reader);
        let log = LogConfig::read(reader);
        channels::require_one(reader, &sms, &fcm);
        Ok(Self {
            database: database?,
            http: http?,
            messages: messages?,
            sms: sms?,
            fcm: fcm?,
            outbox: outbox?,
            proxy: proxy?,
            log: log?,
            warnings: Vec::new(),
            summary: Summary::of(reader.env()),
        })
    }
}

#[cfg(test)]
mod tests;
