//! Requests that may be out at one provider at a time, shared fairly by fresh and due rows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Which door a row came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The channel, right after the commit.
    Fast,
    /// The fallback scheduler's claim.
    Due,
}

/// The permits of one lane.
///
/// Each door may use every permit while nothing waits at the other, and no more than half while
/// something does: neither can starve the other.
#[derive(Debug)]
pub struct Permits {
    max: usize,
    in_use: Mutex<InUse>,
    /// Rung whenever a permit comes back.
    pub freed: Notify,
}

#[derive(Debug, Default)]
struct InUse {
    fast: usize,
    due: usize,
}

impl InUse {
    fn of(&mut self, door: Door) -> &mut usize {
        match door {
            Door::Fast => &mut self.fast,
            Door::Due => &mut self.due,
        }
    }
}

impl Permits {
    /// `max` permits, at least one.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max: max.max(1),
            in_use: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Takes up to `wanted` permits for a door, or none when fewer than `least` are to be had.
    pub fn take(
        self: &Arc<Self>,
        door: Door,
        wanted: usize,
        least: usize,
        other_waits: bool,
    ) -> Vec<Permit> {
        let mut in_use = self.lock();
        let free = self.max.saturating_sub(in_use.fast + in_use.due);
        let share = if other_waits {
            self.max.div_ceil(2)
        } else {
            self.max
        };
        let own = in_use.of(door);
        let count = wanted.min(free).min(share.saturating_sub(*own));
        if count == 0 || count < least {
            return Vec::new();
        }
        *own += count;
        drop(in_use);
        (0..count)
            .map(|_| Permit {
                permits: Arc::clone(self),
                door,
            })
            .collect()
    }

    /// How many requests may be out at most.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Permits in use.
    pub fn in_use(&self) -> usize {
        let in_use = self.lock();
        in_use.fast + in_use.due
    }

    fn lock(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to have one request out; held until the outcome is written.
#[derive(Debug)]
pub struct Permit {
    permits: Arc<Permits>,
    door: Door,
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.permits.lock().of(self.door) -= 1;
        self.permits.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_uses_all_permits_while_the_other_is_idle() {
        let permits = Permits::new(4);
        assert_eq!(permits.take(Door::Fast, 9, 1, false).len(), 4);
    }

    #[test]
    fn a_door_leaves_half_to_the_other_while_it_waits() {
        let permits = Permits::new(4);
        let fast = permits.take(Door::Fast, 9, 1, true);
        let due = permits.take(Door::Due, 9, 1, true);
        assert_eq!((fast.len(), due.len()), (2, 2));
    }

    #[test]
    fn one_permit_is_enough_for_both_doors_in_turn() {
        let permits = Permits::new(1);
        let fast = permits.take(Door::Fast, 1, 1, true);
        assert_eq!(fast.len(), 1);
        assert!(permits.take(Door::Due, 1, 1, true).is_empty());
        drop(fast);
        assert_eq!(permits.take(Door::Due, 1, 1, true).len(), 1);
    }

    #[test]
    fn fewer_than_the_least_are_not_taken() {
        let permits = Permits::new(4);
        let held = permits.take(Door::Due, 3, 1, false);
        assert!(permits.take(Door::Due, 4, 2, false).is_empty());
        drop(held);
        assert_eq!(permits.in_use(), 0);
    }
}
