//! `chaos`: attacks the real program from outside and shows that nothing is lost and nothing
//! doubled. See README.md beside Cargo.toml.

mod cli;
mod faults;
mod load;
mod proxy;
mod world;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let _args = cli::Args::parse();
    ExitCode::SUCCESS
}
