//! What is seen while runs go on: a bar on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// Of all runs.
pub struct Progress {
    /// `None` when nobody looks.
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Of so many runs.
    pub fn of(runs: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(u64::try_from(runs).unwrap_or(u64::MAX));
            let style = "{wide_bar} {pos}/{len} runs, {elapsed}, {eta} to go\n{msg}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(std::time::Duration::from_millis(250));
            bar
        });
        Self { bar }
    }

    /// What goes on now.
    pub fn now(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    /// A run has ended.
    pub fn done(&self, line: &str) {
        match &self.bar {
            Some(bar) => {
                bar.println(line);
                bar.inc(1);
            }
            None => say(line),
        }
    }

    /// All have.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A line on standard error. One that nobody can read is no reason to stop.
pub fn say(line: &str) {
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}
