//! Integration tests: the real app over HTTP, or the real binary, on both databases.
//!
//! One binary, so that everything links once. Every test makes a database and mock providers of its
//! own, and none waits by sleeping for a fixed time.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may panic: that is how it fails"
)]

mod api_admin;
mod api_admin_changes;
mod api_bad_input;
mod api_clients;
mod api_health;
mod api_idempotency;
mod api_payments;
mod api_protocol;
#[cfg(target_os = "linux")]
mod big_answers;
mod bounds;
mod check;
mod command_line;
mod crash;
mod dialects;
mod fcm_auth;
mod isolation;
mod locks;
mod logs;
mod metrics;
mod outage;
mod panics;
mod poison;
mod provider_outages;
mod retention;
mod settler;
mod shutdown;
mod smoke;
mod store_claim;
mod store_migrate;
mod store_operate;
mod store_record;
mod store_settle;
mod store_upkeep;
mod support;
mod surroundings;
mod tls;
mod two_instances;
mod unknown_outcomes;
mod waits;
