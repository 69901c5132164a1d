//! What can go wrong with the database, by what a caller should do about it.

use diesel::result::{DatabaseErrorKind, Error};
use diesel_async::pooled_connection::{PoolError as SetupError, deadpool::PoolError};

/// What PostgreSQL says of a lock that it waited for in vain.
const LOCKED: &str = "canceling statement due to lock timeout";

/// A failed call to the database. Texts name no value of any row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It could not be reached, not in time, or takes no writes now (a full disk, a read-only
    /// session, a deadlock); the call may have taken effect.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    /// It refuses these very data; repeating is useless.
    #[error("the database refused the data: {0}")]
    Data(String),
    /// It answered with an error that has no better name; it may pass.
    #[error("the database answered with an error: {0}")]
    Failed(String),
    /// Its schema could not be brought up to date.
    #[error("the migrations failed: {0}")]
    Migration(String),
    /// The operator's wish does not fit the row's state.
    #[error("{}", .0.detail)]
    Conflict(Conflict),
}

/// Why a replay or a cancel was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// What stands in the way, and how to go on.
    pub detail: String,
    /// When asking again may help.
    pub retry_after: Option<std::time::Duration>,
}

impl StoreError {
    /// Our own deadline passed.
    pub fn deadline() -> Self {
        Self::Unavailable("no answer within DATABASE_TIMEOUT_MS".to_owned())
    }

    /// Whether the same call can only fail again.
    pub fn is_data(&self) -> bool {
        matches!(self, Self::Data(_))
    }

    /// Whether others hold a lock that the call waited for; it took no effect.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Unavailable(reason) if reason == LOCKED)
    }

    /// Whether the fault may lie with one member of a batch.
    pub fn may_be_a_member(&self) -> bool {
        matches!(self, Self::Data(_) | Self::Failed(_))
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        match &error {
            Error::DatabaseError(kind, information) => {
                of_kind(kind, information.message().to_owned())
            }
            Error::BrokenTransactionManager => Self::Unavailable(error.to_string()),
            Error::SerializationError(_) | Error::DeserializationError(_) => {
                Self::Data(error.to_string())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

fn of_kind(kind: &DatabaseErrorKind, message: String) -> StoreError {
    use DatabaseErrorKind as Kind;
    match kind {
        Kind::UniqueViolation
        | Kind::ForeignKeyViolation
        | Kind::NotNullViolation
        | Kind::CheckViolation
        | Kind::ExclusionViolation
        | Kind::RestrictViolation => StoreError::Data(message),
        Kind::UnableToSendCommand
        | Kind::ClosedConnection
        | Kind::ReadOnlyTransaction
        | Kind::SerializationFailure => StoreError::Unavailable(message),
        _ if is_the_databases(&message) => StoreError::Unavailable(message),
        _ => StoreError::Failed(message),
    }
}

/// Errors that diesel gives no kind, and that say something about the database, not about a row.
/// One that is missed here costs a batch its company, nothing more.
fn is_the_databases(message: &str) -> bool {
    // SQLite's texts are fixed (sqlite3ErrStr); PostgreSQL's are those of an English server.
    const TEXTS: [&str; 11] = [
        "database is locked",
        "database table is locked",
        "database or disk is full",
        "attempt to write a readonly database",
        "disk I/O error",
        "unable to open database file",
        "deadlock detected",
        "canceling statement due to",
        "terminating connection",
        "the database system is",
        "could not",
    ];
    TEXTS.iter().any(|text| message.starts_with(text))
}

impl From<PoolError> for StoreError {
    fn from(error: PoolError) -> Self {
        let reason = match error {
            PoolError::Timeout(_) => "no free connection within DATABASE_TIMEOUT_MS".to_owned(),
            PoolError::Backend(SetupError::ConnectionError(error)) => error.to_string(),
            PoolError::Backend(SetupError::QueryError(error)) => error.to_string(),
            other => other.to_string(),
        };
        Self::Unavailable(reason)
    }
}
