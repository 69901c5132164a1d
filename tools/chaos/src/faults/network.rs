//! The line between the product and PostgreSQL: replies lost, cut, stalled.

use std::collections::HashSet;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use async_trait::async_trait;
use fastrand::Rng;
use tokio::time::sleep;

use super::provider::slow_down;
use super::{Fault, Launch};
use crate::load::Load;
use crate::proxy::{Protocol, Proxy};
use crate::world::{Backing, Ground, Kind, World};

/// Within what time of a peer's stall the others have sent what it held.
const OTHERS_GO_ON_WITHIN: Duration = Duration::from_secs(15);

/// Between two looks at what has arrived.
const LOOK: Duration = Duration::from_millis(50);

/// A line of its own for each instance.
#[derive(Default)]
struct Lines {
    proxies: OnceLock<Vec<Proxy>>,
    database: OnceLock<String>,
}

impl Lines {
    async fn lay(&self, ground: &Ground, instances: usize) -> Result<()> {
        let Backing::Postgres { cluster, name } = &ground.database else {
            bail!("a SQLite file is reached without a line");
        };
        let server = (std::net::Ipv4Addr::LOCALHOST, cluster.port).into();
        let mut proxies = Vec::new();
        for _ in 0..instances {
            proxies.push(Proxy::start(server, Protocol::Postgres).await?);
        }
        let fresh = self.proxies.set(proxies).is_ok() && self.database.set(name.clone()).is_ok();
        ensure!(fresh, "a fault serves one run");
        Ok(())
    }

    fn all(&self) -> &[Proxy] {
        self.proxies.get().map_or(&[], Vec::as_slice)
    }

    fn connect(&self, launch: &mut Launch) {
        if let (Some(proxy), Some(database)) =
            (self.all().get(launch.instance), self.database.get())
        {
            let url = format!(
                "postgres://postgres@{}/{database}?sslmode=disable",
                proxy.addr
            );
            launch.set("DATABASE_URL", url);
        }
    }

    fn pass(&self) {
        self.all().iter().for_each(Proxy::pass);
    }
}

/// Whether a commit happened remains unknown to whoever asked for it.
#[derive(Default)]
pub struct LostReplies {
    lines: Lines,
}

#[async_trait]
impl Fault for LostReplies {
    fn name(&self) -> &'static str {
        "lost-replies"
    }

    fn what(&self) -> &'static str {
        "replies to commits are dropped with their connections"
    }

    fn applies_to(&self, database: Kind) -> bool {
        database == Kind::Postgres
    }

    fn instances(&self) -> usize {
        2
    }

    async fn prepare(&self, ground: &mut Ground) -> Result<()> {
        self.lines.lay(ground, self.instances()).await
    }

    fn launch(&self, launch: &mut Launch) {
        self.lines.connect(launch);
    }

    async fn inject(&self, _world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        let proxies = self.lines.all();
        for moment in load.moments(40, rng) {
            load.until_moment(moment).await;
            if let Some(proxy) = rng.choice(proxies) {
                proxy.forget_commits(1);
            }
        }
        let lost: u64 = proxies.iter().map(Proxy::forgotten).sum();
        ensure!(lost >= 20, "only {lost} replies were lost");
        Ok(())
    }

    async fn heal(&self, _world: &World) -> Result<()> {
        self.lines.pass();
        Ok(())
    }
}

/// What is done to every line at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// Connections are reset, new ones refused.
    Cut,
    /// Nothing goes through, and nothing says so.
    Stall,
}

/// The database is out of reach.
pub struct OutOfReach {
    outage: Outage,
    length: Duration,
    lines: Lines,
}

impl OutOfReach {
    /// For this long.
    pub fn new(outage: Outage, length: Duration) -> Self {
        Self {
            outage,
            length,
            lines: Lines::default(),
        }
    }
}

