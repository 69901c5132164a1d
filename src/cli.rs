//! The command line: which command, with which options, and what its end means to the shell.
//!
//! Exit codes: 0 success, 1 a failure while running, 2 bad usage or configuration.

use std::ffi::OsString;
use std::fmt::Display;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::config::{Config, ConfigErrors, Env, Summary};
use crate::demo::DemoArgs;
use crate::telemetry;
use crate::terminal::write_out;

/// Failure while running.
const FAILURE: u8 = 1;
/// Bad usage or configuration; clap's own code for usage.
const BAD_CONFIGURATION: u8 = 2;

/// How long a command that is through waits for what its threads still do. Enough to close a
/// database in order; a SQLite call that waits for somebody else's lock would keep the process up
/// beyond its grace.
const LINGER: Duration = Duration::from_millis(250);

/// Payment notifications that arrive.
///
/// Paybell records each payment together with its notifications in one transaction and delivers
/// them by SMS and push.
#[derive(Debug, Parser)]
#[command(name = "paybell", version, arg_required_else_help = true)]
#[command(after_help = "Settings come from environment variables and .env; see .env.example.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Try the whole product on nothing: an embedded database, mock providers, a few payments
    Demo(DemoArgs),
    /// Run the service
    Serve,
    /// Run the mock SMS and FCM providers alone
    MockProviders(MockProvidersArgs),
    /// Apply pending database migrations and print their versions
    Migrate,
    /// Look for what must not be in the database, and change nothing
    Check,
    /// Print the configuration with secrets masked and say what is wrong with it
    CheckConfig,
}

/// Options of `paybell mock-providers`.
#[derive(Debug, Clone, Args)]
pub struct MockProvidersArgs {
    /// Address that the mock providers listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090")]
    pub bind: SocketAddr,
}

/// Runs the command that `args` (the program's name first) ask for.
pub fn run(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    telemetry::report_panics_on_stderr();
    match Cli::try_parse_from(args) {
        Ok(cli) => dispatch(&cli.command),
        Err(usage) => {
            // Help for a closed pipe is help nobody reads.
            drop(usage.print());
            u8::try_from(usage.exit_code())
                .map_or(ExitCode::from(BAD_CONFIGURATION), ExitCode::from)
        }
    }
}

fn dispatch(command: &Command) -> ExitCode {
    match command {
        Command::Demo(args) => commands::demo(args),
        Command::Serve => commands::serve(&Env::load()),
        Command::MockProviders(args) => commands::mock_providers(args),
        Command::Migrate => commands::migrate(&Env::load()),
        Command::Check => check::check(&Env::load()),
        Command::CheckConfig => check_config(
            &Env::load(),
            &mut io::stdout().lock(),
            &mut io::stderr().lock(),
        ),
    }
}

/// Runs a command's future to its end on a runtime of its own.
///
/// # Errors
/// When the operating system grants no threads or I/O driver.
pub fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let output = runtime.block_on(future);
    runtime.shutdown_timeout(LINGER);
    Ok(output)
}

/// Reports a failure while running: one line, exit code 1.
pub fn fail(error: &dyn Display) -> ExitCode {
    report(&mut io::stderr().lock(), error);
    ExitCode::from(FAILURE)
}

/// Reports a bad configuration: one line a fault, exit code 2.
pub fn refuse(errors: &ConfigErrors) -> ExitCode {
    report_faults(&mut io::stderr().lock(), errors);
    ExitCode::from(BAD_CONFIGURATION)
}

/// An error is one line, whatever its cause put into it.
fn report(err: &mut dyn Write, error: &dyn Display) {
    let line = error
        .to_string()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    // Nobody is left to tell when standard error is closed.
    drop(writeln!(err, "error: {line}"));
}

fn report_faults(err: &mut dyn Write, errors: &ConfigErrors) {
    errors.faults().iter().for_each(|fault| report(err, fault));
}

fn check_config(env: &Env, out: &mut dyn Write, err: &mut dyn Write) -> ExitCode {
    let (mut text, faults) = match Config::from_env(env) {
        Ok(config) => (describe(&config), None),
        Err(errors) => (Summary::of(env).to_string(), Some(errors)),
    };
    if faults.is_none() {
        text.push_str("\nThe configuration is valid.\n");
    }
    if let Err(error) = write_out(out, &text) {
        report(err, &format!("cannot write to standard output: {error}"));
        return ExitCode::from(FAILURE);
    }
    let Some(errors) = faults else {
        return ExitCode::SUCCESS;
    };
    report_faults(err, &errors);
    ExitCode::from(BAD_CONFIGURATION)
}

fn describe(config: &Config) -> String {
    let mut text = config.summary().to_string();
    for warning in &config.warnings {
        text.push_str("\nwarning: ");
        text.push_str(warning);
    }
    if !config.warnings.is_empty() {
        text.push('\n');
    }
    text
}

mod check;
mod commands;
#[cfg(test)]
mod tests;
