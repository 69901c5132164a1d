//! Looking for a message in a provider's list, page by page, in bounded time.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::provider::LOOK_UP_TIMEOUT;
use crate::provider::client::{Credentials, Failure, Reply};
use crate::provider::redact::Redactor;
use crate::provider::{LookUp, Message};

/// Longer lists are not read to their end, and so prove nothing.
pub const MAX_PAGES: usize = 20;

/// Why a list proves nothing.
pub struct Problem {
    http_status: Option<u16>,
    text: String,
    credentials: Credentials,
}

impl Problem {
    /// The list is longer than we read.
    pub fn too_long() -> Self {
        Self::unanswered("the provider lists too many messages to this recipient to look through")
    }

    /// The answer is not a page of a list. A 2xx is not quoted: it may be a page that broke off or
    /// is written in a new way, and then it holds what was said in other messages.
    pub fn answered(reply: &Reply) -> Self {
        let text = match (reply.status, &reply.broken) {
            (200..=299, Some(broken)) => format!("the list broke off: {broken}"),
            (200..=299, None) => "the answer is not a page of a list".to_owned(),
            _ => reply.text(),
        };
        Self {
            http_status: Some(reply.status),
            text,
            credentials: reply.credentials.clone(),
        }
    }

    fn unanswered(text: impl Into<String>) -> Self {
        Self {
            http_status: None,
            text: text.into(),
            credentials: Credentials::default(),
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let (Failure::NotSent(text) | Failure::Unanswered(text)) = failure;
        Self::unanswered(text)
    }
}

/// A page as JSON, when it was read to its end.
pub fn page(reply: &Reply) -> Result<Value, Problem> {
    match reply.json() {
        Some(json) if (200..=299).contains(&reply.status) => Ok(json),
        _ => Err(Problem::answered(reply)),
    }
}

/// The result of a search that may take [`LOOK_UP_TIMEOUT`] in all.
pub async fn in_time(
    search: impl Future<Output = Result<LookUp, Problem>>,
    redactor: impl FnOnce() -> Redactor,
) -> LookUp {
    let problem = match tokio::time::timeout(LOOK_UP_TIMEOUT, search).await {
        Ok(Ok(found)) => return found,
        Ok(Err(problem)) => problem,
        Err(_) => Problem::unanswered("no complete answer in time"),
    };
    let redactor = redactor().with_credentials(&problem.credentials);
    LookUp::Failed {
        answer: redactor.answer(problem.http_status, &problem.text),
    }
}

/// Messages that fit, with the times that the provider wrote on them, gathered page by page.
#[derive(Default)]
pub struct Fits(Vec<(Option<DateTime<Utc>>, String)>);

impl Fits {
    /// Adds one; a list that grows while it is read shows the same message twice.
    pub fn add(&mut self, at: Option<DateTime<Utc>>, id: &str) {
        if !self.0.iter().any(|(_, known)| known == id) {
            self.0.push((at, id.to_owned()));
        }
    }

    /// What a list that was read to its end says.
    pub fn into_look_up(mut self) -> LookUp {
        self.0.sort();
        let provider_message_ids: Vec<String> = self.0.into_iter().map(|(_, id)| id).collect();
        if provider_message_ids.is_empty() {
            LookUp::NeverSeen
        } else {
            LookUp::Candidates {
                provider_message_ids,
            }
        }
    }
}

/// Whether a listed text is the one sent. Blanks at its ends do not count: providers trim them.
pub fn same_text(listed: &str, sent: &str) -> bool {
    let listed = listed.replace("\r\n", "\n");
    listed.trim() == sent.trim()
}

/// Hides the message and our credentials.
pub fn redactor(message: &Message, secrets: &[&str]) -> Redactor {
    secrets
        .iter()
        .fold(Redactor::for_message(message), |redactor, secret| {
            redactor.with_secret(secret)
        })
}
