//! The log.
//!
//! - `LOG_FORMAT`: `text` for people, `json` for machines
//! - `RUST_LOG`: filter directives, for example `info` or `info,paybell::outbox=debug`

use tracing_subscriber::EnvFilter;

use super::reader::{ConfigErrors, Faulty, Reader};
use super::{Env, variables};

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The log's settings.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// Form of a line.
    pub format: LogFormat,
    /// Directives that [`EnvFilter`] understands.
    pub filter: String,
}

impl LogConfig {
    /// Reads the log's variables alone, for commands that need nothing else.
    ///
    /// # Errors
    /// All faults of these variables at once.
    pub fn from_env(env: &Env) -> Result<Self, ConfigErrors> {
        let mut reader = Reader::new(env);
        let config = Self::read(&mut reader);
        reader.finish(config)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Faulty> {
        let format = reader.required(variables::LOG_FORMAT, |text| match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err("is not a log format: use text or json".to_owned()),
        });
        let filter = reader.required(variables::RUST_LOG, |text| {
            EnvFilter::builder()
                .parse(text)
                .map(|_| text.to_owned())
                .map_err(|error| {
                    format!("is not a log filter ({error}): write for example info,paybell=debug")
                })
        });
        Ok(Self {
            format: format?,
            filter: filter?,
        })
    }
}
