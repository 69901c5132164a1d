//! The faults, one file a group. To add one: implement [`Fault`], and name it in [`all`].

mod clocks;
mod network;
mod none;
mod points;
mod postgres;
mod provider;
mod signals;
mod sqlite;
mod starts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use fastrand::Rng;
use testbed::postgres::Stop;

use crate::load::Load;
use crate::world::{Ground, Kind, World};
use network::{OutOfReach, Outage};
use provider::{Away, Misbehaves, Way};

/// How one instance is started: what a fault may change before each of its lives.
#[derive(Debug)]
pub struct Launch {
    /// Which instance, from 0.
    pub instance: usize,
    /// How often it was started before.
    pub life: usize,
    /// Of the run.
    pub seed: u64,
    /// The product's whole environment; what is set here wins over the usual settings.
    pub env: BTreeMap<String, String>,
    /// A program and its arguments that the product is started through. It must `exec` the product,
    /// so that signals meet it.
    pub wrapper: Vec<String>,
}

impl Launch {
    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.env.insert(name.to_owned(), value.to_string());
    }
}

/// One way of attacking. A value serves one run, so what it makes in `prepare` may be kept in it
/// (`OnceLock`, `Mutex`).
#[async_trait]
pub trait Fault: Send + Sync {
    /// As it is called on the command line.
    fn name(&self) -> &'static str;

    /// What it does, in one line.
    fn what(&self) -> &'static str;

    /// On which databases it makes sense.
    fn applies_to(&self, _database: Kind) -> bool {
        true
    }

    /// How many instances it needs.
    fn instances(&self) -> usize {
        1
    }

    /// For how long payments come in, evenly: longer than `inject` takes, so that the fault meets
    /// them. They go on at that rate until it has returned.
    fn spread(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// How many payments it takes, if not as many as usual.
    fn payments(&self) -> Option<usize> {
        None
    }

    /// How many runs on each database the full proof takes.
    fn long_runs(&self) -> u64 {
        5
    }

    /// Within what time after the last payment everything must be SENT.
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// Within what time of its end a payment must be answered 201 again.
    fn accepts_within(&self) -> Option<Duration> {
        None
    }

    /// How long after its 201 a notification may be received at the latest.
    fn latest(&self) -> Option<Duration> {
        None
    }

    /// Whether an instance may be stopped between its last look at the lease and its write; then a
    /// repeated SMS is explained row by row instead of counted as doubled.
    fn stalls(&self) -> bool {
        false
    }

    /// Whether the lease of a holder that died may end early, by a clock that is set forward.
    fn ends_leases_early(&self) -> bool {
        false
    }

    /// Whether an outcome may be unknown at all; where it may not, a repeated push is doubled.
    fn clouds(&self) -> bool {
        true
    }

    /// Whether the run needs a PostgreSQL server that no other run uses, with these lines in its
    /// `postgresql.conf`: whatever touches the server rather than one database does.
    fn own_server(&self) -> Option<&'static str> {
        None
    }

    /// Makes what must be there before the first instance starts: a proxy, a small disk.
    async fn prepare(&self, _ground: &mut Ground) -> Result<()> {
        Ok(())
    }

    /// Changes how an instance is started; called before each of its lives.
    fn launch(&self, _launch: &mut Launch) {}

    /// Does its worst while payments come in. It draws every choice from `rng` alone, so that a seed
    /// repeats its schedule. An error fails the run: something was seen that must not be.
    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()>;

    /// Mends what `inject` left broken; called in any case. The time to recover runs from its end.
    async fn heal(&self, _world: &World) -> Result<()> {
        Ok(())
    }
}

/// How long faults take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// As long as they are meant to.
    Usual,
    /// As short as they still show something.
    Short,
}

impl Scale {
    /// One or the other.
    pub fn pick<T>(self, usual: T, short: T) -> T {
        match self {
            Self::Usual => usual,
            Self::Short => short,
        }
    }
}

/// How long an outage lasts that is to be outlasted in earnest, and one that is to be over soon.
const MINUTE: Duration = Duration::from_secs(60);
const SECONDS: Duration = Duration::from_secs(5);

/// Makes a fault for one run.
pub type Make = fn(Scale) -> Arc<dyn Fault>;

/// Every fault, in the order in which they run.
pub fn all() -> Vec<Make> {
    vec![
        |_| Arc::new(none::Peaceful),
        |scale| Arc::new(none::Crowd(scale.pick(25_000, 1_000))),
        |_| Arc::new(signals::Kill),
        |_| Arc::new(signals::KillAll),
        |scale| Arc::new(signals::Stall(scale.pick(3, 1))),
        |_| Arc::new(signals::Term),
        |_| Arc::new(signals::TermTwice),
        |_| Arc::new(starts::Starts),
        |_| Arc::new(points::RECORDED),
        |_| Arc::new(points::ACCEPTED),
        |_| Arc::new(points::CLAIMED),
        |_| Arc::new(points::LAST),
        |_| Arc::new(points::SETTLED),
        |_| Arc::new(postgres::Restart(Stop::Fast)),
        |_| Arc::new(postgres::Restart(Stop::Immediate)),
        |_| Arc::new(postgres::Terminate),
        |_| Arc::new(postgres::ReadOnly),
        |_| Arc::new(postgres::IdleTransactions),
        |_| Arc::new(network::LostReplies::default()),
        |scale| Arc::new(OutOfReach::new(Outage::Cut, scale.pick(MINUTE, SECONDS))),
        |scale| Arc::new(OutOfReach::new(Outage::Stall, scale.pick(MINUTE, SECONDS))),
        |_| Arc::new(network::StalledPeer::default()),
        |scale| Arc::new(clocks::ClocksApart::new(scale.pick(25_000, 1_000))),
        |_| Arc::new(clocks::ClockSteps::new(false)),
        |_| Arc::new(clocks::ClockSteps::new(true)),
        |_| Arc::new(Misbehaves(Way::Hangs)),
        |_| Arc::new(Misbehaves(Way::Resets)),
        |_| Arc::new(Misbehaves(Way::AcceptsInSilence)),
        |_| Arc::new(Misbehaves(Way::AcceptsAndResets)),
        |_| Arc::new(Misbehaves(Way::AcceptsLate)),
        |_| Arc::new(Misbehaves(Way::Throttles)),
        |scale| Arc::new(Away::new(scale.pick(MINUTE * 2, SECONDS * 2))),
        |_| Arc::new(sqlite::DiskFull::default()),
        |_| Arc::new(sqlite::WriteLock),
    ]
}
