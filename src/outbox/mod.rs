//! The engine: what makes a committed notification arrive.
//!
//! A payment goes through the [`recorder`] (reserve, commit, send) into its [`lane`]; the lane's
//! scheduler is the fallback for every row that did not go that way. Both doors end in one
//! [`delivery`]; [`decision`] says what follows from its outcome; the [`settler`] writes it. The
//! [`janitor`] ends and removes what is old.

pub mod backoff;
pub mod breaker;
mod carry;
pub mod decision;
pub mod delivery;
mod engine;
pub mod gate;
pub mod held;
pub mod janitor;
pub mod lane;
pub mod permits;
pub mod recorder;
mod running;
pub mod settler;
pub mod throttle;

pub use engine::{Engine, LaneDoor, LaneStatus, Providers, RecordError};
pub use running::Running;
