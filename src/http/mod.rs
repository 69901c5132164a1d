//! The door to the outside: payments for clients, the outbox for operators, health and figures for
//! machines.

mod admin;
pub mod auth;
pub mod body;
mod cursor;
mod health;
pub mod keys;
mod observe;
mod payments;
pub mod problem;
mod query;
mod replay;
mod server;
mod state;
mod views;

pub use server::{Server, bind};
pub use state::AppState;
