//! Named points in the product at which a process dies: its fail points.

use anyhow::{Result, ensure};
use async_trait::async_trait;
use fastrand::Rng;
use paybell::provider::mock::{Behavior, Fault as Misbehavior, Target};

use super::{Fault, Launch};
use crate::client::{phone, token};
use crate::load::Load;
use crate::world::{UP_WITHIN, World};

/// The first instance dies at the point in so many of its lives.
const DEATHS: usize = 3;

/// One recipient of so many fails once: never ten in a row, which would open the breaker.
const EVERY: usize = 10;

/// Payments go on until the fault is over: so many times as many are prepared for.
const BEYOND: usize = 20;

/// A point at which the first of two instances dies.
pub struct Point {
    name: &'static str,
    what: &'static str,
    /// The product's name of it.
    point: &'static str,
    /// It is passed so often, at most, before it is deadly.
    passes: u64,
    /// What makes the point be passed often.
    settings: &'static [(&'static str, &'static str)],
}

/// After the commit, before anything is sent.
pub const RECORDED: Point = Point {
    name: "point-recorded",
    what: "death after the commit, before the answer and the send",
    point: "committed",
    passes: 20,
    settings: &[],
};

/// After the provider accepted, before that is written.
pub const ACCEPTED: Point = Point {
    name: "point-accepted",
    what: "death after the provider accepted, before that is written",
    point: "accepted",
    passes: 30,
    settings: &[],
};

/// In the middle of a claimed batch.
pub const CLAIMED: Point = Point {
    name: "point-claimed",
    what: "death in the middle of a batch of claimed rows",
    point: "claimed",
    passes: 5,
    // With so small a channel, and so few requests a second, most rows are born due and claimed.
    settings: &[
        ("OUTBOX_QUEUE_CAPACITY", "1"),
        ("SMS_MAX_PER_SECOND", "5"),
        ("FCM_MAX_PER_SECOND", "5"),
    ],
};

/// On the last attempt that a row is allowed.
pub const LAST: Point = Point {
    name: "point-last-attempt",
    what: "death on the last allowed attempt; every tenth recipient's first one fails",
    point: "last-attempt",
    passes: 3,
    settings: &[("OUTBOX_MAX_ATTEMPTS", "2")],
};

/// After an outcome was written.
pub const SETTLED: Point = Point {
    name: "point-settled",
    what: "death right after outcomes were written",
    point: "settled",
    passes: 30,
    settings: &[],
};

#[async_trait]
impl Fault for Point {
    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }

    fn instances(&self) -> usize {
        2
    }

    fn launch(&self, launch: &mut Launch) {
        for (name, value) in self.settings {
            launch.set(name, value);
        }
        if launch.instance == 0 && launch.life < DEATHS {
            let mut rng = Rng::with_seed(launch.seed);
            let passes: Vec<u64> = (0..DEATHS).map(|_| rng.u64(0..self.passes)).collect();
            let point = format!(
                "paybell-dies-at/{}={}*off->1*return",
                self.point, passes[launch.life]
            );
            launch.set("FAILPOINTS", point);
        }
    }

    async fn inject(&self, world: &World, _rng: &mut Rng, load: &Load) -> Result<()> {
        if self.point == LAST.point {
            fail_some_once(world, load)?;
        }
        let victim = &world.instances[0];
        let died = victim.until_exits(DEATHS, load.spread + UP_WITHIN).await;
        let deaths = victim.exits().len();
        ensure!(deaths > 0, "{} was never passed: {died:?}", self.point);
        died
    }
}

fn fail_some_once(world: &World, load: &Load) -> Result<()> {
    for n in (0..load.payments * BEYOND).step_by(EVERY) {
        for (target, to) in [(Target::Sms, phone(n)), (Target::Fcm, token(n))] {
            let once = Behavior {
                to: Some(to),
                times: Some(1),
                fault: Some(Misbehavior::Reset),
                ..Behavior::default()
            };
            world.ground.mock.set_behavior(target, once)?;
        }
    }
    Ok(())
}
