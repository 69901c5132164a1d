//! Instances that start together.

use anyhow::{Result, ensure};
use async_trait::async_trait;
use fastrand::Rng;

use super::Fault;
use crate::load::Load;
use crate::world::World;

/// Three on an empty database.
pub struct Starts;

#[async_trait]
impl Fault for Starts {
    fn name(&self) -> &'static str {
        "starts"
    }

    fn what(&self) -> &'static str {
        "three instances start at once on an empty database; none may fail"
    }

    fn instances(&self) -> usize {
        3
    }

    fn clouds(&self) -> bool {
        false
    }

    async fn inject(&self, world: &World, _rng: &mut Rng, _load: &Load) -> Result<()> {
        for instance in &world.instances {
            let exits = instance.exits();
            ensure!(
                exits.is_empty(),
                "a start failed: {exits:?}\n{}",
                instance.log()
            );
        }
        Ok(())
    }
}
