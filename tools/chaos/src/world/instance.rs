//! One instance of the product: a process that is started again whenever it ends.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::faults::Launch;

/// Between a start that failed and the next.
const RETRY: Duration = Duration::from_millis(200);

/// Longer than the usual `SHUTDOWN_GRACE_SECS`.
const STOPS_WITHIN: Duration = Duration::from_secs(15);

/// Lines of a log that are shown.
const END: usize = 5;

type Launcher = Box<dyn Fn(usize) -> Launch + Send + Sync>;

/// How a process ended.
#[derive(Debug, Clone)]
pub struct Exit {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
}

#[derive(Debug, Default)]
struct State {
    pid: Option<u32>,
    base: Option<String>,
    starts: usize,
    exits: Vec<Exit>,
    /// It is not to be started again for now.
    held: bool,
    /// Why it cannot be started at all.
    broken: Option<String>,
}

/// One instance.
pub struct Instance {
    state: watch::Sender<State>,
    log: PathBuf,
    supervisor: JoinHandle<()>,
}

impl Instance {
    /// Starts it; it need not listen yet.
    pub(super) fn start(paybell: PathBuf, log: PathBuf, launcher: Launcher) -> Result<Self> {
        let state = watch::Sender::new(State::default());
        let supervisor = Supervisor {
            paybell,
            log: log.clone(),
            launcher,
            state: state.clone(),
        };
        let supervisor = tokio::spawn(supervisor.run());
        Ok(Self {
            state,
            log,
            supervisor,
        })
    }

    /// Where it serves, once it listens.
    pub fn base(&self) -> Option<String> {
        self.state.borrow().base.clone()
    }

    /// Its process, while there is one.
    pub fn pid(&self) -> Option<u32> {
        self.state.borrow().pid
    }

    /// How its processes ended so far, oldest first.
    pub fn exits(&self) -> Vec<Exit> {
        self.state.borrow().exits.clone()
    }

    /// Its log so far, all lives together.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it listens.
    ///
    /// # Errors
    ///
    /// When it does not in time, with the end of its log.
    pub async fn until_up(&self, within: Duration) -> Result<()> {
        let up = self.until(within, |state| {
            state.base.is_some() || state.broken.is_some()
        });
        up.await.context("it does not listen")?;
        match &self.state.borrow().broken {
            Some(why) => bail!("{why}\n{}", self.end_of_log()),
            None => Ok(()),
        }
    }

    /// Waits until `n` of its processes have ended.
    ///
    /// # Errors
    ///
    /// When they do not in time, with the end of its log.
    pub async fn until_exits(&self, n: usize, within: Duration) -> Result<()> {
        let ended = self.until(within, |state| state.exits.len() >= n);
        ended.await.context("it does not end")
    }

    async fn until(&self, within: Duration, holds: impl FnMut(&State) -> bool) -> Result<()> {
        let mut state = self.state.subscribe();
        let waited = timeout(within, state.wait_for(holds)).await.map(drop);
        waited.map_err(|_| anyhow!("not within {} s\n{}", within.as_secs(), self.end_of_log()))
    }

    /// Sends its process a signal by its name, for example `TERM`; false when there is no process.
    ///
    /// # Errors
    ///
    /// When the signal cannot be sent.
    pub async fn signal(&self, name: &str) -> Result<bool> {
        let Some(pid) = self.pid() else {
            return Ok(false);
        };
        let pid = pid.to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).output();
        // It may have ended in this moment.
        let sent = sent.await.context("kill")?;
        Ok(sent.status.success())
    }

    /// From now on it is not started again.
    pub fn hold(&self) {
        self.state.send_modify(|state| state.held = true);
    }

    /// It may be started again, which happens at once when it is down.
    pub fn let_go(&self) {
        self.state.send_modify(|state| state.held = false);
    }

    /// Ends it in order and for good; how it ended.
    ///
    /// # Errors
    ///
    /// When it does not end in time.
    pub async fn stop(&self) -> Result<Option<Exit>> {
        let before = self.exits().len();
        self.hold();
        if self.pid().is_none() {
            return Ok(None);
        }
        self.signal("TERM").await?;
        self.until_exits(before + 1, STOPS_WITHIN).await?;
        Ok(self.exits().pop())
    }

    fn end_of_log(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(END)..].join("\n")
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The process goes with the task that owns it.
        self.supervisor.abort();
    }
}

/// Owns the process.
struct Supervisor {
    paybell: PathBuf,
    log: PathBuf,
    launcher: Launcher,
    state: watch::Sender<State>,
}

impl Supervisor {
    async fn run(self) {
        loop {
            let mut state = self.state.subscribe();
            if state.wait_for(|state| !state.held).await.is_err() {
                return;
            }
            match self.live().await {
                // Bad usage or bad configuration: it would say the same for ever.
                Ok(Exit { code: Some(2), .. }) => {
                    return self.give_up("it refuses its configuration".to_owned());
                }
                Ok(_) => {}
                Err(error) => return self.give_up(format!("it cannot be started: {error:#}")),
            }
        }
    }

    fn give_up(&self, why: String) {
        self.state.send_modify(|state| state.broken = Some(why));
    }

    /// One life, from start to end.
    async fn live(&self) -> Result<Exit> {
        let life = self.state.borrow().starts;
        let mut child = self.spawn(&(self.launcher)(life))?;
        self.state.send_modify(|state| {
            state.starts += 1;
            state.pid = child.id();
        });
        let listened = match child.stderr.take() {
            Some(stderr) => self.follow(stderr).await?,
            None => false,
        };
        let exit = self.ended(&child.wait().await?);
        if !listened {
            sleep(RETRY).await;
        }
        Ok(exit)
    }

    fn spawn(&self, launch: &Launch) -> Result<Child> {
        let program = self.paybell.as_os_str();
        let mut words = launch
            .wrapper
            .iter()
            .map(std::ffi::OsStr::new)
            .chain([program]);
        let first = words.next().unwrap_or(program);
        let child = Command::new(first)
            .args(words)
            .arg("serve")
            .env_clear()
            .envs(&launch.env)
            .current_dir(self.log.parent().unwrap_or(&self.log))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        child.with_context(|| first.display().to_string())
    }

    /// Copies its log into the file until it ends; whether it listened.
    async fn follow(&self, stderr: ChildStderr) -> Result<bool> {
        let mut file = self.log_file().await?;
        let mut lines = BufReader::new(stderr).lines();
        let mut listened = false;
        while let Some(line) = lines.next_line().await? {
            if let Some(address) = address_in(&line) {
                listened = true;
                let base = format!("http://{address}");
                self.state.send_modify(|state| state.base = Some(base));
            }
            file.write_all(format!("{line}\n").as_bytes()).await?;
            file.flush().await?;
        }
        Ok(listened)
    }

    async fn log_file(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&self.log).await;
        file.with_context(|| self.log.display().to_string())
    }

    fn ended(&self, status: &ExitStatus) -> Exit {
        let exit = Exit {
            code: status.code(),
        };
        self.state.send_modify(|state| {
            state.pid = None;
            state.base = None;
            state.exits.push(exit.clone());
        });
        exit
    }
}

/// The address in the line that says that it listens.
fn address_in(line: &str) -> Option<String> {
    if !line.contains("listening") {
        return None;
    }
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let fields = line.get("fields").unwrap_or(&line);
    if fields.get("message")? != "listening" {
        return None;
    }
    Some(fields.get("address")?.as_str()?.to_owned())
}
