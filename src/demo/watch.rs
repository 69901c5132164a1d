//! Watches the outbox through the admin routes and tells what changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use tokio::time::interval;
use uuid::Uuid;

use super::screen::Screen;
use super::{DemoError, Stage};

/// Between two looks; a person sees no difference.
const LOOK_INTERVAL: Duration = Duration::from_millis(40);

#[derive(Clone, PartialEq, Deserialize)]
struct Row {
    id: Uuid,
    channel: String,
    recipient: String,
    status: String,
    reason: Option<String>,
    attempts: u32,
    deferrals: u32,
    last_error: Option<String>,
    next_retry_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    sent_at: Option<DateTime<Utc>>,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Row>,
}

/// Tells each change once.
pub struct Watcher {
    stage: Arc<Stage>,
    screen: Arc<Screen>,
    seen: HashMap<Uuid, Row>,
}

impl Watcher {
    /// A watcher that has seen nothing yet.
    pub fn new(stage: Arc<Stage>, screen: Arc<Screen>) -> Self {
        Self {
            stage,
            screen,
            seen: HashMap::new(),
        }
    }

    /// Takes what is there already as known: with a folder of its own, the demo may find rows of an
    /// earlier one.
    ///
    /// # Errors
    /// When the outbox cannot be read.
    pub async fn skip_the_past(&mut self) -> Result<(), DemoError> {
        let rows = self.page().await?;
        self.seen.extend(rows.into_iter().map(|row| (row.id, row)));
        Ok(())
    }

    /// Looks until all of `wanted` are SENT.
    ///
    /// # Errors
    /// When the outbox cannot be read.
    pub async fn until_sent(&mut self, wanted: &[Uuid]) -> Result<(), DemoError> {
        let mut ticks = interval(LOOK_INTERVAL);
        loop {
            ticks.tick().await;
            self.look().await?;
            let sent = |id| {
                self.seen
                    .get(id)
                    .is_some_and(|row: &Row| row.status == "SENT")
            };
            if wanted.iter().all(sent) {
                return Ok(());
            }
        }
    }

    /// Looks until the demo is stopped.
    ///
    /// # Errors
    /// When the outbox cannot be read.
    pub async fn for_ever(&mut self) -> Result<(), DemoError> {
        let mut ticks = interval(LOOK_INTERVAL);
        loop {
            ticks.tick().await;
            self.look().await?;
        }
    }

    async fn look(&mut self) -> Result<(), DemoError> {
        let screen = Arc::clone(&self.screen);
        let _turn = screen.turn().await;
        for row in self.page().await?.into_iter().rev() {
            self.tell(row)?;
        }
        Ok(())
    }

    async fn page(&self) -> Result<Vec<Row>, DemoError> {
        let url = self
            .stage
            .server
            .join("/admin/outbox?limit=50")
            .map_err(|error| DemoError::Answer(error.to_string()))?;
        let page: Page = self
            .stage
            .http
            .get(url)
            .bearer_auth(&self.stage.admin_token)
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?;
        Ok(page.items)
    }

    fn tell(&mut self, row: Row) -> Result<(), DemoError> {
        let before = self.seen.get(&row.id);
        if before == Some(&row) {
            return Ok(());
        }
        let tries = |row: &Row| row.attempts + row.deferrals;
        let news = match row.status.as_str() {
            "SENT" => Some(sent(&row)),
            "PENDING" if before.map_or(0, tries) < tries(&row) => Some(failed(&row)),
            "FAILED" | "CANCELED" => Some(ended(&row)),
            _ => None,
        };
        if let Some(news) = news {
            self.screen.event(&news)?;
        }
        self.seen.insert(row.id, row);
        Ok(())
    }
}

fn sent(row: &Row) -> String {
    let after = row
        .sent_at
        .map_or(0, |sent| (sent - row.created_at).num_milliseconds());
    let tries = match row.deferrals {
        0 => String::new(),
        deferrals => format!(" (after {deferrals} failed tries)"),
    };
    format!(
        "  {} to {} SENT, {after} ms after its payment{tries}",
        row.channel, row.recipient
    )
}

fn failed(row: &Row) -> String {
    let wait = row
        .next_retry_at
        .map_or(0, |next| (next - Utc::now()).num_milliseconds().max(0));
    format!(
        "  {} to {} try {} failed: {}; next try in {wait} ms",
        row.channel,
        row.recipient,
        row.attempts + row.deferrals,
        row.last_error.as_deref().unwrap_or("no answer"),
    )
}

fn ended(row: &Row) -> String {
    format!(
        "  {} to {} {}: {}",
        row.channel,
        row.recipient,
        row.status,
        row.reason
            .as_deref()
            .or(row.last_error.as_deref())
            .unwrap_or_default(),
    )
}
