//! What the log says, and what neither it nor any page may say.

mod caller;
mod dialects;
mod echo;
mod requests;
mod search;
mod spans;
mod start;
