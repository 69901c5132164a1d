//! A client that knows its trade: every payment has an idempotency key and is repeated under it
//! until it is answered 201. What it was answered is its own record, whatever the product says later.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use paybell::provider::client::plain_http;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::load::Load;
use crate::world::World;

/// Payments that wait for their answers at one time.
const AT_ONCE: usize = 256;

/// Longer than the product's own deadline for a commit, so that its 503 is heard; a hung instance
/// costs no more.
const PATIENCE: Duration = Duration::from_secs(6);

/// Between an answer that is none and the next try.
const RETRY: Duration = Duration::from_millis(50);

/// Past every fault's time and the payments' own, an answer must have come.
const ANSWERED_WITHIN: Duration = Duration::from_secs(90);

/// A notification as the client was told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promised {
    /// Its id.
    pub id: String,
    /// `sms` or `fcm`.
    pub channel: String,
}

/// A payment that was answered 201.
#[derive(Debug, Clone)]
pub struct Paid {
    /// Its own.
    pub order_id: String,
    /// As answered.
    pub payment_id: String,
    /// As answered.
    pub notifications: Vec<Promised>,
    /// When the answer came.
    pub answered_at: DateTime<Utc>,
}

#[derive(Deserialize)]
struct Answer {
    id: String,
    order_id: String,
    notifications: Vec<AnsweredNotification>,
}

#[derive(Deserialize)]
struct AnsweredNotification {
    id: String,
    channel: String,
}

/// Posts payments.
pub struct Client {
    http: reqwest::Client,
    /// Distinguishes the runs' keys.
    seed: u64,
}

impl Client {
    /// A client for a run.
    ///
    /// # Errors
    ///
    /// When there is no TLS set-up, which HTTP clients want even if they do not use it.
    pub fn new(seed: u64) -> Result<Self> {
        Ok(Self {
            http: plain_http(PATIENCE).context("HTTP client")?,
            seed,
        })
    }

    /// Posts payments as the load says; the record of all of them, in the order of their answers.
    ///
    /// # Errors
    ///
    /// When one is refused, or not answered in time.
    pub async fn post_all(&self, world: &World, load: &Load) -> Result<Vec<Paid>> {
        let mut paid = Vec::new();
        let mut open = FuturesUnordered::new();
        let (mut n, mut more) = (0, true);
        while more || !open.is_empty() {
            tokio::select! {
                due = load.next(n), if more && open.len() < AT_ONCE => {
                    more = due;
                    if due {
                        open.push(self.post(world, load, n));
                        n += 1;
                    }
                }
                Some(answered) = open.next() => {
                    paid.push(answered?);
                    load.count();
                }
            }
        }
        Ok(paid)
    }

    /// Posts one payment, at another instance each time, until it is answered 201.
    async fn post(&self, world: &World, load: &Load, n: usize) -> Result<Paid> {
        let began = Instant::now();
        let within = load.spread + ANSWERED_WITHIN;
        let (key, order) = (format!("key-{}-{n}", self.seed), format!("order-{n}"));
        let body = payment(&order, n);
        let mut last = "no instance listens".to_owned();
        for attempt in 0.. {
            if began.elapsed() > within {
                bail!("{order} has no 201 after {} s: {last}", within.as_secs());
            }
            let bases = world.bases();
            let base = bases.get((n + attempt) % bases.len().max(1));
            if let Some(base) = base {
                match self.try_once(base, &key, &body).await {
                    Ok(Some(answer)) => return record(&order, answer),
                    Ok(None) => "503".clone_into(&mut last),
                    Err(error) if error.is::<Refused>() => return Err(error),
                    Err(error) => last = format!("{error:#}"),
                }
            }
            sleep(RETRY).await;
        }
        bail!("{order} was never posted")
    }

    /// The body of a 201; `None` of a 503.
    async fn try_once(&self, base: &str, key: &str, body: &Value) -> Result<Option<Answer>> {
        let request = self.http.post(format!("{base}/payments")).json(body);
        let answer = request.header("Idempotency-Key", key).send().await?;
        match answer.status().as_u16() {
            201 => Ok(Some(answer.json().await?)),
            503 => Ok(None),
            status => {
                let text = answer.text().await.unwrap_or_default();
                Err(Refused(format!("{key} was answered {status}: {text}")).into())
            }
        }
    }
}

/// An answer that a well-formed payment must not get.
#[derive(Debug)]
struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Whom the SMS of payment `n` goes to.
pub fn phone(n: usize) -> String {
    format!("+82102{n:07}")
}

/// Whom the push of payment `n` goes to.
pub fn token(n: usize) -> String {
    format!("token-{n}")
}

/// With an SMS and a push to recipients of its own.
fn payment(order: &str, n: usize) -> Value {
    json!({
        "order_id": order, "amount": 15_000, "currency": "KRW", "description": "chaos",
        "notifications": [
            { "channel": "sms", "to": phone(n) },
            { "channel": "fcm", "to": token(n) },
        ],
    })
}

fn record(order: &str, answer: Answer) -> Result<Paid> {
    let notifications: Vec<Promised> = answer
        .notifications
        .into_iter()
        .map(|notification| Promised {
            id: notification.id,
            channel: notification.channel,
        })
        .collect();
    if answer.order_id != order || notifications.len() != 2 {
        bail!("{order} was answered with another payment");
    }
    Ok(Paid {
        order_id: answer.order_id,
        payment_id: answer.id,
        notifications,
        answered_at: Utc::now(),
    })
}
