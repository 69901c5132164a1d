//! Points at which a process dies when a fault harness asks for it: `FAILPOINTS` names one and says
//! at which of its passes, for example `paybell-dies-at/accepted=20*off->1*return`.
//!
//! They exist only with the cargo feature `fail-points`. A build without it holds none of their
//! names.

/// Where a process may die. Without the feature `fail-points` it is nothing at all.
macro_rules! may_die_at {
    ($point:literal) => {
        #[cfg(feature = "fail-points")]
        if fail::eval(concat!("paybell-dies-at/", $point), |_| ()).is_some() {
            // As at a `kill -9`: nothing is dropped, flushed or told.
            std::process::abort();
        }
    };
}

pub(crate) use may_die_at;

/// Reads `FAILPOINTS`; the points are live for as long as the value is.
///
/// # Panics
/// On a value that is not understood.
#[cfg(feature = "fail-points")]
pub fn armed() -> fail::FailScenario<'static> {
    fail::FailScenario::setup()
}
