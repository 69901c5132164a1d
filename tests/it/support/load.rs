//! Many payments at once, and what became of their notifications.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use futures_util::{StreamExt, stream};
use paybell::payment::Channel;
use paybell::provider::mock::RunningMock;
use serde_json::{Value, json};

use super::app::payment;
use super::client::Client;
use super::database::Database;
use super::wait::until;

/// How many: `usual`, or `full` when `PAYBELL_TEST_SCALE=full` is set.
pub fn size(usual: usize, full: usize) -> usize {
    match std::env::var("PAYBELL_TEST_SCALE").as_deref() {
        Ok("full") => full,
        _ => usual,
    }
}

/// A phone number of its own for each `n` below ten million.
pub fn phone(n: usize) -> String {
    format!("+82102{n:07}")
}

/// A payment with an SMS and a push to recipients of its own.
pub fn sms_and_push(n: usize) -> Value {
    let both = json!([
        { "channel": "sms", "to": phone(n) },
        { "channel": "fcm", "to": format!("token-{n}") },
    ]);
    payment(&format!("order-{n}"), &both)
}

/// A payment with an SMS to a recipient of its own.
pub fn one_sms(n: usize) -> Value {
    super::app::sms(&format!("order-{n}"), &phone(n))
}

/// A payment that was answered 201.
pub struct Posted {
    pub answer: Value,
    pub began: DateTime<Utc>,
    pub took: Duration,
}

impl Posted {
    /// Ids of its notifications over a channel.
    pub fn ids(&self, channel: Channel) -> Vec<String> {
        let all = self.answer["notifications"].as_array().unwrap().iter();
        let ours = all.filter(|notification| notification["channel"] == channel.as_str());
        ours.map(|notification| notification["id"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Posts one payment, which must be answered 201.
pub async fn post_one(client: &Client, body: &Value) -> Posted {
    let began = Utc::now();
    let start = Instant::now();
    let answer = client.pay(body).await;
    Posted {
        answer,
        began,
        took: start.elapsed(),
    }
}

/// Posts `n` payments through the clients in turn, `at_once` at a time; each must be answered 201.
pub async fn post_many(
    clients: &[Client],
    n: usize,
    at_once: usize,
    make: fn(usize) -> Value,
) -> Vec<Posted> {
    let posts = stream::iter(0..n).map(|i| {
        let client = clients[i % clients.len()].clone();
        async move { post_one(&client, &make(i)).await }
    });
    posts.buffer_unordered(at_once).collect().await
}

/// The sorted ids of all notifications over a channel.
pub fn ids(posted: &[Posted], channel: Channel) -> Vec<String> {
    let mut ids: Vec<String> = posted.iter().flat_map(|post| post.ids(channel)).collect();
    ids.sort_unstable();
    ids
}

/// The outbox ids that the mock saw over a channel, sorted, as often as they came.
pub fn received(mock: &RunningMock, channel: Channel) -> Vec<String> {
    let messages = mock.messages();
    let ours = messages.iter().filter(|message| message.channel == channel);
    let mut ids: Vec<String> = ours
        .map(|message| match channel {
            Channel::Sms => message.reference.clone().unwrap(),
            Channel::Fcm => message.data["outbox_id"].clone(),
        })
        .collect();
    ids.sort_unstable();
    ids
}

/// Checks that the mock saw each notification, and each once.
pub fn assert_once_each(mock: &RunningMock, posted: &[Posted], channel: Channel) {
    let (wanted, got) = (ids(posted, channel), received(mock, channel));
    if wanted == got {
        return;
    }
    let mut times: HashMap<&str, i64> = wanted.iter().map(|id| (id.as_str(), -1)).collect();
    for id in &got {
        *times.entry(id).or_default() += 1;
    }
    times.retain(|_, times| *times != 0);
    panic!(
        "{channel}: {} posted, {} received; too often (or -1: never): {times:#?}",
        wanted.len(),
        got.len()
    );
}

/// Waits until every row of the database is `SENT`.
pub async fn all_sent(database: &Database, patience: Duration) {
    until("all rows are SENT", patience, async || {
        let others = "SELECT count(*) FROM outbox WHERE status <> 'SENT'";
        (database.number(others).await == 0).then_some(())
    })
    .await;
}

/// Shows what was measured.
#[expect(
    clippy::print_stderr,
    reason = "the figures are what a full run is for"
)]
pub fn figures(text: &str) {
    eprintln!("{text}");
}

/// The value that `percent` of a hundred do not exceed.
pub fn percentile(times: impl Iterator<Item = Duration>, percent: usize) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

/// Mock providers on a free port, behind an `Arc` for tasks.
pub fn mock() -> Arc<RunningMock> {
    let mock = paybell::provider::mock::Mock::start(([127, 0, 0, 1], 0).into());
    Arc::new(mock.unwrap())
}

/// An address on which nobody listens.
pub fn nobodys_address() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}
