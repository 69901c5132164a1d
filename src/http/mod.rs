//! The door to the outside: what every route needs to read a request and to refuse one.

pub mod auth;
pub mod body;
pub mod keys;
pub mod problem;
