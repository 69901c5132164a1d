//! No fault at all: what the harness itself adds must be nothing.

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
