//! The `paybell` program: parses the command line, nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    paybell::cli::run(std::env::args_os())
}
