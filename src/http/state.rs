//! What every handler shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::auth::{AdminToken, ApiKeys};
use super::body::Limits;
use super::problem::Problem;
use crate::metrics::Metrics;
use crate::outbox::Engine;
use crate::payment::request::Rules;
use crate::store::{Store, StoreError};

/// Before a client that found the database away should try again.
const COME_BACK: Duration = Duration::from_secs(1);

/// One of these serves the whole process.
pub struct AppState {
    /// Commits payments.
    pub engine: Engine,
    /// Reads what was committed.
    pub store: Store,
    /// Figures.
    pub metrics: Arc<Metrics>,
    /// What a valid payment is.
    pub rules: Rules,
    /// Who may post.
    pub api_keys: ApiKeys,
    /// Who may operate; `None`: the admin routes do not exist.
    pub admin_token: Option<AdminToken>,
    /// Bounds of a request.
    pub limits: Limits,
    /// The process was told to stop: no longer ready.
    pub stopping: Arc<AtomicBool>,
}

impl AppState {
    /// Whether the process was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// The database is away: come back. Everything else it says is a fault of ours.
impl From<StoreError> for Problem {
    fn from(fault: StoreError) -> Self {
        match fault {
            StoreError::Conflict(conflict) => Self::Conflict {
                detail: conflict.detail.into(),
                retry_after: conflict.retry_after,
            },
            StoreError::Data(_) | StoreError::Migration(_) => {
                tracing::error!(%fault, "the database refused what should have been right");
                Self::Internal
            }
            StoreError::Unavailable(_) | StoreError::Failed(_) => {
                tracing::warn!(%fault, "the database is not available");
                unavailable()
            }
        }
    }
}

/// 503 with the usual time to come back.
pub fn unavailable() -> Problem {
    Problem::Unavailable {
        retry_after: COME_BACK,
    }
}
