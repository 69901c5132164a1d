//! PostgreSQL restarted, its sessions ended, read-only or in the way of each other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use fastrand::Rng;
use testbed::postgres::Stop;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

use super::Fault;
use super::provider::slow_down;
use crate::load::Load;
use crate::world::{Kind, World};

/// Within what time of its database's return the product accepts payments again.
const ACCEPTS_WITHIN: Duration = Duration::from_secs(5);

/// Waits for the next payment that is answered 201, now that the database is back.
async fn accepts_again(load: &Load) -> Result<()> {
    let back = Instant::now();
    let next = load.until_answered(load.answered() + 1, ACCEPTS_WITHIN);
    next.await.with_context(|| {
        let waited = back.elapsed().as_secs_f64();
        format!("nothing accepted {waited:.1} s after the database is back")
    })
}

/// Ends sessions of the run's database, all of them or those whose process has an odd number.
async fn terminate(world: &World, all: bool) -> Result<()> {
    let sql = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND ({all} OR pid % 2 = 1)"
    );
    world.ground.database.ask(&sql).await?;
    Ok(())
}

/// The server stops in this way and comes back, twice.
pub struct Restart(pub Stop);

#[async_trait]
impl Fault for Restart {
    fn name(&self) -> &'static str {
        match self.0 {
            Stop::Smart | Stop::Fast => "pg-restart",
            Stop::Immediate => "pg-crash",
        }
    }

    fn what(&self) -> &'static str {
        match self.0 {
            Stop::Smart | Stop::Fast => "PostgreSQL is restarted twice, sessions ended in order",
            Stop::Immediate => "PostgreSQL crashes twice and recovers",
        }
    }

    fn applies_to(&self, database: Kind) -> bool {
        database == Kind::Postgres
    }

    fn instances(&self) -> usize {
        2
    }

    fn own_server(&self) -> Option<&'static str> {
        Some("")
    }

    fn spread(&self) -> Duration {
        Duration::from_secs(8)
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        let how = self.0;
        let database = &world.ground.database;
        load.until_moment(0.1 + 0.2 * rng.f64()).await;
        database.server(move |server| server.restart(how)).await?;
        accepts_again(load).await?;
        load.until_moment(0.5 + 0.2 * rng.f64()).await;
        database.server(move |server| server.restart(how)).await
    }

    fn accepts_within(&self) -> Option<Duration> {
        Some(ACCEPTS_WITHIN)
    }
}

/// Sessions are ended again and again.
pub struct Terminate;

#[async_trait]
impl Fault for Terminate {
    fn name(&self) -> &'static str {
        "pg-terminate"
    }

    fn what(&self) -> &'static str {
        "PostgreSQL sessions are terminated again and again"
    }

    fn applies_to(&self, database: Kind) -> bool {
        database == Kind::Postgres
    }

    fn instances(&self) -> usize {
        2
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        for moment in load.moments(20, rng) {
            load.until_moment(moment).await;
            terminate(world, rng.bool()).await?;
        }
        Ok(())
    }

    fn accepts_within(&self) -> Option<Duration> {
        Some(ACCEPTS_WITHIN)
    }
}

/// Sessions are ended and come back read-only, as after a failover to a standby.
pub struct ReadOnly;

#[async_trait]
impl Fault for ReadOnly {
    fn name(&self) -> &'static str {
        "pg-read-only"
    }

    fn what(&self) -> &'static str {
        "PostgreSQL sessions come back read-only for a while"
    }

    fn applies_to(&self, database: Kind) -> bool {
        database == Kind::Postgres
    }

    fn instances(&self) -> usize {
        2
    }

    fn spread(&self) -> Duration {
        Duration::from_secs(6)
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        load.until_moment(0.2 + 0.2 * rng.f64()).await;
        make_read_only(world, true).await?;
        terminate(world, true).await?;
        sleep(Duration::from_secs(2)).await;
        Ok(())
    }

    fn accepts_within(&self) -> Option<Duration> {
        Some(ACCEPTS_WITHIN)
    }

    /// Sessions that are open stay read-only: it is for the product to see that and to leave them.
    async fn heal(&self, world: &World) -> Result<()> {
        make_read_only(world, false).await
    }
}

/// Asked in another database, because a read-only session could not undo it.
async fn make_read_only(world: &World, on: bool) -> Result<()> {
    let name = world
        .ground
        .database
        .ask("SELECT current_database()")
        .await?;
    let sql = format!(r#"ALTER DATABASE "{name}" SET default_transaction_read_only = {on}"#);
    let database = &world.ground.database;
    database.server(move |server| server.ask(&sql)).await?;
    Ok(())
}

/// Somebody's forgotten sessions: one keeps a snapshot, one keeps locks on pending rows.
pub struct IdleTransactions;

/// Rows locked at a time.
const LOCKED: &str =
    "SELECT id FROM outbox WHERE status = 'PENDING' ORDER BY id LIMIT 20 FOR UPDATE";

#[async_trait]
impl Fault for IdleTransactions {
    fn name(&self) -> &'static str {
        "pg-idle"
    }

    fn what(&self) -> &'static str {
        "idle transactions elsewhere hold a snapshot, and locks on pending rows"
    }

    fn applies_to(&self, database: Kind) -> bool {
        database == Kind::Postgres
    }

    fn instances(&self) -> usize {
        2
    }

    fn spread(&self) -> Duration {
        Duration::from_secs(12)
    }

    async fn inject(&self, world: &World, rng: &mut Rng, load: &Load) -> Result<()> {
        // Rows then stay pending long enough to be locked.
        slow_down(&world.ground.mock, 400)?;
        let url = world.ground.database.url();
        let reader = session(&url).await?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox";
        reader.batch_execute(begin).await?;
        let locker = session(&url).await?;
        load.until_moment(0.1).await;
        let mut locked = lock_for(&locker, Duration::from_secs(7)).await?;
        for _ in 0..3 {
            locked += lock_for(&locker, Duration::from_millis(rng.u64(100..800))).await?;
        }
        reader.batch_execute("COMMIT").await?;
        ensure!(locked > 0, "no row was locked");
        Ok(())
    }

    async fn heal(&self, world: &World) -> Result<()> {
        slow_down(&world.ground.mock, 0)
    }
}

/// How many rows were locked.
async fn lock_for(session: &Client, length: Duration) -> Result<usize> {
    session.batch_execute("BEGIN").await?;
    let locked = session.query(LOCKED, &[]).await?;
    sleep(length).await;
    session.batch_execute("COMMIT").await?;
    Ok(locked.len())
}

/// A session past every proxy; it ends with the client.
async fn session(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