#[async_trait]
impl Fault for OutOfReach {
    fn name(&self) -> &'static str {
        match self.outage {
            Outage::Cut => "line-cut",
            Outage::Stall => "line-stalled",
        }
    }

    fn what(&self) -> &'static str {
        match self.outage {
            Outage::Cut => "the line to PostgreSQL is cut for a minute",
            Outage::Stall => "the line to PostgreSQL is stalled for a minute",
        }
    }

    fn applies_to(&self, database: Kind) -> bool {
        database == Kind::Postgres
    }

    fn instances(&self) -> usize {
        2
    }

    fn spread(&self) -> Duration {
        self.length + Duration::from_secs(3)
    }

    async fn prepare(&self, ground: &mut Ground) -> Result<()> {
        self.lines.lay(ground, self.instances()).await
    }

    fn launch(&self, launch: &mut Launch) {
        self.lines.connect(launch);
    }

    async fn inject(&self, _world: &World, rng: &mut Rng, _load: &Load) -> Result<()> {
        sleep(Duration::from_millis(rng.u64(500..1500))).await;
        for proxy in self.lines.all() {
            match self.outage {
                Outage::Cut => proxy.refuse(),
                Outage::Stall => proxy.stall(),
            }
        }
        sleep(self.length).await;
        Ok(())
    }

    async fn heal(&self, _world: &World) -> Result<()> {
        self.lines.pass();
        Ok(())
    }
}

/// One of several is cut off in silence, just as it has claimed rows that it will not hear of.
#[derive(Default)]
pub struct StalledPeer {
    lines: Lines,
}

#[async_trait]
impl Fault for StalledPeer {
    fn name(&self) -> &'static str {
        "stalled-peer"
    }

    fn what(&self) -> &'static str {
        "one of three instances loses its line in mid-claim; the others go on within 15 s"
    }

    fn applies_to(&self, database: Kind) -> bool {
        database == Kind::Postgres
    }

    fn instances(&self) -> usize {
        3
    }

    fn spread(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Enough for rows to pile up.
    fn payments(&self) -> Option<usize> {
        Some(200)
    }

    async fn prepare(&self, ground: &mut Ground) -> Result<()> {
        self.lines.lay(ground, self.instances()).await
    }

    fn launch(&self, launch: &mut Launch) {
        self.lines.connect(launch);
        // Rows that find no place are born due, so that they are claimed.
        launch.set("OUTBOX_QUEUE_CAPACITY", 1);
        launch.set("OUTBOX_MAX_IN_FLIGHT", 2);
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        load.until_moment(0.1 + 0.2 * rng.f64()).await;
        let Some(line) = self.lines.all().first() else {
            bail!("there is no line");
        };
        line.stall_at_claim();
        // While the providers are slow, the few requests that may be out let rows pile up.
        slow_down(&world.ground.mock, 300)?;
        let stalled = line.until_stalled(load.spread).await;
        slow_down(&world.ground.mock, 0)?;
        ensure!(stalled, "it never claimed a row");
        let since = Instant::now();
        let mut missing = recorded(world).await?;
        while since.elapsed() < OTHERS_GO_ON_WITHIN {
            for message in world.ground.mock.messages() {
                if let Some(reference) = &message.reference {
                    missing.remove(reference);
                }
            }
            if missing.is_empty() {
                return Ok(());
            }
            sleep(LOOK).await;
        }
        let (missing, within) = (missing.len(), OTHERS_GO_ON_WITHIN.as_secs());
        bail!("{missing} notifications not sent by the others within {within} s");
    }

    async fn heal(&self, _world: &World) -> Result<()> {
        self.lines.pass();
        Ok(())
    }
}

/// The references of all notifications recorded so far.
async fn recorded(world: &World) -> Result<HashSet<String>> {
    let references = "SELECT coalesce(string_agg(reference, ','), '') FROM outbox";
    let references = world.ground.database.ask(references).await?;
    let references = references.split(',').filter(|text| !text.is_empty());
    Ok(references.map(str::to_owned).collect())
}
