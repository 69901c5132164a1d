//! The access token: one for all sends, renewed before it ends, by one request at a time.
//!
//! A renewal runs in a task of its own, so that no sender's haste cuts it off for the others, and
//! all who need its result wait for the same one. While the old token lives nobody waits at all.
//! Moments are those of [`tokio::time`], so that tests need not wait for them.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared as SharedFuture};
use secrecy::SecretString;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, error, warn};

use crate::provider::redact::Redactor;
use crate::provider::{Answer, Outcome};

/// How long before its end a token is renewed, on average. Google's SDKs take four to five minutes.
const MARGIN: Duration = Duration::from_secs(300);

/// How far a renewal may lie off [`MARGIN`]: instances that started together must not stay
/// together.
const JITTER: Duration = Duration::from_secs(60);

/// Of a token with a short life, at most this part of it is the margin.
const MAX_MARGIN_PART: u32 = 4;

/// After a failure nobody asks again for this long; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause of our own; a Retry-After is followed up to [`MAX_WISHED_PAUSE`].
const MAX_PAUSE: Duration = Duration::from_secs(8);
const MAX_WISHED_PAUSE: Duration = Duration::from_secs(60);

/// A token that the provider refuses is replaced at most this often: when it refuses new ones too,
/// new ones are not the cure.
const REPLACE_INTERVAL: Duration = Duration::from_secs(10);

/// What a token endpoint grants.
pub(super) struct Grant {
    /// Visible ASCII.
    pub(super) token: SecretString,
    /// From the moment at which it was asked for.
    pub(super) life: Duration,
}

/// Where tokens come from. An exchange bounds its own time.
#[async_trait]
pub(super) trait Exchange: Send + Sync + 'static {
    async fn exchange(&self) -> Result<Grant, TokenError>;
}

/// A token in use. `Debug` does not show it.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) secret: SecretString,
    renew_at: Instant,
    ends_at: Instant,
}

/// Why there is no token. The texts are safe to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenError {
    /// The token endpoint refuses the key: ours to mend.
    Refused {
        http_status: Option<u16>,
        text: String,
    },
    /// It may work later.
    Unavailable {
        http_status: Option<u16>,
        text: String,
        retry_after: Option<Duration>,
    },
    /// It may come too late for this send.
    TooLate,
    /// The present one is so new that another would fare no better.
    JustReplaced,
}

/// Keeps the token.
pub(super) struct Tokens {
    inner: Arc<Inner>,
}

struct Inner {
    exchange: Box<dyn Exchange>,
    state: Mutex<State>,
}

type Renewal = SharedFuture<BoxFuture<'static, Result<Arc<Token>, TokenError>>>;

#[derive(Default)]
struct State {
    token: Option<Arc<Token>>,
    /// The one that is under way.
    renewal: Option<Renewal>,
    failure: Option<Failure>,
    /// When the provider's refusal last led to a new token.
    replaced_at: Option<Instant>,
}

struct Failure {
    error: TokenError,
    until: Instant,
    in_a_row: u32,
}

/// What a sender gets.
enum Found {
    Token(Arc<Token>),
    Coming(Renewal),
}

impl Tokens {
    pub(super) fn new(exchange: impl Exchange) -> Self {
        Self {
            inner: Arc::new(Inner {
                exchange: Box::new(exchange),
                state: Mutex::default(),
            }),
        }
    }

    /// The token, waited for until `latest` when there is none that lives.
    ///
    /// # Errors
    ///
    /// When none can be had, or not in time.
    pub(super) async fn get(&self, latest: Instant) -> Result<Arc<Token>, TokenError> {
        let found = self.find()?;
        arrive(found, latest).await
    }

    /// A token in place of one that the provider refused: the one that came since, else a new one.
    ///
    /// # Errors
    ///
    /// As [`Self::get`], and [`TokenError::JustReplaced`].
    pub(super) async fn replace(
        &self,
        refused: &Arc<Token>,
        latest: Instant,
    ) -> Result<Arc<Token>, TokenError> {
        let found = self.find_other(refused)?;
        arrive(found, latest).await
    }

    fn find(&self) -> Result<Found, TokenError> {
        let now = Instant::now();
        let mut state = self.inner.state();
        let Some(token) = state.living(now) else {
            return self.coming(&mut state, now).map(Found::Coming);
        };
        if now >= token.renew_at && state.pausing(now).is_none() {
            // Nobody waits for it: its failure is logged, and the old token serves on.
            drop(self.renewal(&mut state));
        }
        Ok(Found::Token(token))
    }

    fn find_other(&self, refused: &Arc<Token>) -> Result<Found, TokenError> {
        let now = Instant::now();
        let mut state = self.inner.state();
        match state.living(now) {
            Some(token) if !Arc::ptr_eq(&token, refused) => return Ok(Found::Token(token)),
            _ => {}
        }
        // One that ended on its way has to be followed by another in any case.
        let in_its_time = now < refused.ends_at;
        if state.renewal.is_none() && in_its_time {
            let just = |at: Instant| now.saturating_duration_since(at) < REPLACE_INTERVAL;
            if state.replaced_at.is_some_and(just) {
                return Err(TokenError::JustReplaced);
            }
            state.replaced_at = Some(now);
        }
        state.token = None;
        self.coming(&mut state, now).map(Found::Coming)
    }

