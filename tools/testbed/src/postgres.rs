//! A throwaway PostgreSQL server with the default durability.

mod bindir;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub use bindir::bindir;

/// A port may be taken: a start tries so many.
const PORTS: usize = 5;

/// How a server is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Waits until every client has left.
    Smart,
    /// Ends the sessions, rolls back what they had begun.
    Fast,
    /// Leaves everything as it is, as a crash would; the next start recovers.
    Immediate,
}

impl Stop {
    fn mode(self) -> &'static str {
        match self {
            Self::Smart => "smart",
            Self::Fast => "fast",
            Self::Immediate => "immediate",
        }
    }
}

/// A server of one's own; it stops and its data goes with this value. Its calls block.
pub struct Cluster {
    folder: TempDir,
    bindir: PathBuf,
    /// On 127.0.0.1; it stays the same over restarts.
    pub port: u16,
}

impl Cluster {
    /// Starts a server with these lines in `postgresql.conf` and `pg_hba.conf` and these files in
    /// its data folder, readable to its owner alone. It can be reached by its socket in any case.
    ///
    /// # Errors
    ///
    /// When there is no server program here, or it does not start.
    pub fn start(conf: &str, hba: &str, files: &[(&str, &str)]) -> io::Result<Self> {
        // Short and outside TMPDIR: a socket's path may have 107 characters.
        let folder = TempDir::with_prefix_in("paybell-pg-", "/tmp")?;
        let mut cluster = Self {
            folder,
            bindir: bindir()?,
            port: 0,
        };
        own(cluster.folder.path())?;
        let data = cluster.data();
        let create = ["-U", "postgres", "--auth=trust", "--encoding=UTF8"];
        let create = create.into_iter().chain(["--locale=C", "-D", &data]);
        cluster.must("initdb", create)?;
        for (name, content) in files {
            let file = Path::new(&data).join(name);
            std::fs::write(&file, content)?;
            succeeded(
                "chmod",
                &Command::new("chmod").arg("600").arg(&file).output()?,
            )?;
            own(&file)?;
        }
        let data = Path::new(&data);
        std::fs::write(data.join("postgresql.conf"), conf)?;
        let hba = format!("local all all trust\n{hba}\n");
        std::fs::write(data.join("pg_hba.conf"), hba)?;
        cluster.listen()?;
        Ok(cluster)
    }

    /// Starts a server for many sessions, all of them trusted.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn trusting() -> io::Result<Self> {
        let conf = "max_connections = 300\n";
        Self::start(conf, "host all all 127.0.0.1/32 trust", &[])
    }

    fn listen(&mut self) -> io::Result<()> {
        let mut started = Ok(());
        for _ in 0..PORTS {
            // Below the range of outgoing connections, one of which could have it after a stop.
            self.port = fastrand::u16(20_000..32_000);
            started = self.start_again();
            if started.is_ok() {
                break;
            }
        }
        started
    }

    /// Stops the server; its data stays.
    ///
    /// # Errors
    ///
    /// When it does not stop, or is not running.
    pub fn stop(&self, how: Stop) -> io::Result<()> {
        self.must(
            "pg_ctl",
            ["-D", &self.data(), "-m", how.mode(), "-w", "stop"],
        )?;
        Ok(())
    }

    /// Starts the stopped server with its data and on its port.
    ///
    /// # Errors
    ///
    /// When it does not start, with its log.
    pub fn start_again(&self) -> io::Result<()> {
        let log = self.folder.path().join("data/server.log");
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={}",
            self.port,
            self.folder.path().display()
        );
        let (data, file) = (self.data(), log.display().to_string());
        let start = ["-D", &data, "-l", &file, "-w", "-o", &options, "start"];
        self.must("pg_ctl", start).map_err(|error| {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            io::Error::other(format!("{error}\n{log}"))
        })?;
        Ok(())
    }

    /// Stops and starts it.
    ///
    /// # Errors
    ///
    /// When it does not stop or does not start again.
    pub fn restart(&self, how: Stop) -> io::Result<()> {
        self.stop(how)?;
        self.start_again()
    }

    /// The URL of one of its databases, for the superuser.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The one value that a query gives in the database `postgres`, asked through the socket as the
    /// superuser.
    ///
    /// # Errors
    ///
    /// When the server is not there or refuses the query.
    pub fn ask(&self, sql: &str) -> io::Result<String> {
        self.ask_in("postgres", sql)
    }

    /// The same in a database of one's choice.
    ///
    /// # Errors
    ///
    /// As [`Self::ask`].
    pub fn ask_in(&self, database: &str, sql: &str) -> io::Result<String> {
        let folder = self.folder.path().display().to_string();
        let port = self.port.to_string();
        let whom = ["-X", "-U", "postgres", "-d", database, "-h", &folder];
        let what = ["-p", &port, "-v", "ON_ERROR_STOP=1", "-Atc", sql];
        let answer = self.must("psql", whom.into_iter().chain(what))?;
        Ok(answer.trim().to_owned())
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    fn must<'a>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> io::Result<String> {
        let output = self.run(program, arguments)?;
        succeeded(program, &output)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// PostgreSQL refuses to run as root.
    fn run<'a>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> io::Result<Output> {
        let program = self.bindir.join(program);
        let mut command = if is_root()? {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        // PGHOST, PGOPTIONS and the like are a developer's own settings.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It may have been stopped already, and nothing is left to be done about a failure.
        drop(self.stop(Stop::Immediate));
    }
}

fn own(path: &Path) -> io::Result<()> {
    if is_root()? {
        let owned = Command::new("chown").arg("postgres").arg(path).output()?;
        succeeded("chown", &owned)?;
    }
    Ok(())
}

fn succeeded(program: impl AsRef<OsStr>, output: &Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let program = program.as_ref().display();
    let error = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program}: {error}")))
}

fn is_root() -> io::Result<bool> {
    Ok(Command::new("id").arg("-u").output()?.stdout == b"0\n")
}
