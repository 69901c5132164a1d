//! Everything of one run that is not the client: mock providers, database, instances.

mod database;
mod instance;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use paybell::provider::mock::{Behavior, RunningMock, Target};

use crate::faults::{Fault, Launch};

pub use database::{Backing, Kind};
pub use instance::{Exit, Instance};

/// Opens the admin routes.
pub const ADMIN_TOKEN: &str = "admin-token-of-the-harness";

/// `OUTBOX_LEASE_SECS` of every instance, unless its fault says otherwise.
pub const LEASE: Duration = Duration::from_secs(5);

/// Of the providers: so that requests are out whenever something happens.
const LATENCY_MS: u64 = 30;

/// An instance listens within this time, whatever happens.
pub const UP_WITHIN: Duration = Duration::from_secs(60);

/// What is there before the first instance.
pub struct Ground {
    /// The run's own folder.
    pub folder: PathBuf,
    /// The database, empty.
    pub database: Backing,
    /// The providers. They live in the harness, so they survive whatever happens to the product.
    pub mock: RunningMock,
    /// Of the run.
    pub seed: u64,
}

/// A running set-up.
pub struct World {
    /// What it stands on.
    pub ground: Ground,
    /// In order; each is started again whenever it ends.
    pub instances: Vec<Instance>,
    settings: BTreeMap<String, String>,
}

impl World {
    /// Starts all instances at once and waits until each listens.
    ///
    /// # Errors
    ///
    /// When one does not listen in time, with the end of its log.
    pub async fn start(
        paybell: &std::path::Path,
        ground: Ground,
        fault: Arc<dyn Fault>,
    ) -> Result<Self> {
        let usual = usual_settings(&ground);
        for target in [Target::Sms, Target::Fcm] {
            let behavior = Behavior {
                latency_ms: LATENCY_MS,
                ..Behavior::default()
            };
            ground.mock.set_behavior(target, behavior)?;
        }
        let instances = (0..fault.instances()).map(|instance| {
            let (usual, fault, seed) = (usual.clone(), Arc::clone(&fault), ground.seed);
            let launch = move |life| {
                let mut launch = Launch {
                    instance,
                    life,
                    seed,
                    env: usual.clone(),
                    wrapper: Vec::new(),
                };
                fault.launch(&mut launch);
                launch
            };
            let log = ground.folder.join(format!("instance-{instance}.log"));
            Instance::start(paybell.to_owned(), log, Box::new(launch))
        });
        let instances: Vec<Instance> = instances.collect::<Result<_>>()?;
        let world = Self {
            ground,
            instances,
            settings: usual,
        };
        world.until_up().await?;
        Ok(world)
    }

    /// The usual settings, past every fault.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// Waits until every instance listens.
    ///
    /// # Errors
    ///
    /// When one does not in time, with the end of its log.
    pub async fn until_up(&self) -> Result<()> {
        for instance in &self.instances {
            instance.until_up(UP_WITHIN).await?;
        }
        Ok(())
    }

    /// The base URLs of all instances that listen.
    pub fn bases(&self) -> Vec<String> {
        self.instances.iter().filter_map(Instance::base).collect()
    }

    /// One of the instances, by the run's seed.
    pub fn any(&self, rng: &mut fastrand::Rng) -> &Instance {
        &self.instances[rng.usize(..self.instances.len())]
    }

    /// Ends every instance in order and for good; their last exits.
    ///
    /// # Errors
    ///
    /// When one does not end in time.
    pub async fn stop(&self) -> Result<Vec<Exit>> {
        let mut exits = Vec::new();
        for instance in &self.instances {
            exits.extend(instance.stop().await?);
        }
        Ok(exits)
    }
}

fn usual_settings(ground: &Ground) -> BTreeMap<String, String> {
    let settings = [
        ("DATABASE_URL", ground.database.url()),
        ("BIND_ADDR", "127.0.0.1:0".to_owned()),
        ("ADMIN_TOKEN", ADMIN_TOKEN.to_owned()),
        ("SMS_BASE_URL", ground.mock.sms_base_url().to_string()),
        ("FCM_BASE_URL", ground.mock.base_url().to_string()),
        ("FCM_PROJECT_ID", "chaos-project".to_owned()),
        ("OUTBOX_LEASE_SECS", LEASE.as_secs().to_string()),
        ("PROVIDER_TIMEOUT_MS", "1000".to_owned()),
        ("OUTBOX_POLL_INTERVAL_MS", "200".to_owned()),
        ("BACKOFF_BASE_MS", "100".to_owned()),
        ("BACKOFF_MAX_MS", "2000".to_owned()),
        ("LOG_FORMAT", "json".to_owned()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    settings.into_iter().collect()
}
