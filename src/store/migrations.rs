//! Migrations, embedded in the binary and applied under a lock, so that several instances may start
//! at once on an empty database.

use diesel::SqliteConnection;
use diesel::migration::MigrationSource;
use diesel_async::{AsyncMigrationHarness, AsyncPgConnection, RunQueryDsl};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use super::StoreError;

const SQLITE: EmbeddedMigrations = embed_migrations!("migrations/sqlite");
const POSTGRES: EmbeddedMigrations = embed_migrations!("migrations/postgres");

/// Key of the advisory lock: the bytes of "paybell".
const LOCK: i64 = 0x70_61_79_62_65_6c_6c;

/// Applies what is pending inside one exclusive transaction: a second process waits, then finds
/// nothing to do.
pub fn on_sqlite(conn: &mut SqliteConnection) -> Result<Vec<String>, StoreError> {
    conn.exclusive_transaction(|conn| {
        let applied = conn
            .run_pending_migrations(SQLITE)
            .map_err(|error| StoreError::Migration(error.to_string()))?;
        Ok(applied.iter().map(ToString::to_string).collect())
    })
}

/// Applies what is pending under an advisory lock, which ends with the connection.
pub async fn on_postgres(mut conn: AsyncPgConnection) -> Result<Vec<String>, StoreError> {
    diesel::sql_query("SELECT pg_advisory_lock($1)")
        .bind::<diesel::sql_types::BigInt, _>(LOCK)
        .execute(&mut conn)
        .await?;
    let applied = tokio::task::spawn_blocking(move || {
        let mut harness = AsyncMigrationHarness::new(conn);
        harness
            .run_pending_migrations(POSTGRES)
            .map(|versions| versions.iter().map(ToString::to_string).collect())
            .map_err(|error| StoreError::Migration(explained(&error.to_string())))
    })
    .await;
    applied.map_err(|error| StoreError::Migration(error.to_string()))?
}

/// The versions that this build knows, oldest first; both databases have the same.
pub fn versions() -> Result<Vec<String>, StoreError> {
    let known = MigrationSource::<diesel::sqlite::Sqlite>::migrations(&SQLITE)
        .map_err(|error| StoreError::Migration(error.to_string()))?;
    let mut versions: Vec<String> = known
        .iter()
        .map(|migration| migration.name().version().to_string())
        .collect();
    versions.sort_unstable();
    Ok(versions)
}

/// A pooler that hands each transaction another session mixes up prepared statements. The start is
/// where that shows first, and only sometimes.
fn explained(error: &str) -> String {
    if !error.contains("prepared statement") {
        return error.to_owned();
    }
    format!(
        "{error}: between here and the server is a pooler in transaction mode; \
         connect to the server itself, or let the pooler work in session mode"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pooler_in_between_is_named() {
        let told = explained("Failed to run: prepared statement \"s3\" already exists");
        assert!(told.contains("\"s3\" already exists: between"), "{told}");
        assert!(told.contains("session mode"), "{told}");
        assert_eq!(explained("syntax error"), "syntax error");
    }
}
