//! SQLite's file: no space left on its disk, its write lock held by somebody else.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use fastrand::Rng;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::sleep;

use super::{Fault, Launch};
use crate::load::Load;
use crate::world::{Backing, Ground, Instance, Kind, World};

/// Of the small disk.
const DISK: &str = "size=16m";

/// How long there is no space.
const FULL_FOR: Duration = Duration::from_secs(3);

/// What the product's log says of a disk without space, and of a file that may not grow.
const SAYS: [&str; 2] = ["database or disk is full", "disk I/O error"];

/// No space for a while.
#[derive(Default)]
pub struct DiskFull {
    disk: OnceLock<Disk>,
}

/// A disk of its own where one may be mounted; else the process may not let files grow.
enum Disk {
    Own(Mounted),
    Shared,
}

/// Unmounted with this value, whoever still uses it.
struct Mounted(TempDir);

impl Mounted {
    async fn mount() -> Result<Self> {
        let folder = TempDir::with_prefix("paybell-disk-")?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", DISK, "tmpfs"])
            .arg(folder.path())
            .output()
            .await
            .context("mount")?;
        let error = String::from_utf8_lossy(&mounted.stderr);
        ensure!(mounted.status.success(), "mount: {error}");
        Ok(Self(folder))
    }

    fn ballast(&self) -> PathBuf {
        self.0.path().join("ballast")
    }

    /// Leaves not a byte.
    fn fill(&self) -> Result<()> {
        let mut ballast = std::fs::File::create(self.ballast())?;
        let mut piece = 1 << 20;
        while piece > 0 {
            if ballast.write_all(&vec![1; piece]).is_err() {
                piece /= 2;
            }
        }
        Ok(())
    }

    fn relieve(&self) -> Result<()> {
        match std::fs::remove_file(self.ballast()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmount = std::process::Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path())
            .status();
        // Then the folder stays: nothing more can be done.
        drop(unmount);
    }
}

/// No file of the process may grow beyond the size that the database has now; `unlimited` lifts it.
async fn limit_files(instance: &Instance, size: &str) -> Result<()> {
    let Some(pid) = instance.pid() else {
        bail!("there is no process");
    };
    let limited = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--fsize={size}:")])
        .output()
        .await
        .context("prlimit")?;
    let error = String::from_utf8_lossy(&limited.stderr);
    ensure!(limited.status.success(), "prlimit: {error}");
    Ok(())
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

impl DiskFull {
    async fn fill(&self, world: &World) -> Result<()> {
        match (self.disk.get(), &world.ground.database) {
            (Some(Disk::Own(disk)), _) => disk.fill(),
            (Some(Disk::Shared), Backing::Sqlite { path }) => {
                let mut log = path.clone().into_os_string();
                log.push("-wal");
                let most = size(path).max(size(Path::new(&log)));
                limit_files(&world.instances[0], &most.to_string()).await
            }
            _ => bail!("there is no disk"),
        }
    }
}

#[async_trait]
impl Fault for DiskFull {
    fn name(&self) -> &'static str {
        "disk-full"
    }

    fn what(&self) -> &'static str {
        "no space is left on SQLite's disk for a while"
    }

    fn applies_to(&self, database: Kind) -> bool {
        database == Kind::Sqlite
    }

    fn spread(&self) -> Duration {
        FULL_FOR * 2 + Duration::from_secs(3)
    }

    async fn prepare(&self, ground: &mut Ground) -> Result<()> {
        let disk = match Mounted::mount().await {
            Ok(mounted) => {
                let path = mounted.0.path().join("paybell.db");
                ground.database = Backing::Sqlite { path };
                Disk::Own(mounted)
            }
            Err(_) => Disk::Shared,
        };
        ensure!(self.disk.set(disk).is_ok(), "a fault serves one run");
        Ok(())
    }

    fn launch(&self, launch: &mut Launch) {
        if let Some(Disk::Shared) = self.disk.get() {
            // Else the signal that comes with a refused write would end the process.
            let shell = ["sh", "-c", r#"trap "" XFSZ; exec "$0" "$@""#];
            launch.wrapper = shell.map(str::to_owned).to_vec();
            launch.set("PATH", "/usr/bin:/bin");
        }
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        sleep(Duration::from_millis(rng.u64(500..1500))).await;
        for _ in 0..2 {
            self.fill(world).await?;
            sleep(FULL_FOR).await;
            self.heal(world).await?;
            load.until_answered(load.answered() + 1, Duration::from_secs(5))
                .await?;
        }
        let log = world.instances[0].log();
        ensure!(
            SAYS.iter().any(|says| log.contains(says)),
            "its disk was never full"
        );
        Ok(())
    }

    async fn heal(&self, world: &World) -> Result<()> {
        match self.disk.get() {
            Some(Disk::Own(disk)) => disk.relieve(),
            Some(Disk::Shared) => limit_files(&world.instances[0], "unlimited").await,
            None => Ok(()),
        }
    }
}

/// `DATABASE_TIMEOUT_MS` while others hold the lock: each holds it for longer.
const TIMEOUT: Duration = Duration::from_millis(1000);

/// Another process holds the write lock for longer than the product waits for it.
pub struct WriteLock;

#[async_trait]
impl Fault for WriteLock {
    fn name(&self) -> &'static str {
        "write-lock"
    }

    fn what(&self) -> &'static str {
        "another process holds SQLite's write lock for longer than the timeout"
    }

    fn applies_to(&self, database: Kind) -> bool {
        database == Kind::Sqlite
    }

    fn spread(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn launch(&self, launch: &mut Launch) {
        launch.set("DATABASE_TIMEOUT_MS", TIMEOUT.as_millis());
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        let Backing::Sqlite { path } = &world.ground.database else {
            bail!("PostgreSQL has no write lock");
        };
        for moment in [0.1, 0.5] {
            load.until_moment(moment + 0.05 * rng.f64()).await;
            hold(path, TIMEOUT + Duration::from_millis(rng.u64(500..2000))).await?;
        }
        Ok(())
    }
}

/// The harness is another process than the product, so the lock is between the two.
async fn hold(path: &Path, length: Duration) -> Result<()> {
    let file = path.display().to_string();
    let held = tokio::task::spawn_blocking(move || {
        let mut holder = SqliteConnection::establish(&file)?;
        holder.batch_execute("PRAGMA busy_timeout = 60000; BEGIN IMMEDIATE;")?;
        std::thread::sleep(length);
        holder.batch_execute("ROLLBACK;")?;
        anyhow::Ok(())
    });
    held.await?
}
