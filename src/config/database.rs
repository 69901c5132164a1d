//! The database.
//!
//! - `DATABASE_URL`: `sqlite://FILE` or `postgres://…`
//! - `DATABASE_MAX_CONNECTIONS`: size of the PostgreSQL pool
//! - `DATABASE_TIMEOUT_MS`: milliseconds that any database call may take

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::postgres_url::PostgresUrl;
use super::reader::{ConfigErrors, Faulty, Reader};
use super::{Env, variables};

/// Where payments and outbox rows are kept.
#[derive(Debug, Clone)]
pub struct DatabaseConfig {
    /// Which database.
    pub url: DatabaseUrl,
    /// Size of the PostgreSQL pool.
    pub max_connections: usize,
    /// How long a request waits for its commit, and the deadline of every database call.
    pub timeout: Duration,
}

/// A database that Paybell can use.
#[derive(Debug, Clone)]
pub enum DatabaseUrl {
    /// A file of the embedded SQLite.
    Sqlite {
        /// As written: relative to the current directory unless it begins with `/`.
        path: PathBuf,
    },
    /// A PostgreSQL server.
    Postgres(PostgresUrl),
}

impl DatabaseConfig {
    /// Reads the database's variables alone, for commands that need nothing else.
    ///
    /// # Errors
    /// All faults of these variables at once.
    pub fn from_env(env: &Env) -> Result<Self, ConfigErrors> {
        let mut reader = Reader::new(env);
        let config = Self::read(&mut reader);
        reader.finish(config)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Faulty> {
        let url = reader.required(variables::DATABASE_URL, parse_url);
        let max_connections = reader.number(variables::DATABASE_MAX_CONNECTIONS, 1..=1000);
        let timeout = reader.millis(variables::DATABASE_TIMEOUT_MS, 100..=60_000);
        Ok(Self {
            url: url?,
            max_connections: max_connections?,
            timeout: timeout?,
        })
    }
}

impl fmt::Display for DatabaseUrl {
    /// Never shows a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path } => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

fn parse_url(text: &str) -> Result<DatabaseUrl, String> {
    if text.contains(":memory:") {
        return Err(
            "would give each connection an empty database of its own: name a file, for \
                    example sqlite://paybell.db"
                .to_owned(),
        );
    }
    match text.split_once("://") {
        Some(("sqlite", path)) => sqlite_path(path),
        Some(("postgres" | "postgresql", _)) => PostgresUrl::parse(text).map(DatabaseUrl::Postgres),
        _ => Err(
            "is neither a sqlite:// nor a postgres:// URL: write sqlite://FILE or \
                  postgres://USER:PASSWORD@HOST:PORT/DATABASE"
                .to_owned(),
        ),
    }
}

fn sqlite_path(path: &str) -> Result<DatabaseUrl, String> {
    let problem = if path.is_empty() {
        "names no file: write for example sqlite://paybell.db"
    } else if path.contains(['?', '#']) {
        "has a ? or #, which a sqlite:// URL may not: leave parameters out, Paybell sets its own"
    } else if path.ends_with('/') {
        "names a folder: add a file name"
    } else if path.starts_with("file:") {
        "names a file twice: leave file: out"
    } else {
        return Ok(DatabaseUrl::Sqlite {
            path: PathBuf::from(path),
        });
    };
    Err(problem.to_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn sqlite_paths_are_relative_or_absolute() {
        for (url, expected) in [
            ("sqlite://paybell.db", "paybell.db"),
            ("sqlite:///var/lib/pay.db", "/var/lib/pay.db"),
        ] {
            let DatabaseUrl::Sqlite { path } = parse_url(url).unwrap() else {
                panic!("{url}")
            };
            assert_eq!(path, PathBuf::from(expected));
            assert_eq!(parse_url(url).unwrap().to_string(), url);
        }
    }

    #[test]
    fn other_urls_are_refused_with_a_way_out() {
        for (url, hint) in [
            (":memory:", "name a file"),
            ("sqlite::memory:", "name a file"),
            ("sqlite://:memory:", "name a file"),
            ("sqlite://", "names no file"),
            ("sqlite://a.db?mode=ro", "leave parameters out"),
            ("sqlite://data/", "add a file name"),
            ("sqlite://file:a.db", "leave file: out"),
            ("sqlite:a.db", "write sqlite://FILE"),
            ("mysql://h/db", "neither a sqlite:// nor a postgres://"),
            ("paybell.db", "neither a sqlite:// nor a postgres://"),
        ] {
            let problem = parse_url(url).unwrap_err();
            assert!(problem.contains(hint), "{url}: {problem}");
        }
    }
}
