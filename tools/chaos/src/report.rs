//! The table, and the same as JSON.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::run::Run;
use crate::verify::Explained;
use crate::world::Kind;

/// One line of the table: a fault on a database.
#[derive(Debug, Serialize)]
struct Line {
    fault: String,
    database: Kind,
    runs: usize,
    payments: usize,
    lost: usize,
    duplicated: usize,
    unaskable_repeats: usize,
    stalled_repeats: usize,
    stuck: usize,
    otherwise_wrong: usize,
    recovered_s_median: f64,
    recovered_s_max: f64,
    accepting_s_max: Option<f64>,
    slowest_s: f64,
}

#[derive(Serialize)]
struct Report<'a> {
    table: &'a [Line],
    runs: &'a [Run],
}

const HEAD: [&str; 13] = [
    "fault",
    "database",
    "runs",
    "payments",
    "lost",
    "duplicated",
    "unaskable",
    "stalled",
    "stuck",
    "wrong",
    "recovered s (median, max)",
    "accepting s (max)",
    "slowest s",
];

impl Line {
    fn of(runs: &[&Run], fault: &str, database: Kind) -> Self {
        let sum = |count: fn(&Run) -> usize| runs.iter().map(|run| count(run)).sum();
        let mut recovered: Vec<f64> = runs.iter().map(|run| run.judgement.recovered_s).collect();
        recovered.sort_by(f64::total_cmp);
        let accepting = runs.iter().filter_map(|run| run.judgement.accepting_s);
        Self {
            fault: fault.to_owned(),
            database,
            runs: runs.len(),
            payments: sum(|run| run.judgement.payments),
            lost: sum(|run| run.judgement.lost.len()),
            duplicated: sum(|run| run.judgement.duplicated.len()),
            unaskable_repeats: sum(|run| repeats(&run.judgement.unaskable)),
            stalled_repeats: sum(|run| repeats(&run.judgement.stalled)),
            stuck: sum(|run| run.judgement.stuck.len()),
            otherwise_wrong: sum(|run| run.judgement.wrong.len()),
            recovered_s_median: recovered.get(recovered.len() / 2).copied().unwrap_or(0.0),
            recovered_s_max: recovered.last().copied().unwrap_or(0.0),
            accepting_s_max: accepting.max_by(f64::total_cmp),
            slowest_s: runs
                .iter()
                .fold(0.0, |most, run| run.judgement.slowest_s.max(most)),
        }
    }

    fn cells(&self) -> [String; 13] {
        [
            self.fault.clone(),
            self.database.name().to_owned(),
            self.runs.to_string(),
            self.payments.to_string(),
            self.lost.to_string(),
            self.duplicated.to_string(),
            self.unaskable_repeats.to_string(),
            self.stalled_repeats.to_string(),
            self.stuck.to_string(),
            self.otherwise_wrong.to_string(),
            format!(
                "{:.1}, {:.1}",
                self.recovered_s_median, self.recovered_s_max
            ),
            self.accepting_s_max
                .map_or_else(|| "-".to_owned(), |s| format!("{s:.1}")),
            format!("{:.1}", self.slowest_s),
        ]
    }
}

fn repeats(explained: &[Explained]) -> usize {
    explained.iter().map(|one| one.times - 1).sum()
}

/// In the order in which faults and databases first appear.
fn lines(runs: &[Run]) -> Vec<Line> {
    let mut seen = BTreeSet::new();
    let kinds = runs.iter().map(|run| (run.fault.as_str(), run.database));
    let firsts = kinds.filter(|(fault, database)| seen.insert((*fault, database.name())));
    let lines = firsts.map(|(fault, database)| {
        let same = |run: &&Run| run.fault == fault && run.database == database;
        let ours: Vec<&Run> = runs.iter().filter(same).collect();
        Line::of(&ours, fault, database)
    });
    lines.collect()
}

/// The table as Markdown, aligned for a terminal, and what is to be told beside it.
pub fn table(runs: &[Run]) -> String {
    let lines = lines(runs);
    let head = HEAD.map(str::to_owned);
    let cells: Vec<[String; 13]> = lines.iter().map(Line::cells).collect();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|at| {
            cells
                .iter()
                .chain([&head])
                .map(|row| row[at].len())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut text = row(&head, &widths) + &row(&rule, &widths);
    for cells in &cells {
        text.push_str(&row(cells, &widths));
    }
    for run in runs {
        text.push_str(&told(run));
    }
    text
}

fn row(cells: &[String], widths: &[usize]) -> String {
    let padded = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{cell:width$}"));
    format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
}

/// Every repeat of a stalled process with its reason, and everything that is wrong. The repeats
/// where nobody can be asked are many, and explained in the JSON.
fn told(run: &Run) -> String {
    let judgement = &run.judgement;
    let mut text = String::new();
    let whose = format!(
        "{} on {}, seed {}",
        run.fault,
        run.database.name(),
        run.seed
    );
    let mut tell = |what: &str, line: &str| text.push_str(&format!("{whose}: {what}: {line}\n"));
    for one in &judgement.stalled {
        let line = format!("{} {} times, {}", one.id, one.times, one.why);
        tell("repeated", &format!("{} {line}", one.channel));
    }
    judgement.lost.iter().for_each(|line| tell("LOST", line));
    judgement
        .duplicated
        .iter()
        .for_each(|line| tell("DUPLICATED", line));
    judgement.stuck.iter().for_each(|line| tell("STUCK", line));
    judgement.wrong.iter().for_each(|line| tell("WRONG", line));
    if let Some(kept) = &run.kept {
        tell("kept", &kept.display().to_string());
        let again = format!(
            "--fault {} --database {} --seed {} --payments {}",
            run.fault,
            run.database.name(),
            run.seed,
            run.asked
        );
        tell("again with", &again);
    }
    text
}

/// One run in one line.
pub fn line(run: &Run) -> String {
    let judgement = &run.judgement;
    let verdict = if judgement.is_good() { "good" } else { "BAD" };
    format!(
        "{verdict}: {} on {}, seed {}: {} payments, {} lost, {} duplicated, {} stuck, {} wrong, \
         recovered in {:.1} s",
        run.fault,
        run.database.name(),
        run.seed,
        judgement.payments,
        judgement.lost.len(),
        judgement.duplicated.len(),
        judgement.stuck.len(),
        judgement.wrong.len(),
        judgement.recovered_s,
    )
}

/// Writes the table and all runs.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write_json(runs: &[Run], file: &Path) -> Result<()> {
    let table = lines(runs);
    let report = Report {
        table: &table,
        runs,
    };
    let text = serde_json::to_string_pretty(&report)?;
    std::fs::write(file, text + "\n").with_context(|| file.display().to_string())
}
