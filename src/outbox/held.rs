//! Rows in this process's hands: leased to it, and not yet settled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::store::HeldRow;

/// The rows that this process holds, with the end of each lease on its monotonic clock.
///
/// A process never claims a row that it already holds: after a stall its own lease may have ended
/// while its own request is still out.
#[derive(Debug, Default)]
pub struct Holdings {
    ends: Mutex<HashMap<Uuid, Instant>>,
}

impl Holdings {
    /// Notes a row as held until the returned value is dropped.
    pub fn hold(self: &Arc<Self>, row: HeldRow, lease_end: Instant) -> Held {
        self.lock().insert(row.id.0, lease_end);
        Held {
            row,
            lease_end,
            holdings: Arc::clone(self),
        }
    }

    /// Rows still held although their lease has ended.
    pub fn overdue(&self, now: Instant) -> Vec<Uuid> {
        self.lock()
            .iter()
            .filter(|(_, end)| **end <= now)
            .map(|(id, _)| *id)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Instant>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A row in hand.
#[derive(Debug)]
pub struct Held {
    /// The row as it was recorded or claimed.
    pub row: HeldRow,
    /// End of the lease, measured from before it was asked for: never later than the database's.
    pub lease_end: Instant,
    holdings: Arc<Holdings>,
}

impl Held {
    /// What is left of the lease.
    pub fn lease_left(&self) -> Duration {
        self.lease_end.saturating_duration_since(Instant::now())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut ends = self.holdings.lock();
        // The row may be in our hands anew, under a later lease, before this one is put down.
        if ends.get(&self.row.id.0) == Some(&self.lease_end) {
            ends.remove(&self.row.id.0);
        }
    }
}
