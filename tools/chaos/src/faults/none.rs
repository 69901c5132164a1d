//! No fault at all: what the harness itself adds must be nothing.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use fastrand::Rng;

use super::Fault;
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
        Duration::from_secs(10)
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

    async fn inject(&self, _world: &World, _rng: &mut Rng, _load: &Load) -> Result<()> {
        Ok(())
    }
}
