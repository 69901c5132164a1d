//! What is known after a run: from the client's record, the mock's, and the product's answers.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use futures_util::{StreamExt, TryStreamExt, stream};
use paybell::payment::Channel;
use paybell::provider::client::plain_http;
use paybell::provider::mock::Accepted;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::process::Command;
use tokio::time::sleep;

use crate::client::Paid;
use crate::world::{ADMIN_TOKEN, World};

/// Questions to the product at one time.
const AT_ONCE: usize = 32;

/// Between two looks at the figures.
const LOOK: Duration = Duration::from_millis(100);

/// The product's figures.
#[derive(Debug, Default, Clone, Deserialize)]
pub struct Stats {
    /// Rows by status.
    pub by_status: HashMap<String, i64>,
    /// Rows that ever were.
    pub recorded: i64,
    /// Rows removed by retention.
    pub purged: i64,
}

impl Stats {
    fn pending(&self) -> i64 {
        self.by_status.get("PENDING").copied().unwrap_or(0)
    }
}

/// A row as the admin API shows it.
#[derive(Debug, Clone, Deserialize)]
pub struct Row {
    /// Its status.
    pub status: String,
    /// Why it failed.
    pub reason: Option<String>,
    /// Requests answered or left unanswered.
    pub attempts: i64,
    /// Waits that cost nothing.
    pub deferrals: i64,
    /// Oldest first.
    pub history: Vec<Entry>,
}

/// One entry of a row's history.
#[derive(Debug, Clone, Deserialize)]
pub struct Entry {
    /// Of the lease that it belongs to.
    pub epoch: i64,
    /// What happened.
    pub outcome: String,
}

/// A payment as the product shows it.
#[derive(Debug, Clone, Deserialize)]
pub struct Shown {
    /// Its id.
    pub id: String,
    /// Its notifications.
    pub notifications: Vec<ShownNotification>,
}

/// A notification of a payment as the product shows it.
#[derive(Debug, Clone, Deserialize)]
pub struct ShownNotification {
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: String,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Shown>,
}

/// All that is known.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The client's record.
    pub paid: Vec<Paid>,
    /// When each notification was received, by its id, in order.
    pub received: HashMap<String, Vec<DateTime<Utc>>>,
    /// The payments that the product shows of each order.
    pub of_order: HashMap<String, Vec<Shown>>,
    /// The payment that the product shows under each id.
    pub by_id: HashMap<String, Shown>,
    /// The rows that were not received once, or are not SENT.
    pub rows: HashMap<String, Row>,
    /// The product's figures.
    pub stats: Stats,
    /// What `paybell check` found wrong.
    pub check: Option<String>,
}

/// Waits until nothing is pending, then gathers everything.
///
/// # Errors
///
/// When the product cannot be asked.
pub async fn gather(
    world: &World,
    paybell: &Path,
    paid: Vec<Paid>,
    patience: Duration,
) -> Result<Evidence> {
    let asker = Asker::of(world)?;
    let stats = asker.settled(patience).await?;
    let received = received(&world.ground.mock.messages())?;
    let orders = asker.all(&paid, |asker, paid| async move {
        let path = format!("/payments?order_id={}", paid.order_id);
        let page: Page = asker.get(&path).await?.context(path)?;
        Ok((paid.order_id.clone(), page.items))
    });
    let of_order = orders.await?;
    let payments = asker.all(&paid, |asker, paid| async move {
        let shown = asker.get(&format!("/payments/{}", paid.payment_id)).await?;
        Ok((paid.payment_id.clone(), shown))
    });
    let by_id: HashMap<String, Option<Shown>> = payments.await?;
    let by_id = by_id
        .into_iter()
        .filter_map(|(id, shown)| Some((id, shown?)))
        .collect();
    let odd: Vec<String> = odd_ones(&paid, &received, &by_id).into_iter().collect();
    let rows = asker.all(&odd, |asker, id| async move {
        Ok((id.clone(), asker.get(&format!("/admin/outbox/{id}")).await?))
    });
    let rows: HashMap<String, Option<Row>> = rows.await?;
    Ok(Evidence {
        received,
        of_order,
        by_id,
        rows: rows
            .into_iter()
            .filter_map(|(id, row)| Some((id, row?)))
            .collect(),
        stats,
        check: check(world, paybell).await?,
        paid,
    })
}

