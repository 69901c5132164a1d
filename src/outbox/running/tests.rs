use std::future::pending;

use super::*;

/// Whether the process is taken down, once the part has ended and its watcher has seen it.
async fn dies(switches: &Switches, part: Part) -> bool {
    part.watcher.await.unwrap();
    switches.died.is_cancelled()
}

#[tokio::test]
async fn a_part_that_panics_takes_the_process_down() {
    for name in ["recorder", "lane"] {
        let switches = Switches::default();
        let part = switches.watch(name, async { panic!("a bug") });
        assert!(dies(&switches, part).await, "{name}");
    }
}

#[tokio::test]
async fn a_part_that_panics_while_it_stops_is_no_clean_stop() {
    let switches = Switches::default();
    switches.stop.cancel();
    let part = switches.watch("settler", async { panic!("a bug") });
    assert!(dies(&switches, part).await);
}

#[tokio::test]
async fn a_part_that_ends_by_itself_takes_the_process_down() {
    let switches = Switches::default();
    let part = switches.watch("janitor", async {});
    assert!(dies(&switches, part).await);
}

#[tokio::test]
async fn a_part_may_end_after_the_stop_and_the_recorder_before_it() {
    let switches = Switches::default();
    let part = switches.watch("recorder", async {});
    assert!(!dies(&switches, part).await);
    switches.stop.cancel();
    let part = switches.watch("lane", async {});
    assert!(!dies(&switches, part).await);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_does_not_end_is_ended_at_the_deadline() {
    let switches = Switches::default();
    switches.stop.cancel();
    let part = switches.watch("lane", pending());
    assert!(!part.finish(Instant::now() + Duration::from_secs(1)).await);
}
