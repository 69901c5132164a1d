//! SMS gateways, one file a dialect.

mod clock;
pub mod http;
mod korean;
mod listing;
pub mod sens;
pub mod solapi;
pub mod twilio;
mod verdict;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod testing;
