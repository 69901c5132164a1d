//! `chaos`: attacks the real program from outside and shows that nothing is lost and nothing
//! doubled. See README.md beside Cargo.toml.

pub mod cli;
pub mod client;
pub mod faults;
pub mod lane;
pub mod load;
pub mod plan;
pub mod product;
pub mod progress;
pub mod proxy;
pub mod report;
pub mod run;
pub mod verify;
pub mod workers;
pub mod world;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use cli::Args;
use faults::Scale;
use run::Run;

/// Runs the program; 1 when a promise was broken.
pub fn run() -> ExitCode {
    let args = Args::parse();
    match attack(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            progress::say(&format!("chaos: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether every run was good.
fn attack(args: &Args) -> Result<bool> {
    if args.list {
        list()?;
        return Ok(true);
    }
    let plans = plan::plans(args)?;
    let folder = TempDir::with_prefix("paybell-chaos-")?;
    let paybell = product::copied_into(folder.path(), args.paybell.as_deref(), &args.profile)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let jobs = args.jobs();
    let runs = runtime.block_on(async {
        tokio::select! {
            runs = workers::run_all(plans, jobs, folder.path(), &paybell) => Ok(runs),
            stopped = stopped() => Err(stopped.err().unwrap_or_else(|| anyhow!("interrupted"))),
        }
    })?;
    drop(runtime);
    report(args, &runs)?;
    let good = runs.iter().all(|run| run.judgement.is_good());
    if !good {
        let kept = folder.keep();
        progress::say(&format!(
            "logs and databases are kept in {}",
            kept.display()
        ));
    }
    Ok(good)
}

/// Told to stop: what was started goes with the values that own it.
async fn stopped() -> Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        _ = terminated.recv() => {}
    }
    Ok(())
}

fn report(args: &Args, runs: &[Run]) -> Result<()> {
    if let Some(file) = &args.json {
        report::write_json(runs, file)?;
    }
    let table = report::table(runs);
    write!(std::io::stdout().lock(), "{table}").context("standard output")
}

fn list() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for make in faults::all() {
        let fault = make(Scale::Usual);
        let on = [world::Kind::Sqlite, world::Kind::Postgres];
        let on = on.into_iter().filter(|kind| fault.applies_to(*kind));
        let on: Vec<&str> = on.map(world::Kind::name).collect();
        writeln!(
            out,
            "{:20} {:16} {}",
            fault.name(),
            on.join(", "),
            fault.what()
        )?;
    }
    Ok(())
}
