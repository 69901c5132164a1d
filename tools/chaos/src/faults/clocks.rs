//! Wall clocks that are wrong, by libfaketime; time spans stay true.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use fastrand::Rng;
use tokio::process::Command;

use super::{Fault, Launch};
use crate::load::Load;
use crate::world::{Ground, Kind, LEASE, World};

/// How far a clock is off, in seconds.
const OFF: i64 = 600;

/// What a notification takes when no clock is wrong, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Where libraries are, an architecture each.
const LIBRARIES: &str = "/usr/lib";
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// libfaketime in this machine.
#[derive(Default)]
struct Faketime {
    library: OnceLock<PathBuf>,
    /// What the clock says now, where it changes.
    clock: OnceLock<PathBuf>,
}

impl Faketime {
    async fn prepare(&self) -> Result<()> {
        let library = match find() {
            Some(library) => library,
            None => {
                install()
                    .await
                    .context("libfaketime is missing: apt-get install faketime")?;
                find().context("the package faketime brought no library that is known here")?
            }
        };
        ensure!(self.library.set(library).is_ok(), "a fault serves one run");
        Ok(())
    }

    /// The clock is off by this much from the start on.
    fn off(&self, launch: &mut Launch, seconds: i64) {
        self.preload(launch);
        launch.set("FAKETIME", format!("{seconds:+}"));
    }

    /// The clock is off by what the file says.
    fn follow(&self, launch: &mut Launch) {
        if let Some(clock) = self.clock.get() {
            self.preload(launch);
            launch.set("FAKETIME_TIMESTAMP_FILE", clock.display());
            launch.set("FAKETIME_NO_CACHE", 1);
        }
    }

    fn preload(&self, launch: &mut Launch) {
        if let Some(library) = self.library.get() {
            launch.set("LD_PRELOAD", library.display());
            launch.set("FAKETIME_DONT_FAKE_MONOTONIC", 1);
            launch.set("NO_FAKE_STAT", 1);
        }
    }

    /// Sets the clock of those that follow it.
    fn set(&self, seconds: i64) -> Result<()> {
        let Some(clock) = self.clock.get() else {
            bail!("there is no clock to set");
        };
        // Whole or not at all: half a line would be another time.
        let next = clock.with_extension("next");
        std::fs::write(&next, format!("{seconds:+}\n"))?;
        std::fs::rename(next, clock)?;
        Ok(())
    }
}

fn find() -> Option<PathBuf> {
    let folders = std::fs::read_dir(LIBRARIES).ok()?;
    let mut libraries = folders.flatten().map(|folder| folder.path().join(LIBRARY));
    libraries.find(|library| Path::exists(library))
}

async fn install() -> Result<()> {
    let arguments = ["install", "-q", "-y", "--no-install-recommends", "faketime"];
    let installed = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .await
        .context("apt-get")?;
    let error = String::from_utf8_lossy(&installed.stderr);
    ensure!(installed.status.success(), "apt-get: {error}");
    Ok(())
}

/// Instances on one server, whose clocks are ten minutes ahead, ten minutes behind, and right.
pub struct ClocksApart {
    payments: usize,
    faketime: Faketime,
}

impl ClocksApart {
    /// With so many payments.
    pub fn new(payments: usize) -> Self {
        Self {
            payments,
            faketime: Faketime::default(),
        }
    }
}

#[async_trait]
impl Fault for ClocksApart {
    fn name(&self) -> &'static str {
        "clocks-apart"
    }

    fn what(&self) -> &'static str {
        "of four instances' clocks one is ten minutes ahead, one ten minutes behind"
    }

    fn applies_to(&self, database: Kind) -> bool {
        database == Kind::Postgres
    }

    fn instances(&self) -> usize {
        4
    }

    fn spread(&self) -> Duration {
        Duration::from_millis(2) * u32::try_from(self.payments).unwrap_or(u32::MAX)
    }

    fn payments(&self) -> Option<usize> {
        Some(self.payments)
    }

    fn long_runs(&self) -> u64 {
        1
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(300)
    }

    async fn prepare(&self, _ground: &mut Ground) -> Result<()> {
        self.faketime.prepare().await
    }

    fn launch(&self, launch: &mut Launch) {
        match launch.instance {
            0 => self.faketime.off(launch, OFF),
            1 => self.faketime.off(launch, -OFF),
            _ => {}
        }
        // So many may make a provider slow, which is no fault of a clock.
        launch.set("OUTBOX_LEASE_SECS", 20);
        launch.set("PROVIDER_TIMEOUT_MS", 10_000);
    }

    fn clouds(&self) -> bool {
        false
    }

    fn latest(&self) -> Option<Duration> {
        Some(AT_ONCE)
    }

    async fn inject(&self, _world: &World, _rng: &mut Rng, load: &Load) -> Result<()> {
        load.until_moment(1.0).await;
        Ok(())
    }
}

/// One instance on a file, whose clock steps back and forth.
pub struct ClockSteps {
    /// Whether the process is killed at each step, so that the next begins with another clock.
    pub killed: bool,
    faketime: Faketime,
}

impl ClockSteps {
    /// With or without a kill at each step.
    pub fn new(killed: bool) -> Self {
        Self {
            killed,
            faketime: Faketime::default(),
        }
    }

    fn step(&self, rng: &mut Rng) -> Result<()> {
        let steps = [OFF, -OFF, 0, rng.i64(-OFF..OFF), rng.i64(-10..10)];
        self.faketime.set(rng.choice(steps).unwrap_or_default())
    }
}

#[async_trait]
impl Fault for ClockSteps {
    fn name(&self) -> &'static str {
        if self.killed {
            "clock-steps-kill"
        } else {
            "clock-steps"
        }
    }

    fn what(&self) -> &'static str {
        if self.killed {
            "the clock steps by up to ten minutes either way, with a SIGKILL at each step"
        } else {
            "the clock steps by up to ten minutes either way"
        }
    }

    fn applies_to(&self, database: Kind) -> bool {
        database == Kind::Sqlite
    }

    async fn prepare(&self, ground: &mut Ground) -> Result<()> {
        self.faketime.prepare().await?;
        let clock = ground.folder.join("clock");
        ensure!(
            self.faketime.clock.set(clock).is_ok(),
            "a fault serves one run"
        );
        self.faketime.set(0)
    }

    fn launch(&self, launch: &mut Launch) {
        self.faketime.follow(launch);
    }

    fn clouds(&self) -> bool {
        self.killed
    }

    fn ends_leases_early(&self) -> bool {
        self.killed
    }

    fn latest(&self) -> Option<Duration> {
        // A row whose holder was killed waits for the end of its lease.
        Some(if self.killed {
            LEASE + AT_ONCE
        } else {
            AT_ONCE
        })
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        let steps = if self.killed { 4 } else { 15 };
        for moment in load.moments(steps, rng) {
            load.until_moment(moment).await;
            self.step(rng)?;
            if self.killed {
                world.any(rng).signal("KILL").await?;
            }
        }
        Ok(())
    }
}
