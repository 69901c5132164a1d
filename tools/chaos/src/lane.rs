//! Where runs take place, one after the other: a folder and a PostgreSQL server, kept from run to run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use paybell::provider::mock::Mock;
use testbed::postgres::Cluster;

use crate::faults::Fault;
use crate::world::{Backing, Ground, Kind};

/// Sessions that a server takes: eight an instance, and more than one instance.
const SESSIONS: &str = "max_connections = 300\n";

/// Runs of one lane do not overlap.
pub struct Lane {
    folder: PathBuf,
    server: Option<Arc<Cluster>>,
    runs: usize,
}

impl Lane {
    /// A lane with this folder.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            server: None,
            runs: 0,
        }
    }

    /// New ground for a run.
    ///
    /// # Errors
    ///
    /// When the folder, the database or the providers cannot be had.
    pub async fn ground(&mut self, fault: &dyn Fault, kind: Kind, seed: u64) -> Result<Ground> {
        self.runs += 1;
        let name = format!("{}-{}-{seed}-{}", fault.name(), kind.name(), self.runs);
        let folder = self.folder.join(&name);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let database = match kind {
            Kind::Sqlite => Backing::Sqlite {
                path: folder.join("paybell.db"),
            },
            Kind::Postgres => self.postgres(fault.own_server()).await?,
        };
        let mock = Mock::start(([127, 0, 0, 1], 0).into()).context("mock providers")?;
        Ok(Ground {
            folder,
            database,
            mock,
            seed,
        })
    }

    async fn postgres(&mut self, own: Option<&'static str>) -> Result<Backing> {
        let cluster = match (own, &self.server) {
            (Some(conf), _) => start(conf).await?,
            (None, Some(shared)) => Arc::clone(shared),
            (None, None) => Arc::clone(self.server.insert(start("").await?)),
        };
        let name = format!("run_{}", self.runs);
        let backing = Backing::Postgres {
            cluster,
            name: name.clone(),
        };
        let create = format!("CREATE DATABASE {name}");
        backing.server(move |cluster| cluster.ask(&create)).await?;
        Ok(backing)
    }
}

async fn start(conf: &str) -> Result<Arc<Cluster>> {
    let conf = format!("{SESSIONS}{conf}\n");
    let started = tokio::task::spawn_blocking(move || {
        Cluster::start(&conf, "host all all 127.0.0.1/32 trust", &[])
    });
    let cluster = started.await.context("its start panicked")?;
    Ok(Arc::new(cluster.context("PostgreSQL")?))
}

/// Removes what a good run leaves behind.
pub fn tidy(folder: &Path) -> Result<()> {
    std::fs::remove_dir_all(folder).with_context(|| folder.display().to_string())
}
