//! Providers that misbehave, or are not there.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use fastrand::Rng;
use paybell::provider::mock::{Behavior, Fault as Misbehavior, RunningMock, Target};
use tokio::time::sleep;

use super::{Fault, Launch};
use crate::load::Load;
use crate::proxy::{Protocol, Proxy};
use crate::world::{Ground, World};

const CHANNELS: [Target; 2] = [Target::Sms, Target::Fcm];

/// A way to misbehave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// No answer, nothing accepted.
    Hangs,
    /// Connections reset, nothing accepted.
    Resets,
    /// Accepted, and no answer.
    AcceptsInSilence,
    /// Accepted, and the connection reset.
    AcceptsAndResets,
    /// Accepted after the product has stopped waiting.
    AcceptsLate,
    /// 429 with a Retry-After.
    Throttles,
}

/// Lets both providers take so long from now on, in milliseconds.
pub(super) fn slow_down(mock: &RunningMock, latency_ms: u64) -> Result<()> {
    for target in CHANNELS {
        let slow = Behavior {
            latency_ms,
            ..Behavior::default()
        };
        mock.set_behavior(target, slow)?;
    }
    Ok(())
}

/// Longer than the provider timeout of the usual settings.
const LATE: Duration = Duration::from_millis(1200);

impl Way {
    fn behavior(self) -> Behavior {
        let fault = match self {
            Self::Hangs => Misbehavior::Hang,
            Self::Resets => Misbehavior::Reset,
            Self::AcceptsInSilence => Misbehavior::AcceptThenHang,
            Self::AcceptsAndResets => Misbehavior::AcceptThenReset,
            Self::AcceptsLate => {
                return Behavior {
                    fault: Some(Misbehavior::LateAccept),
                    latency_ms: u64::try_from(LATE.as_millis()).unwrap_or(u64::MAX),
                    ..Behavior::default()
                };
            }
            Self::Throttles => {
                return Behavior {
                    status: Some(429),
                    headers: BTreeMap::from([("Retry-After".to_owned(), "1".to_owned())]),
                    ..Behavior::default()
                };
            }
        };
        Behavior {
            fault: Some(fault),
            ..Behavior::default()
        }
    }
}

/// Both providers misbehave for a while.
pub struct Misbehaves(pub Way);

#[async_trait]
impl Fault for Misbehaves {
    fn name(&self) -> &'static str {
        match self.0 {
            Way::Hangs => "provider-hangs",
            Way::Resets => "provider-resets",
            Way::AcceptsInSilence => "provider-silent",
            Way::AcceptsAndResets => "provider-accepts-resets",
            Way::AcceptsLate => "provider-late",
            Way::Throttles => "provider-throttles",
        }
    }

    fn what(&self) -> &'static str {
        match self.0 {
            Way::Hangs => "the providers never answer, and accept nothing",
            Way::Resets => "the providers reset connections, and accept nothing",
            Way::AcceptsInSilence => "the providers accept without an answer",
            Way::AcceptsAndResets => "the providers accept, then reset the connection",
            Way::AcceptsLate => "the providers accept after the timeout of their client",
            Way::Throttles => "the providers answer 429 with Retry-After",
        }
    }

    fn launch(&self, launch: &mut Launch) {
        if self.0 == Way::AcceptsLate {
            // The first wait, at least half of this, lasts beyond the late acceptance.
            launch.set("BACKOFF_BASE_MS", 1000);
        }
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        load.until_moment(0.1 + 0.2 * rng.f64()).await;
        let mock = &world.ground.mock;
        let before = CHANNELS.map(|target| mock.requests(target));
        for target in CHANNELS {
            mock.set_behavior(target, self.0.behavior())?;
        }
        load.until_moment(0.8).await;
        for (target, before) in CHANNELS.into_iter().zip(before) {
            let met = mock.requests(target) - before;
            ensure!(met >= 10, "only {met} requests met {target:?}");
        }
        Ok(())
    }

    async fn heal(&self, world: &World) -> Result<()> {
        for target in CHANNELS {
            world.ground.mock.clear_behavior(target);
        }
        Ok(())
    }
}

/// Nobody listens at the providers' address.
pub struct Away {
    length: Duration,
    proxy: OnceLock<Proxy>,
}

impl Away {
    /// For this long.
    pub fn new(length: Duration) -> Self {
        Self {
            length,
            proxy: OnceLock::new(),
        }
    }
}

#[async_trait]
impl Fault for Away {
    fn name(&self) -> &'static str {
        "provider-away"
    }

    fn what(&self) -> &'static str {
        "the providers are away for two minutes: their connections end, new ones are refused"
    }

    fn spread(&self) -> Duration {
        self.length + Duration::from_secs(3)
    }

    async fn prepare(&self, ground: &mut Ground) -> Result<()> {
        let proxy = Proxy::start(ground.mock.addr(), Protocol::Any).await?;
        ensure!(self.proxy.set(proxy).is_ok(), "a fault serves one run");
        Ok(())
    }

    fn launch(&self, launch: &mut Launch) {
        if let Some(proxy) = self.proxy.get() {
            launch.set("SMS_BASE_URL", format!("http://{}/sms", proxy.addr));
            launch.set("FCM_BASE_URL", format!("http://{}", proxy.addr));
        }
    }

    async fn inject(&self, _world: &World, rng: &mut Rng, _load: &Load) -> Result<()> {
        sleep(Duration::from_millis(rng.u64(500..1500))).await;
        if let Some(proxy) = self.proxy.get() {
            proxy.refuse();
        }
        sleep(self.length).await;
        Ok(())
    }

    async fn heal(&self, _world: &World) -> Result<()> {
        if let Some(proxy) = self.proxy.get() {
            proxy.pass();
        }
        Ok(())
    }
}
