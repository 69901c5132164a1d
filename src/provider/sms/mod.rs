//! SMS gateways, one file a dialect.

pub mod http;
