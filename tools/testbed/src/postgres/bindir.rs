//! Where the server's programs are.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest version that the product supports.
const MIN_VERSION: u32 = 15;

/// The folder of the server's programs: `TEST_PG_BINDIR`, or that of the newest server here.
///
/// # Errors
///
/// When there is none, with what to do about it.
pub fn bindir() -> io::Result<PathBuf> {
    if let Some(chosen) = std::env::var_os("TEST_PG_BINDIR") {
        return Ok(chosen.into());
    }
    let found = candidates().into_iter().filter_map(|folder| {
        let version = version(&folder).filter(|version| *version >= MIN_VERSION)?;
        Some((version, folder))
    });
    let newest = found.max_by_key(|(version, _)| *version);
    newest.map(|(_, folder)| folder).ok_or_else(|| {
        io::Error::other(format!(
            "PostgreSQL {MIN_VERSION} or newer is needed: install your system's server package \
             (Debian, Ubuntu: apt-get install postgresql)"
        ))
    })
}

fn candidates() -> Vec<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql");
    let debian = debian.into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    if let Ok(answer) = Command::new("pg_config").arg("--bindir").output() {
        all.push(String::from_utf8_lossy(&answer.stdout).trim().into());
    }
    all
}

/// The major version of a folder's server, if it has one: `postgres (PostgreSQL) 15.8`.
fn version(folder: &Path) -> Option<u32> {
    if !folder.join("initdb").exists() {
        return None;
    }
    let answer = Command::new(folder.join("postgres"))
        .arg("--version")
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let number = text.split_whitespace().nth(2)?;
    let digits = number.find(|c: char| !c.is_ascii_digit());
    number[..digits.unwrap_or(number.len())].parse().ok()
}
