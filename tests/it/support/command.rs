//! The real binary, run to its end.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// What a command left behind.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `paybell ARGS` in `folder` with nothing in its environment but `env`.
pub async fn paybell(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let child = Command::new(env!("CARGO_BIN_EXE_paybell"))
        .args(args)
        .env_clear()
        .envs(env.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let output = timeout(Duration::from_secs(90), child.wait_with_output())
        .await
        .unwrap_or_else(|_| panic!("paybell {args:?} does not end"))
        .unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
