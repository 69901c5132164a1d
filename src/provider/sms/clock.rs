//! How far a provider's clock may be from ours.

use chrono::{DateTime, TimeDelta, Utc};

use crate::provider::Message;

/// Solapi and SENS refuse requests whose clock is off by more; a wider window costs nothing, since
/// the texts are compared as well.
const SKEW: TimeDelta = TimeDelta::minutes(5);

/// The earliest time that a provider can have written on the message.
pub fn earliest(message: &Message) -> DateTime<Utc> {
    message.recorded_at() - SKEW
}

/// The latest time that a provider can have written on it.
pub fn latest() -> DateTime<Utc> {
    Utc::now() + SKEW
}