    fn coming(&self, state: &mut State, now: Instant) -> Result<Renewal, TokenError> {
        match state.pausing(now) {
            Some(error) if state.renewal.is_none() => Err(error),
            _ => Ok(self.renewal(state)),
        }
    }

    /// The renewal under way, begun if there is none.
    fn renewal(&self, state: &mut State) -> Renewal {
        if let Some(renewal) = &state.renewal {
            return renewal.clone();
        }
        let inner = Arc::clone(&self.inner);
        let task = tokio::spawn(async move { inner.renew().await });
        let renewal = task
            .map(|ended| ended.unwrap_or_else(|_| Err(TokenError::broken())))
            .boxed()
            .shared();
        state.renewal = Some(renewal.clone());
        renewal
    }
}

async fn arrive(found: Found, latest: Instant) -> Result<Arc<Token>, TokenError> {
    match found {
        Found::Token(token) => Ok(token),
        Found::Coming(renewal) => match timeout_at(latest, renewal).await {
            Ok(result) => result,
            Err(_) => Err(TokenError::TooLate),
        },
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn renew(&self) -> Result<Arc<Token>, TokenError> {
        let began = Instant::now();
        // A panic must not leave a renewal under way forever.
        let exchange = AssertUnwindSafe(self.exchange.exchange()).catch_unwind();
        let result = exchange.await.unwrap_or_else(|_| Err(TokenError::broken()));
        let mut state = self.state();
        state.renewal = None;
        match result {
            Ok(grant) => Ok(state.renewed(grant, began)),
            Err(error) => {
                state.failed(error.clone());
                Err(error)
            }
        }
    }
}

impl State {
    fn living(&self, now: Instant) -> Option<Arc<Token>> {
        let token = self.token.as_ref();
        token.filter(|token| now < token.ends_at).cloned()
    }

    /// The failure after which nobody asks yet.
    fn pausing(&self, now: Instant) -> Option<TokenError> {
        let failure = self.failure.as_ref();
        let failure = failure.filter(|failure| now < failure.until)?;
        Some(failure.error.clone().with_wait(failure.until - now))
    }

    fn renewed(&mut self, grant: Grant, began: Instant) -> Arc<Token> {
        let token = Arc::new(Token {
            secret: grant.token,
            renew_at: began + renewal_after(grant.life, fastrand::f64()),
            ends_at: began + grant.life,
        });
        debug!(life_seconds = grant.life.as_secs(), "access token renewed");
        self.failure = None;
        self.token = Some(Arc::clone(&token));
        token
    }

    fn failed(&mut self, error: TokenError) {
        let now = Instant::now();
        let in_a_row = self.failure.as_ref().map_or(0, |failure| failure.in_a_row);
        let own = FIRST_PAUSE
            .saturating_mul(2_u32.saturating_pow(in_a_row))
            .min(MAX_PAUSE);
        let wished = error.retry_after().unwrap_or_default();
        let pause = own.max(wished.min(MAX_WISHED_PAUSE));
        error.report(self.living(now).is_some());
        self.failure = Some(Failure {
            error,
            until: now + pause,
            in_a_row: in_a_row.saturating_add(1),
        });
    }
}

/// When a token that lives so long is renewed; `jitter` in 0..1.
fn renewal_after(life: Duration, jitter: f64) -> Duration {
    let margin = MARGIN - JITTER + JITTER.mul_f64(2.0 * jitter);
    life - margin.min(life / MAX_MARGIN_PART)
}

impl TokenError {
    /// Without an answer.
    pub(super) fn unavailable(text: String) -> Self {
        Self::Unavailable {
            http_status: None,
            text,
            retry_after: None,
        }
    }

    fn broken() -> Self {
        Self::unavailable("the renewal panicked in this service".to_owned())
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    fn with_wait(self, wait: Duration) -> Self {
        match self {
            Self::Unavailable {
                http_status, text, ..
            } => Self::Unavailable {
                http_status,
                text,
                retry_after: Some(wait),
            },
            other => other,
        }
    }

    /// What it means for the message, which has not gone out.
    pub(super) fn outcome(self, redactor: &Redactor) -> Outcome {
        let answer = |http_status, text: &str| Answer {
            http_status,
            text: redactor.text(&format!("no access token: {text}")),
        };
        match self {
            Self::Refused { http_status, text } => Outcome::Misconfigured {
                answer: answer(http_status, &text),
            },
            Self::Unavailable {
                http_status,
                text,
                retry_after,
            } => Outcome::Deferred {
                retry_after,
                answer: answer(http_status, &text),
            },
            Self::TooLate | Self::JustReplaced => Outcome::Deferred {
                retry_after: None,
                answer: answer(None, "none came in time for this send"),
            },
        }
    }

    fn report(&self, old_one_lives: bool) {
        match self {
            Self::Refused { http_status, text } => error!(
                http.status = http_status,
                error = %text,
                old_one_lives,
                "the token endpoint refuses the service-account key: check the key and the clock"
            ),
            Self::Unavailable {
                http_status, text, ..
            } => warn!(
                http.status = http_status,
                error = %text,
                old_one_lives,
                "the access token cannot be renewed yet"
            ),
            Self::TooLate | Self::JustReplaced => {}
        }
    }
}

#[cfg(test)]
mod tests;
