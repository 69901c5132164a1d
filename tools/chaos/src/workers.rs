//! Runs side by side.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;

use crate::lane::Lane;
use crate::progress::Progress;
use crate::report;
use crate::run::{Plan, Run};

/// Runs all plans, so many at a time; the runs in the order of the plans.
pub async fn run_all(plans: Vec<Plan>, jobs: usize, folder: &Path, paybell: &Path) -> Vec<Run> {
    let progress = Progress::of(plans.len());
    let queue: Mutex<VecDeque<(usize, Plan)>> = Mutex::new(plans.into_iter().enumerate().collect());
    let next = || {
        queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    };
    let workers = (0..jobs.max(1)).map(|job| {
        let (progress, next) = (&progress, &next);
        async move {
            let mut lane = Lane::new(folder.join(format!("lane-{job}")));
            let mut runs = Vec::new();
            while let Some((at, plan)) = next() {
                progress.now(&plan.title());
                let run = Box::pin(plan.run(&mut lane, paybell)).await;
                progress.done(&report::line(&run));
                runs.push((at, run));
            }
            runs
        }
    });
    let mut runs: Vec<(usize, Run)> = join_all(workers).await.into_iter().flatten().collect();
    progress.finish();
    runs.sort_by_key(|(at, _)| *at);
    runs.into_iter().map(|(_, run)| run).collect()
}
