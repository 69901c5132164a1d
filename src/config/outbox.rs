//! The delivery engine.
//!
//! - `OUTBOX_LEASE_SECS`: seconds that a claimed row belongs to its holder alone
//! - `OUTBOX_POLL_INTERVAL_MS`: milliseconds between two looks of the fallback scheduler
//! - `OUTBOX_BATCH_SIZE`: rows claimed at a time
//! - `OUTBOX_QUEUE_CAPACITY`: notifications between commit and delivery, per provider
//! - `OUTBOX_MAX_IN_FLIGHT`: requests to one provider at a time
//! - `OUTBOX_MAX_ATTEMPTS`: bad or missing answers before a row is given up
//! - `OUTBOX_GIVE_UP_HOURS`: hours from creation or replay before a row is given up
//! - `BACKOFF_BASE_MS`, `BACKOFF_MAX_MS`: first and longest wait between attempts, milliseconds
//! - `PROVIDER_TIMEOUT_MS`: milliseconds of one request, connect to last byte
//! - `SMS_MAX_PER_SECOND`, `FCM_MAX_PER_SECOND`: requests a second to the provider, per instance
//! - `RETENTION_HOURS`: hours after which SENT and CANCELED rows are removed
//! - `RETENTION_FAILED_HOURS`: hours after which FAILED rows are blanked; unset: never
//! - `SHUTDOWN_GRACE_SECS`: seconds to settle what is in flight

use std::time::Duration;

use super::reader::{Faulty, Reader};
use super::variables;
use crate::payment::Channel;
use crate::provider::LOOK_UP_TIMEOUT;

/// What a lease must have beyond the provider timeout: room for a look-up, and a second to spare.
const LEASE_MARGIN: Duration = LOOK_UP_TIMEOUT.saturating_add(Duration::from_secs(1));

/// The delivery engine's settings.
#[derive(Debug, Clone)]
pub struct OutboxConfig {
    /// How long a claimed row belongs to its holder alone.
    pub lease: Duration,
    /// Pause of the fallback scheduler.
    pub poll_interval: Duration,
    /// Rows claimed at a time.
    pub batch_size: usize,
    /// Notifications that may wait between commit and delivery, per provider.
    pub queue_capacity: usize,
    /// Requests to one provider at a time.
    pub max_in_flight: usize,
    /// Bad or missing answers before a row is given up.
    pub max_attempts: u32,
    /// Age since creation or replay at which a row is given up.
    pub give_up: Duration,
    /// First wait between attempts.
    pub backoff_base: Duration,
    /// Longest wait between attempts, also for a provider's own wish.
    pub backoff_max: Duration,
    /// One provider request, connect to last byte.
    pub provider_timeout: Duration,
    /// Age at which SENT and CANCELED rows are removed.
    pub retention: Duration,
    /// Age at which FAILED rows are blanked; `None`: never.
    pub retention_failed: Option<Duration>,
    /// Requests a second to the SMS provider; `None`: as many as there are.
    pub sms_max_per_second: Option<u32>,
    /// Requests a second to FCM; `None`: as many as there are.
    pub fcm_max_per_second: Option<u32>,
    /// Time to settle what is in flight at shutdown.
    pub shutdown_grace: Duration,
}

impl OutboxConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Faulty> {
        const TEN_YEARS_IN_HOURS: u64 = 87_600;
        let lease = reader.seconds(variables::OUTBOX_LEASE_SECS, 5..=3600);
        let poll_interval = reader.millis(variables::OUTBOX_POLL_INTERVAL_MS, 50..=60_000);
        let batch_size = reader.number(variables::OUTBOX_BATCH_SIZE, 1..=1000);
        let queue_capacity = reader.number(variables::OUTBOX_QUEUE_CAPACITY, 1..=100_000);
        let max_in_flight = reader.number(variables::OUTBOX_MAX_IN_FLIGHT, 1..=10_000);
        let max_attempts = reader.number(variables::OUTBOX_MAX_ATTEMPTS, 1..=1000);
        let give_up = reader.hours(variables::OUTBOX_GIVE_UP_HOURS, 1..=8760);
        let backoff_base = reader.millis(variables::BACKOFF_BASE_MS, 1..=3_600_000);
        let backoff_max = reader.millis(variables::BACKOFF_MAX_MS, 1..=86_400_000);
        let provider_timeout = reader.millis(variables::PROVIDER_TIMEOUT_MS, 100..=120_000);
        let retention = reader.hours(variables::RETENTION_HOURS, 1..=TEN_YEARS_IN_HOURS);
        let retention_failed =
            reader.optional_hours(variables::RETENTION_FAILED_HOURS, 1..=TEN_YEARS_IN_HOURS);
        let sms_max_per_second = reader.optional_number(variables::SMS_MAX_PER_SECOND, 1..=100_000);
        let fcm_max_per_second = reader.optional_number(variables::FCM_MAX_PER_SECOND, 1..=100_000);
        // Two seconds before its end, requests that are still out are cut.
        let shutdown_grace = reader.seconds(variables::SHUTDOWN_GRACE_SECS, 3..=600);
        let lease_fits = check_lease(reader, lease, provider_timeout);
        let backoff_fits = check_backoff(reader, backoff_base, backoff_max);
        lease_fits.and(backoff_fits)?;
        Ok(Self {
            lease: lease?,
            poll_interval: poll_interval?,
            batch_size: batch_size?,
            queue_capacity: queue_capacity?,
            max_in_flight: max_in_flight?,
            max_attempts: max_attempts?,
            give_up: give_up?,
            backoff_base: backoff_base?,
            backoff_max: backoff_max?,
            provider_timeout: provider_timeout?,
            retention: retention?,
            retention_failed: retention_failed?,
            sms_max_per_second: sms_max_per_second?,
            fcm_max_per_second: fcm_max_per_second?,
            shutdown_grace: shutdown_grace?,
        })
    }

    /// Requests a second to the channel's provider.
    pub fn max_per_second(&self, channel: Channel) -> Option<u32> {
        match channel {
            Channel::Sms => self.sms_max_per_second,
            Channel::Fcm => self.fcm_max_per_second,
        }
    }
}

/// A lease that ends before its request may would let two instances send at once.
fn check_lease(
    reader: &mut Reader<'_>,
    lease: Result<Duration, Faulty>,
    provider_timeout: Result<Duration, Faulty>,
) -> Result<(), Faulty> {
    let (lease, provider_timeout) = (lease?, provider_timeout?);
    let needed = provider_timeout + LEASE_MARGIN;
    if lease >= needed {
        return Ok(());
    }
    let problem = format!(
        "is shorter than PROVIDER_TIMEOUT_MS={} and 4 s more: raise it to {} or lower \
         PROVIDER_TIMEOUT_MS",
        provider_timeout.as_millis(),
        needed.as_millis().div_ceil(1000),
    );
    Err(reader.fault(variables::OUTBOX_LEASE_SECS, &problem))
}

fn check_backoff(
    reader: &mut Reader<'_>,
    base: Result<Duration, Faulty>,
    max: Result<Duration, Faulty>,
) -> Result<(), Faulty> {
    let (base, max) = (base?, max?);
    if max >= base {
        return Ok(());
    }
    let problem = format!(
        "is less than BACKOFF_BASE_MS={}: raise it or lower BACKOFF_BASE_MS",
        base.as_millis()
    );
    Err(reader.fault(variables::BACKOFF_MAX_MS, &problem))
}
