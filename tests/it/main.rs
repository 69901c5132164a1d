//! Integration tests: the real app over HTTP, or the real binary, on both databases.
//!
//! One binary, so that everything links once. Every test makes a database and mock providers of its
//! own, and none waits by sleeping for a fixed time.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may panic: that is how it fails"
)]

mod dialects;
mod smoke;
mod support;
