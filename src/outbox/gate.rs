//! What stands between a row and its provider: permits, the throttle and the breaker. Whoever is let
//! through holds a [`Pass`].

use std::sync::Arc;
use std::time::Instant;

use super::breaker::{Admission, Breaker, Health, State};
use super::permits::{Door, Permit, Permits};
use super::throttle::{Throttle, Token};

/// One lane's gate.
#[derive(Debug)]
pub struct Gate {
    /// Requests out at a time.
    pub permits: Arc<Permits>,
    /// Requests a second.
    pub throttle: Throttle,
    /// Whether the provider is left alone.
    pub breaker: Arc<Breaker>,
}

/// The right to send one request. The permit in it is held until the outcome is written.
#[derive(Debug)]
pub struct Pass {
    permit: Permit,
    token: Option<Token>,
    probe: Option<Probe>,
}

/// The one request that finds out how the provider is; given back when it is not sent.
#[derive(Debug)]
struct Probe(Arc<Breaker>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.abandon(Instant::now());
    }
}

/// What came of knocking.
#[derive(Debug)]
pub enum Knock {
    /// Come in.
    Passes(Vec<Pass>),
    /// Not now: a permit or a probe comes back first.
    Later,
    /// Not before this moment.
    NotBefore(Instant),
}

impl Gate {
    /// Asks for up to `wanted` passes, or none when fewer than `least` are to be had. While the
    /// breaker is open it is one probe at most.
    pub fn knock(&self, door: Door, wanted: usize, least: usize, other_waits: bool) -> Knock {
        let now = Instant::now();
        let (wanted, least, probe) = match self.breaker.admit(now) {
            Admission::Open => (wanted, least, None),
            Admission::Probe => (1, 1, Some(Probe(Arc::clone(&self.breaker)))),
            Admission::Wait(until) => return Knock::NotBefore(until),
            Admission::Probing => return Knock::Later,
        };
        // Tokens first: a permit that comes back rings the lane, which would knock again at once.
        let tokens = self.throttle.take(wanted);
        if tokens.is_empty() {
            return Knock::NotBefore(now + self.throttle.period());
        }
        let least = least.min(tokens.len());
        let permits = self.permits.take(door, tokens.len(), least, other_waits);
        if permits.is_empty() {
            return Knock::Later;
        }
        let mut probe = probe;
        let pass = |(permit, token)| Pass {
            permit,
            token: Some(token),
            probe: probe.take(),
        };
        Knock::Passes(permits.into_iter().zip(tokens).map(pass).collect())
    }

    /// Whether rows may wait for their turn here; otherwise they are better off in the database,
    /// under nobody's lease.
    pub fn is_closed_to_fresh_rows(&self) -> bool {
        self.breaker.state() != State::Closed
    }
}

impl Pass {
    /// A request was made and says this of the provider's health. Returns the breaker's new state
    /// when it changed.
    pub fn used(&mut self, breaker: &Breaker, health: Health) -> Option<State> {
        if let Some(token) = self.token.take() {
            token.spend();
        }
        let changed = breaker.record(health, Instant::now(), fastrand::f64());
        // To abandon a probe that was recorded changes nothing: the breaker is not probing any more.
        self.probe = None;
        changed
    }

    /// What is held until the outcome is written.
    pub fn into_permit(self) -> Permit {
        self.permit
    }
}
