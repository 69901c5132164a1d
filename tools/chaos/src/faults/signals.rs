//! What signals do to a process.

use std::time::Duration;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use fastrand::Rng;
use tokio::time::sleep;

use super::Fault;
use crate::load::Load;
use crate::world::{Instance, LEASE, UP_WITHIN, World};

/// Ends in order within the usual grace and a little more.
const ENDS_WITHIN: Duration = Duration::from_secs(15);

/// SIGKILL.
pub struct Kill;

#[async_trait]
impl Fault for Kill {
    fn name(&self) -> &'static str {
        "kill"
    }

    fn what(&self) -> &'static str {
        "SIGKILL of either of two instances, five times at random instants"
    }

    fn instances(&self) -> usize {
        2
    }

    fn long_runs(&self) -> u64 {
        100
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        for moment in load.moments(5, rng) {
            let victim = world.any(rng);
            load.until_moment(moment).await;
            // One that is down already, from the last time, is spared.
            victim.signal("KILL").await?;
        }
        Ok(())
    }
}

/// SIGKILL of all instances in one moment.
pub struct KillAll;

#[async_trait]
impl Fault for KillAll {
    fn name(&self) -> &'static str {
        "kill-all"
    }

    fn what(&self) -> &'static str {
        "SIGKILL of both instances at once, then nothing runs for longer than a lease"
    }

    fn instances(&self) -> usize {
        2
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        load.until_moment(0.1 + 0.4 * rng.f64()).await;
        for instance in &world.instances {
            instance.hold();
        }
        for instance in &world.instances {
            instance.signal("KILL").await?;
        }
        sleep(LEASE + Duration::from_millis(rng.u64(0..1000))).await;
        Ok(())
    }

    async fn heal(&self, world: &World) -> Result<()> {
        for instance in &world.instances {
            instance.let_go();
        }
        Ok(())
    }
}

/// SIGSTOP, so many times.
pub struct Stall(pub u32);

/// From one stop to the next.
const STALL: Duration = Duration::from_secs(9);

#[async_trait]
impl Fault for Stall {
    fn name(&self) -> &'static str {
        "stall"
    }

    fn what(&self) -> &'static str {
        "SIGSTOP of one of three instances for longer than its lease, then SIGCONT, three times"
    }

    fn instances(&self) -> usize {
        3
    }

    fn spread(&self) -> Duration {
        STALL * self.0
    }

    fn stalls(&self) -> bool {
        true
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        for round in 0..self.0 {
            let victim = world.any(rng);
            let beyond = Duration::from_millis(rng.u64(500..2500));
            let moment = (f64::from(round) + 0.1 * rng.f64()) / f64::from(self.0);
            load.until_moment(moment.max(0.05)).await;
            ensure!(victim.signal("STOP").await?, "there is nothing to stop");
            let others = goes_on(load).await;
            sleep(LEASE + beyond).await;
            victim.signal("CONT").await?;
            others?;
        }
        Ok(())
    }

    async fn heal(&self, world: &World) -> Result<()> {
        for instance in &world.instances {
            instance.signal("CONT").await?;
        }
        Ok(())
    }
}

/// The instances that were not stopped answer more payments, soon.
async fn goes_on(load: &Load) -> Result<()> {
    let before = load.answered();
    load.until_answered(before + 10, Duration::from_secs(15))
        .await
}

/// SIGTERM.
pub struct Term;

#[async_trait]
impl Fault for Term {
    fn name(&self) -> &'static str {
        "term"
    }

    fn what(&self) -> &'static str {
        "SIGTERM of either of two instances under load, three times; each exit code must be 0"
    }

    fn instances(&self) -> usize {
        2
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        for moment in load.moments(3, rng) {
            let victim = world.any(rng);
            load.until_moment(moment).await;
            victim.until_up(UP_WITHIN).await?;
            let code = ended(victim, &["TERM"], rng).await?;
            ensure!(code == Some(0), "SIGTERM under load ended it with {code:?}");
        }
        Ok(())
    }
}

/// SIGTERM twice.
pub struct TermTwice;

#[async_trait]
impl Fault for TermTwice {
    fn name(&self) -> &'static str {
        "term-twice"
    }

    fn what(&self) -> &'static str {
        "SIGTERM and a second one a moment later, three times: it ends at once, the lease heals it"
    }

    fn instances(&self) -> usize {
        2
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        for moment in load.moments(3, rng) {
            let victim = world.any(rng);
            load.until_moment(moment).await;
            victim.until_up(UP_WITHIN).await?;
            ended(victim, &["TERM", "TERM"], rng).await?;
        }
        Ok(())
    }
}

/// Sends these signals, a moment apart, and waits for the end; the exit code.
async fn ended(victim: &Instance, signals: &[&str], rng: &mut Rng) -> Result<Option<i32>> {
    let before = victim.exits().len();
    for signal in signals {
        victim.signal(signal).await?;
        sleep(Duration::from_millis(rng.u64(0..30))).await;
    }
    victim.until_exits(before + 1, ENDS_WITHIN).await?;
    Ok(victim.exits().get(before).and_then(|exit| exit.code))
}
