//! The breaker: a provider that keeps failing is left alone, but for one probe at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failures in a row that open it.
const FAILURES: u32 = 10;

/// The first pause before a probe.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest: a provider that is back waits no longer for its next message.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Whether a request may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// As many as you like.
    Open,
    /// This one alone; tell how it went with [`Breaker::record`] or [`Breaker::abandon`].
    Probe,
    /// None before this moment.
    Wait(Instant),
    /// None until the probe that is out has come back.
    Probing,
}

/// What a request says of the provider's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It decided about the message, whichever way.
    Well,
    /// It did not, this time.
    Failing,
    /// It refuses our set-up: no message can fare better until somebody mends it.
    Refusing,
}

/// How the breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Requests pass.
    Closed,
    /// Requests wait for the next probe.
    Open,
    /// A probe is out.
    Probing,
}

#[derive(Debug, Clone, Copy)]
enum Inner {
    Closed { failures: u32 },
    Open { until: Instant, pause: Duration },
    Probing { pause: Duration },
}

/// One lane's breaker.
#[derive(Debug)]
pub struct Breaker {
    inner: Mutex<Inner>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            inner: Mutex::new(Inner::Closed { failures: 0 }),
        }
    }
}

impl Breaker {
    /// Asks for a request at `now`; a [`Admission::Probe`] is given once.
    pub fn admit(&self, now: Instant) -> Admission {
        let mut inner = self.lock();
        match *inner {
            Inner::Closed { .. } => Admission::Open,
            Inner::Probing { .. } => Admission::Probing,
            Inner::Open { until, .. } if now < until => Admission::Wait(until),
            Inner::Open { pause, .. } => {
                *inner = Inner::Probing { pause };
                Admission::Probe
            }
        }
    }

    /// A request came back at `now`. Returns the new state when it changed.
    ///
    /// `jitter` in 0..1 spreads the probes of several instances.
    pub fn record(&self, health: Health, now: Instant, jitter: f64) -> Option<State> {
        let mut inner = self.lock();
        let before = inner.state();
        *inner = match (*inner, health) {
            (_, Health::Well) => Inner::Closed { failures: 0 },
            (Inner::Closed { failures }, Health::Failing) if failures + 1 < FAILURES => {
                Inner::Closed {
                    failures: failures + 1,
                }
            }
            (Inner::Closed { .. }, _) => open(FIRST_PAUSE, now, jitter),
            (Inner::Probing { pause }, _) => {
                open(pause.saturating_mul(2).min(LONGEST_PAUSE), now, jitter)
            }
            // A request of before it opened: it is counted already.
            (open @ Inner::Open { .. }, _) => open,
        };
        let after = inner.state();
        (after != before).then_some(after)
    }

    /// A probe was not sent after all: the next one may go at once.
    pub fn abandon(&self, now: Instant) {
        let mut inner = self.lock();
        if let Inner::Probing { pause } = *inner {
            *inner = Inner::Open { until: now, pause };
        }
    }

    /// How it stands.
    pub fn state(&self) -> State {
        self.lock().state()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn state(&self) -> State {
        match self {
            Self::Closed { .. } => State::Closed,
            Self::Open { .. } => State::Open,
            Self::Probing { .. } => State::Probing,
        }
    }
}

impl State {
    /// The value of the metric: 0 is well.
    pub fn code(self) -> i64 {
        match self {
            Self::Closed => 0,
            Self::Probing => 1,
            Self::Open => 2,
        }
    }

    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Probing => "probing",
        }
    }
}

fn open(pause: Duration, now: Instant, jitter: f64) -> Inner {
    let spread = (pause / 4).mul_f64(jitter.clamp(0.0, 1.0));
    Inner::Open {
        until: now + pause + spread,
        pause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::default();
        for _ in 0..FAILURES {
            breaker.record(Health::Failing, now, 0.0);
        }
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_one_success_starts_over() {
        let now = Instant::now();
        let breaker = Breaker::default();
        for _ in 1..FAILURES {
            assert_eq!(breaker.record(Health::Failing, now, 0.0), None);
        }
        breaker.record(Health::Well, now, 0.0);
        for _ in 1..FAILURES {
            breaker.record(Health::Failing, now, 0.0);
        }
        assert_eq!(breaker.admit(now), Admission::Open);
        assert_eq!(breaker.record(Health::Failing, now, 0.0), Some(State::Open));
        assert_eq!(breaker.admit(now), Admission::Wait(now + FIRST_PAUSE));
    }

    #[test]
    fn a_refused_set_up_opens_it_at_once() {
        let now = Instant::now();
        let breaker = Breaker::default();
        assert_eq!(
            breaker.record(Health::Refusing, now, 0.0),
            Some(State::Open)
        );
    }

    #[test]
    fn one_probe_at_a_time_and_each_failure_doubles_the_pause_up_to_the_longest() {
        let mut now = Instant::now();
        let breaker = opened(now);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let Admission::Wait(until) = breaker.admit(now) else {
                panic!("it is not open");
            };
            pauses.push((until - now).as_secs());
            now = until;
            assert_eq!(breaker.admit(now), Admission::Probe);
            assert_eq!(breaker.admit(now), Admission::Probing);
            breaker.record(Health::Failing, now, 0.0);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_probe_that_succeeds_closes_it() {
        let now = Instant::now();
        let breaker = opened(now);
        let later = now + FIRST_PAUSE;
        assert_eq!(breaker.admit(later), Admission::Probe);
        assert_eq!(
            breaker.record(Health::Well, later, 0.0),
            Some(State::Closed)
        );
        assert_eq!(breaker.admit(later), Admission::Open);
    }

    #[test]
    fn a_probe_that_was_not_sent_leaves_the_next_free() {
        let now = Instant::now();
        let breaker = opened(now);
        let later = now + FIRST_PAUSE;
        assert_eq!(breaker.admit(later), Admission::Probe);
        breaker.abandon(later);
        assert_eq!(breaker.admit(later), Admission::Probe);
    }

    #[test]
    fn late_failures_of_before_it_opened_change_nothing() {
        let now = Instant::now();
        let breaker = opened(now);
        breaker.record(Health::Failing, now + FIRST_PAUSE, 0.0);
        assert_eq!(breaker.admit(now), Admission::Wait(now + FIRST_PAUSE));
    }
}
