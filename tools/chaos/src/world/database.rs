//! The database under the product.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use testbed::postgres::Cluster;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A file.
    Sqlite,
    /// A server.
    Postgres,
}

impl Kind {
    /// As it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// One run's database.
#[derive(Clone)]
pub enum Backing {
    /// A file in a folder of the run's own.
    Sqlite {
        /// The file.
        path: PathBuf,
    },
    /// An empty database in a server.
    Postgres {
        /// The server; see [`super::super::faults::Fault::own_server`] before touching it.
        cluster: Arc<Cluster>,
        /// The database's name.
        name: String,
    },
}

impl Backing {
    /// Which database it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Sqlite { .. } => Kind::Sqlite,
            Self::Postgres { .. } => Kind::Postgres,
        }
    }

    /// What `DATABASE_URL` says when nothing stands in between.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite { path } => format!("sqlite://{}", path.display()),
            Self::Postgres { cluster, name } => cluster.url(name),
        }
    }

    /// Calls the server in a thread of its own, because such calls block.
    ///
    /// # Errors
    ///
    /// That of the call; or when the database is a file.
    pub async fn server<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Cluster) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let Self::Postgres { cluster, .. } = self else {
            bail!("a SQLite file has no server");
        };
        let cluster = Arc::clone(cluster);
        let called = tokio::task::spawn_blocking(move || call(&cluster)).await;
        called
            .context("a call of the server panicked")?
            .context("PostgreSQL")
    }

    /// Asks the run's PostgreSQL database for one value, as the superuser and past every proxy.
    ///
    /// # Errors
    ///
    /// When the server is not there or refuses the query; or when the database is a file.
    pub async fn ask(&self, sql: &str) -> Result<String> {
        let (name, sql) = match self {
            Self::Postgres { name, .. } => (name.clone(), sql.to_owned()),
            Self::Sqlite { .. } => bail!("a SQLite file has no server"),
        };
        self.server(move |cluster| cluster.ask_in(&name, &sql))
            .await
    }
}
