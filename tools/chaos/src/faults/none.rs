//! No fault at all: what the harness itself adds must be nothing.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use fastrand::Rng;

use super::{Fault, Launch};
use crate::load::Load;
use crate::world::World;

/// Everything works.
pub struct Peaceful;

#[async_trait]
impl Fault for Peaceful {
    fn name(&self) -> &'static str {
        "peaceful"
    }

    fn what(&self) -> &'static str {
        "nothing fails"
    }

    fn clouds(&self) -> bool {
        false
    }

    async fn inject(&self, _world: &World, _rng: &mut Rng, _load: &Load) -> Result<()> {
        Ok(())
    }
}

/// Everything works, and there is much of it: so many payments.
pub struct Crowd(pub usize);

#[async_trait]
impl Fault for Crowd {
    fn name(&self) -> &'static str {
        "crowd"
    }

    fn what(&self) -> &'static str {
        "nothing fails: four instances share 50,000 notifications"
    }

    fn instances(&self) -> usize {
        4
    }

    fn spread(&self) -> Duration {
        Duration::from_millis(2) * u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// A crowd may make a provider slow, which is no fault: as patient as by default.
    fn launch(&self, launch: &mut Launch) {
        launch.set("OUTBOX_LEASE_SECS", 20);
        launch.set("PROVIDER_TIMEOUT_MS", 10_000);
    }

    fn payments(&self) -> Option<usize> {
        Some(self.0)
    }

    fn long_runs(&self) -> u64 {
        1
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(300)
    }

    fn clouds(&self) -> bool {
        false
    }

    async fn inject(&self, _world: &World, _rng: &mut Rng, _load: &Load) -> Result<()> {
        Ok(())
    }
}
