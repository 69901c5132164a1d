//! Waiting for something that only shows from outside.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Looks again and again until `look` gives something; panics with `what` after `patience`.
pub async fn until<T>(
    what: &str,
    patience: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}