/// The receipts of each notification. The sender's own name for a message is the notification's id.
fn received(messages: &[std::sync::Arc<Accepted>]) -> Result<HashMap<String, Vec<DateTime<Utc>>>> {
    let mut received: HashMap<String, Vec<DateTime<Utc>>> = HashMap::new();
    for message in messages {
        let id = match message.channel {
            Channel::Sms => message.reference.as_ref(),
            Channel::Fcm => message.data.get("outbox_id"),
        };
        let id = id.with_context(|| format!("message {} names no notification", message.id))?;
        received
            .entry(id.clone())
            .or_default()
            .push(message.received_at);
    }
    Ok(received)
}

/// Notifications to be looked at closely.
fn odd_ones(
    paid: &[Paid],
    received: &HashMap<String, Vec<DateTime<Utc>>>,
    by_id: &HashMap<String, Shown>,
) -> HashSet<String> {
    let promised = paid.iter().flat_map(|paid| &paid.notifications);
    let not_once = promised
        .map(|promised| &promised.id)
        .filter(|id| received.get(*id).map(Vec::len) != Some(1));
    let shown = by_id.values().flat_map(|shown| &shown.notifications);
    let not_sent = shown
        .filter(|shown| shown.status != "SENT")
        .map(|shown| &shown.id);
    not_once.chain(not_sent).cloned().collect()
}

/// Asks the product.
struct Asker<'w> {
    http: reqwest::Client,
    world: &'w World,
}

impl<'w> Asker<'w> {
    fn of(world: &'w World) -> Result<Self> {
        Ok(Self {
            http: plain_http(Duration::from_secs(10)).context("HTTP client")?,
            world,
        })
    }

    /// The figures, once nothing is pending, or when patience ends.
    async fn settled(&self, patience: Duration) -> Result<Stats> {
        let began = Instant::now();
        loop {
            let stats: Result<Option<Stats>> = self.get("/admin/outbox/stats").await;
            let late = began.elapsed() > patience;
            match stats {
                Ok(Some(stats)) if stats.pending() == 0 || late => return Ok(stats),
                Ok(Some(_)) => {}
                Ok(None) => bail!("there are no figures"),
                Err(error) if late => return Err(error),
                Err(_) => {}
            }
            sleep(LOOK).await;
        }
    }

    /// The answer about each of these.
    async fn all<'a, T, V, F>(
        &'a self,
        of: &'a [T],
        ask: impl Fn(&'a Self, &'a T) -> F,
    ) -> Result<HashMap<String, V>>
    where
        F: Future<Output = Result<(String, V)>>,
    {
        let answers = stream::iter(of).map(|one| ask(self, one));
        answers.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// The JSON of a 200; `None` of a 404.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        let bases = self.world.bases();
        let base = bases.first().context("no instance listens")?;
        let request = self.http.get(format!("{base}{path}"));
        let answer = request.bearer_auth(ADMIN_TOKEN).send().await;
        let answer = answer.with_context(|| format!("GET {path}"))?;
        match answer.status().as_u16() {
            200 => Ok(Some(answer.json().await?)),
            404 => Ok(None),
            status => bail!("GET {path} was answered {status}"),
        }
    }
}

/// What the product's own check of its database finds wrong.
async fn check(world: &World, paybell: &Path) -> Result<Option<String>> {
    let mut command = Command::new(paybell);
    command.arg("check").env_clear().envs(world.settings());
    let output = command.current_dir(&world.ground.folder).output();
    let output = output.await.context("paybell check")?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    Ok((!output.status.success()).then_some(said))
}
