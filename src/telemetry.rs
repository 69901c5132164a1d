//! The log: one line an event, to standard error.
//!
//! Only Paybell's own targets may go below `info`, whatever `RUST_LOG` says: at `debug`
//! dependencies write what they handle (tokio-postgres every bound value), and that is personal
//! data.

use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{LogConfig, LogFormat};

/// The log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The directives were not checked by [`LogConfig`].
    #[error("the log filter cannot be used: {0}; write for example info,paybell=debug")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// A process has one log.
    #[error("the log is set up already")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Sets up the process's log, for `tracing` events and `log` records alike, and sends panics there.
///
/// # Errors
/// When the filter cannot be parsed, or the process has a log already.
pub fn init(config: &LogConfig) -> Result<(), TelemetryError> {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let ansi = io::stderr().is_terminal() && !no_color;
    subscriber(config, io::stderr, ansi)?.try_init()?;
    std::panic::set_hook(Box::new(|panic| tracing::error!("{}", describe(panic))));
    Ok(())
}

/// Reports panics in one line on standard error until [`init`] sends them to the log.
pub fn report_panics_on_stderr() {
    std::panic::set_hook(Box::new(|panic| {
        // Nobody is left to tell when standard error is closed.
        drop(writeln!(io::stderr(), "error: {}", describe(panic)));
    }));
}

/// What [`init`] installs, writing elsewhere.
///
/// # Errors
/// When the filter cannot be parsed.
pub fn subscriber<W>(
    config: &LogConfig,
    writer: W,
    ansi: bool,
) -> Result<impl Subscriber + Send + Sync + use<W>, tracing_subscriber::filter::ParseError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // A closed standard error must not become a panic on top.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .log_internal_errors(false);
    let lines = match config.format {
        LogFormat::Text => lines.with_ansi(ansi).boxed(),
        // The list of spans holds the current one, too.
        LogFormat::Json => lines
            .with_ansi(false)
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .boxed(),
    };
    Ok(tracing_subscriber::registry()
        .with(EnvFilter::builder().parse(&config.filter)?)
        .with(filter_fn(is_within_cap))
        .with(lines))
}

/// Works for `log` records as well: tracing-log asks with the record's own target.
fn is_within_cap(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || is_own(metadata.target())
}

fn is_own(target: &str) -> bool {
    let rest = target.strip_prefix(env!("CARGO_CRATE_NAME"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn describe(panic: &PanicHookInfo<'_>) -> String {
    let place = panic
        .location()
        .map_or_else(|| "unknown place".to_owned(), ToString::to_string);
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("no message");
    format!("internal error at {place}: {}", without_data(message))
}

/// The fixed words of a panic message. What the standard library quotes or appends after a colon is
/// the data at hand (the sliced text, the `Err` of an `unwrap`).
fn without_data(message: &str) -> String {
    const QUOTES: [char; 3] = ['`', '"', '\''];
    let first_line = message.lines().next().unwrap_or_default();
    let words = first_line.split(QUOTES).next().unwrap_or_default();
    let words = words.split(": ").next().unwrap_or_default();
    let cut = if words.len() < message.len() {
        " …"
    } else {
        ""
    };
    let digits_hidden = words.trim_end().replace(|c: char| c.is_ascii_digit(), "#");
    format!("{digits_hidden}{cut}")
}

#[cfg(test)]
mod tests;
