//! What the mock remembers.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Serialize, Serializer};
use tokio::sync::watch;

use super::behavior::{Behavior, Target};
use crate::payment::Channel;

/// So many moments of requests are remembered for each target: enough for a test, and a bound for a
/// mock that runs for weeks.
const MOMENTS: usize = 10_000;

/// One accepted message. It holds what was sent in clear, so it has no `Debug`.
#[derive(Serialize)]
pub struct Accepted {
    /// The id that the sender was told.
    pub id: String,
    /// Which channel it came over.
    pub channel: Channel,
    /// Which dialect it came in.
    pub provider: &'static str,
    /// Phone number or registration token, as sent.
    pub to: String,
    /// Title or subject.
    pub title: Option<String>,
    /// The text.
    pub text: Option<String>,
    /// Custom key-value pairs of a push.
    pub data: BTreeMap<String, String>,
    /// The sender's own name for the message.
    pub reference: Option<String>,
    /// The sender, where the dialect has one to look for.
    #[serde(skip)]
    pub from: Option<String>,
    /// When it was accepted.
    #[serde(serialize_with = "with_microseconds")]
    pub received_at: DateTime<Utc>,
}

/// How much has happened, for those who wait.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) messages: usize,
    requests: HashMap<Target, Requests>,
}

/// The requests of one kind.
#[derive(Default)]
struct Requests {
    count: u64,
    /// When the latest of them came, oldest first.
    moments: VecDeque<Instant>,
}

#[derive(Default)]
pub(super) struct State {
    inner: Mutex<Inner>,
    counts: watch::Sender<Counts>,
}

#[derive(Default)]
struct Inner {
    messages: Vec<Arc<Accepted>>,
    /// The first message accepted under each reference, per dialect.
    by_reference: HashMap<(&'static str, String), Arc<Accepted>>,
    behaviors: HashMap<Target, Vec<Behavior>>,
    /// Signatures that may be used once, with their first use.
    signatures: HashMap<String, DateTime<Utc>>,
}

/// Dialects differ in how they write one number: +8210… is 010… in Korea.
pub(super) fn same_recipient(one: &str, other: &str) -> bool {
    national(one) == national(other)
}

fn national(number: &str) -> Cow<'_, str> {
    match number.strip_prefix("+82") {
        Some(rest) => Cow::Owned(format!("0{rest}")),
        None => Cow::Borrowed(number),
    }
}

impl Counts {
    pub(super) fn requests(&self, target: Target) -> u64 {
        self.requests
            .get(&target)
            .map_or(0, |requests| requests.count)
    }

    fn request_times(&self, target: Target) -> Vec<Instant> {
        let requests = self.requests.get(&target);
        let moments = requests.map(|requests| requests.moments.iter().copied());
        moments.into_iter().flatten().collect()
    }
}

impl Requests {
    fn add(&mut self) {
        self.count += 1;
        if self.moments.len() == MOMENTS {
            self.moments.pop_front();
        }
        self.moments.push_back(Instant::now());
    }
}

impl Inner {
    /// The behaviour for the recipient, else the one for everybody. One that is limited in times is
    /// used up by this.
    fn take_behavior(&mut self, target: Target, to: Option<&str>) -> Option<Behavior> {
        let set = self.behaviors.get_mut(&target)?;
        let at = set
            .iter()
            .position(|behavior| match (&behavior.to, to) {
                (Some(wanted), Some(to)) => same_recipient(wanted, to),
                _ => false,
            })
            .or_else(|| set.iter().position(|behavior| behavior.to.is_none()))?;
        match &mut set[at].times {
            Some(1) => Some(set.remove(at)),
            Some(times) => {
                *times -= 1;
                Some(set[at].clone())
            }
            None => Some(set[at].clone()),
        }
    }
}

impl State {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a message now.
    pub(super) fn accept(&self, mut message: Accepted) -> Arc<Accepted> {
        message.received_at = Utc::now();
        let accepted = Arc::new(message);
        let mut inner = self.inner();
        inner.messages.push(Arc::clone(&accepted));
        if let Some(reference) = &accepted.reference {
            inner
                .by_reference
                .entry((accepted.provider, reference.clone()))
                .or_insert_with(|| Arc::clone(&accepted));
        }
        // Still under the lock, so that the count never falls behind what can be read.
        self.counts
            .send_modify(|counts| counts.messages = inner.messages.len());
        drop(inner);
        accepted
    }

    /// The first message that was accepted under the reference.
    pub(super) fn first(&self, provider: &'static str, reference: &str) -> Option<Arc<Accepted>> {
        let key = (provider, reference.to_owned());
        self.inner().by_reference.get(&key).cloned()
    }

    pub(super) fn messages(&self, keep: impl Fn(&Accepted) -> bool) -> Vec<Arc<Accepted>> {
        let all = self.inner().messages.clone();
        all.into_iter().filter(|message| keep(message)).collect()
    }

    /// Whether the signature was not seen within this time.
    pub(super) fn use_once(&self, signature: &str, within: TimeDelta) -> bool {
        let now = Utc::now();
        let mut inner = self.inner();
        inner.signatures.retain(|_, first| now - *first < within);
        inner.signatures.insert(signature.to_owned(), now).is_none()
    }

    pub(super) fn forget_messages(&self) {
        let mut inner = self.inner();
        inner.messages = Vec::new();
        inner.by_reference = HashMap::new();
        self.counts.send_modify(|counts| counts.messages = 0);
    }

    pub(super) fn set_behavior(&self, target: Target, behavior: Behavior) {
        let mut inner = self.inner();
        let set = inner.behaviors.entry(target).or_default();
        set.retain(|other| other.to != behavior.to);
        set.push(behavior);
    }

    pub(super) fn clear_behavior(&self, target: Target) {
        self.inner().behaviors.remove(&target);
    }

    /// Counts a request and says how to treat it.
    pub(super) fn request(&self, target: Target, to: Option<&str>) -> Option<Behavior> {
        let mut inner = self.inner();
        let behavior = inner.take_behavior(target, to);
        // Counted last, so that whoever waited for it cannot change how it is treated.
        self.counts
            .send_modify(|counts| counts.requests.entry(target).or_default().add());
        behavior
    }

    pub(super) fn requests(&self, target: Target) -> u64 {
        self.counts.borrow().requests(target)
    }

    pub(super) fn request_times(&self, target: Target) -> Vec<Instant> {
        self.counts.borrow().request_times(target)
    }

    /// Returns once the condition holds.
    pub(super) async fn wait_until(&self, condition: impl FnMut(&Counts) -> bool) {
        // It fails only when the sender is gone, and the sender is ours.
        let _held = self.counts.subscribe().wait_for(condition).await.is_ok();
    }
}

fn with_microseconds<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&at.format("%Y-%m-%dT%H:%M:%S%.6fZ"))
}
