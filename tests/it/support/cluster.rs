//! A PostgreSQL server of one test's own, for what the shared one cannot be asked to do.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A running server; it stops and goes with this value.
pub struct Cluster {
    folder: TempDir,
    bindir: PathBuf,
    /// On 127.0.0.1.
    pub port: u16,
}

impl Cluster {
    /// Starts a server with these lines in `postgresql.conf` and `pg_hba.conf` and these files in
    /// its data folder, readable to its owner alone. It can be reached by its socket in any case.
    pub fn start(conf: &str, hba: &str, files: &[(&str, &str)]) -> Self {
        let bindir = std::env::var("TEST_PG_BINDIR")
            .expect("TEST_PG_BINDIR is not set: run the tests with scripts/test");
        // Short and outside TMPDIR: a socket's path may have 107 characters.
        let folder = TempDir::with_prefix_in("paybell-pg-", "/tmp").unwrap();
        let mut cluster = Self {
            folder,
            bindir: bindir.into(),
            port: 0,
        };
        cluster.own(cluster.folder.path());
        let data = cluster.data();
        cluster.must("initdb", &["-U", "postgres", "--auth=trust", "-D", &data]);
        for (name, content) in files {
            let file = cluster.folder.path().join("data").join(name);
            std::fs::write(&file, content).unwrap();
            let private = Command::new("chmod").arg("600").arg(&file).status();
            assert!(private.unwrap().success());
            cluster.own(&file);
        }
        cluster.write("postgresql.conf", conf);
        cluster.write("pg_hba.conf", &format!("local all all trust\n{hba}\n"));
        cluster.listen();
        cluster
    }

    /// A port that is free now may be taken a moment later: tries a few.
    fn listen(&mut self) {
        let (data, log) = (self.data(), format!("{}/server.log", self.data()));
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            self.port = free.local_addr().unwrap().port();
            drop(free);
            let options = format!(
                "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={}",
                self.port,
                self.folder.path().display()
            );
            let start = ["-D", &data, "-l", &log, "-w", "-o", &options, "start"];
            if self.run("pg_ctl", &start).status.success() {
                return;
            }
        }
        panic!("{}", std::fs::read_to_string(log).unwrap_or_default());
    }

    /// The one value that a query gives, asked through the socket as the superuser.
    pub fn ask(&self, sql: &str) -> String {
        let folder = self.folder.path().display().to_string();
        let port = self.port.to_string();
        let arguments = ["-U", "postgres", "-h", &folder, "-p", &port, "-Atc", sql];
        self.must("psql", &arguments).trim().to_owned()
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    fn write(&self, name: &str, lines: &str) {
        std::fs::write(Path::new(&self.data()).join(name), lines).unwrap();
    }

    fn must(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.run(program, arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// PostgreSQL refuses to run as root.
    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let program = self.bindir.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap()
    }

    fn own(&self, path: &Path) {
        if is_root() {
            let owned = Command::new("chown").arg("postgres").arg(path).status();
            assert!(owned.unwrap().success());
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self.data();
        self.run("pg_ctl", &["-D", &data, "-m", "immediate", "-w", "stop"]);
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}
