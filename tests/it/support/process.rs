//! The real binary in a process of its own, to be killed.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::app::Settings;
use super::client::Client;

/// A running `paybell serve`.
pub struct Process {
    child: Child,
    /// `http://…` of its server.
    pub base: String,
    log: tokio::task::JoinHandle<Vec<String>>,
}

/// How a process ended.
pub struct Ended {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its log, a line each.
    pub log: Vec<String>,
}

/// Resident memory of a process, in bytes.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub resident: u64,
    pub peak: u64,
}

impl Process {
    /// Starts `paybell serve` and waits until it listens.
    pub async fn serve(settings: &Settings) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_paybell"))
            .arg("serve")
            .env_clear()
            .envs(&settings.0)
            .env("LOG_FORMAT", "json")
            .current_dir(std::env::temp_dir())
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut log = Vec::new();
        let base = timeout(Duration::from_secs(30), async {
            loop {
                let line = lines.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("it ended before it listened: {log:#?}"));
                let address = address_in(&line);
                log.push(line);
                if let Some(address) = address {
                    return format!("http://{address}");
                }
            }
        })
        .await
        .expect("it does not listen within 30 s");
        let log = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                log.push(line);
            }
            log
        });
        Self { child, base, log }
    }

    /// Sends a signal by its name, for example `TERM`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it has ended already").to_string();
        let sent = std::process::Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .unwrap();
        assert!(sent.success(), "kill -s {name} {pid}");
    }

    /// A client of its server.
    pub fn client(&self) -> Client {
        Client::new(&self.base)
    }

    /// `kill -9`, and waits until it is gone.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits until it has ended by itself.
    pub async fn ended(mut self, within: Duration) -> Ended {
        let status = timeout(within, self.child.wait())
            .await
            .expect("it does not end")
            .unwrap();
        Ended {
            code: status.code(),
            log: self.log.await.unwrap(),
        }
    }
}

/// From the files that Linux has of each process.
#[cfg(target_os = "linux")]
impl Process {
    /// Its memory now, and the most since it started or since [`Self::forget_peak`].
    pub fn memory(&self) -> Memory {
        let status = std::fs::read_to_string(self.proc("status")).unwrap();
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|line| line.trim().strip_suffix(" kB"));
            value.unwrap().parse::<u64>().unwrap() * 1024
        };
        Memory {
            resident: bytes("VmRSS:"),
            peak: bytes("VmHWM:"),
        }
    }

    /// From now on the peak is that of what follows.
    pub fn forget_peak(&self) {
        // See proc(5).
        std::fs::write(self.proc("clear_refs"), "5").unwrap();
    }

    fn proc(&self, file: &str) -> String {
        let pid = self.child.id().expect("it has ended already");
        format!("/proc/{pid}/{file}")
    }
}

fn address_in(line: &str) -> Option<String> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let fields = line.get("fields").unwrap_or(&line);
    if fields.get("message")? != "listening" {
        return None;
    }
    Some(fields.get("address")?.as_str()?.to_owned())
}
