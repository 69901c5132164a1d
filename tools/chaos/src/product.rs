//! The binary under attack: built with its fail points and copied, so that nothing that is built
//! later changes it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// One of cargo's messages, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// The binary in `folder`: a copy of `given`, or of what is built now.
///
/// # Errors
///
/// When it cannot be built or copied.
pub fn copied_into(folder: &Path, given: Option<&Path>, profile: &str) -> Result<PathBuf> {
    let built = match given {
        Some(given) => given.to_owned(),
        None => build(profile)?,
    };
    let copy = folder.join("paybell");
    std::fs::copy(&built, &copy).with_context(|| built.display().to_string())?;
    Ok(copy)
}

fn build(profile: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let words = ["build", "--profile", profile, "--package", "paybell"];
    let output = Command::new(cargo)
        .args(words)
        .args(["--bin", "paybell", "--features", "fail-points"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo build")?;
    if !output.status.success() {
        bail!("the product does not build");
    }
    let messages = String::from_utf8(output.stdout).context("cargo's messages")?;
    let mut built = messages.lines().filter_map(|line| {
        let message: Message = serde_json::from_str(line).ok()?;
        let ours = message.target?.name == "paybell";
        message.executable.filter(|_| ours)
    });
    built.next_back().context("cargo named no executable")
}
