//! Paybell: a payment comes in over HTTP, is committed together with its outbox rows, and its SMS
//! and push notifications arrive.
//!
//! See `docs/ARCHITECTURE.md` for the map and the life of a payment.

pub mod app;
pub mod cli;
pub mod config;
pub mod demo;
pub mod fail_points;
pub mod http;
pub mod metrics;
pub mod outbox;
pub mod payment;
pub mod provider;
pub mod store;
pub mod telemetry;
pub mod terminal;
