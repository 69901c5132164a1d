//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::world::Kind;

/// Attacks the real program and shows that nothing is lost and nothing doubled
#[derive(Debug, Clone, Parser)]
#[command(name = "chaos", version)]
pub struct Args {
    /// Database to run on
    #[arg(long, value_enum, default_value_t = Databases::Both)]
    pub database: Databases,
    /// Fault to inject; may be given several times, all by default
    #[arg(long = "fault", value_name = "NAME")]
    pub faults: Vec<String>,
    /// Runs of each fault on each database
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub runs: u64,
    /// Seed of the first run; each further run takes the next number
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Payments of a run, each with an SMS and a push; 200 by default, or what the fault wants
    #[arg(long, value_name = "N")]
    pub payments: Option<usize>,
    /// Runs side by side; as many as there are cores by default
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Each fault once with a fixed seed and in its shortest form, for a check that runs often
    #[arg(long, conflicts_with_all = ["long", "runs", "seed", "payments"])]
    pub short: bool,
    /// The whole proof: 100 kill runs on each database and several of every other fault
    #[arg(long, conflicts_with_all = ["runs", "payments"])]
    pub long: bool,
    /// Write the table and every run as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Attack this binary, built with the feature fail-points, instead of building one
    #[arg(long, value_name = "PATH")]
    pub paybell: Option<PathBuf>,
    /// Cargo profile to build the product with
    #[arg(long, value_name = "NAME", default_value = "chaos")]
    pub profile: String,
    /// List the faults and stop
    #[arg(long)]
    pub list: bool,
}

impl Args {
    /// Runs side by side: most of a run is waiting for leases to end.
    pub fn jobs(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or(cores)
    }
}

/// Which databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Databases {
    /// SQLite alone
    Sqlite,
    /// PostgreSQL alone
    Postgres,
    /// Both
    Both,
}

impl Databases {
    /// As kinds.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Sqlite => &[Kind::Sqlite],
            Self::Postgres => &[Kind::Postgres],
            Self::Both => &[Kind::Sqlite, Kind::Postgres],
        }
    }
}
