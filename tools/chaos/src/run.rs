//! One run: a world, a load, a fault, a judgement.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use chrono::{DateTime, Utc};
use fastrand::Rng;
use serde::Serialize;
use tokio::time::timeout;

use crate::client::{Client, Paid};
use crate::faults::{Fault, Make, Scale};
use crate::lane::{Lane, tidy};
use crate::load::Load;
use crate::verify::{Judgement, Rules, gather, judge};
use crate::world::{Kind, World};

/// A fault takes no longer than its load and this.
const OVERTIME: Duration = Duration::from_secs(180);

/// What is to be run.
#[derive(Clone)]
pub struct Plan {
    /// Makes the fault.
    pub fault: Make,
    /// How long it takes.
    pub scale: Scale,
    /// On which database.
    pub database: Kind,
    /// Of its schedule.
    pub seed: u64,
    /// How many at least.
    pub payments: usize,
}

/// How a run ended.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Name of the fault.
    pub fault: String,
    /// On which database.
    pub database: Kind,
    /// Of its schedule.
    pub seed: u64,
    /// How many payments were asked for.
    pub asked: usize,
    /// What became of it.
    pub judgement: Judgement,
    /// Where its logs and database are, when it is not good.
    pub kept: Option<PathBuf>,
}

impl Plan {
    /// In a few words.
    pub fn title(&self) -> String {
        let fault = (self.fault)(self.scale);
        let (name, database) = (fault.name(), self.database.name());
        format!("{name} on {database}, seed {}: {}", self.seed, fault.what())
    }

    /// Runs it. Whatever stops it is a part of the judgement.
    pub async fn run(&self, lane: &mut Lane, paybell: &Path) -> Run {
        let fault = (self.fault)(self.scale);
        let mut folder = None;
        let judged = self.judged(&fault, lane, paybell, &mut folder).await;
        let judgement = judged.unwrap_or_else(|error| Judgement {
            wrong: vec![format!("{error:#}")],
            ..Judgement::default()
        });
        let kept = folder.filter(|folder| !judgement.is_good() || tidy(folder).is_err());
        Run {
            fault: fault.name().to_owned(),
            database: self.database,
            seed: self.seed,
            asked: self.payments,
            judgement,
            kept,
        }
    }

    async fn judged(
        &self,
        fault: &Arc<dyn Fault>,
        lane: &mut Lane,
        paybell: &Path,
        folder: &mut Option<PathBuf>,
    ) -> Result<Judgement> {
        let mut ground = lane.ground(&**fault, self.database, self.seed).await?;
        *folder = Some(ground.folder.clone());
        fault.prepare(&mut ground).await.context("preparing")?;
        let world = World::start(paybell, ground, Arc::clone(fault)).await?;
        let load = Load::begin(self.payments, fault.spread());
        let client = Client::new(self.seed)?;
        let posting = Box::pin(client.post_all(&world, &load));
        let attacking = Box::pin(self.attack(&**fault, &world, &load));
        let (paid, (seen, healed)) = tokio::join!(posting, attacking);
        world.until_up().await?;
        let rules = Rules {
            stalls: fault.stalls(),
            leases_end_early: fault.ends_leases_early(),
            clouds: fault.clouds(),
            healed,
            accepts_within: fault.accepts_within(),
            latest: fault.latest(),
        };
        let mut judgement = self
            .verdict(&**fault, &world, paybell, paid?, rules)
            .await?;
        if let Err(error) = seen {
            judgement.wrong.push(format!("{error:#}"));
        }
        for exit in world.stop().await? {
            if exit.code != Some(0) {
                let text = format!("an instance ended with {:?} when told to stop", exit.code);
                judgement.wrong.push(text);
            }
        }
        Ok(judgement)
    }

    /// Injects and heals; what was seen, and when it was over.
    async fn attack(
        &self,
        fault: &dyn Fault,
        world: &World,
        load: &Load,
    ) -> (Result<()>, DateTime<Utc>) {
        let mut rng = Rng::with_seed(self.seed);
        let within = load.spread + OVERTIME;
        let injected = timeout(within, fault.inject(world, &mut rng, load)).await;
        let seen = injected.unwrap_or_else(|_| Err(anyhow!("the fault did not end")));
        let healed = fault.heal(world).await.context("healing");
        let over = Utc::now();
        load.end();
        (seen.and(healed), over)
    }

    async fn verdict(
        &self,
        fault: &dyn Fault,
        world: &World,
        paybell: &Path,
        paid: Vec<Paid>,
        rules: Rules,
    ) -> Result<Judgement> {
        let evidence = gather(world, paybell, paid, fault.patience()).await?;
        Ok(judge(&evidence, rules))
    }
}
