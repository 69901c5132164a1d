//! `paybell check`: says what is wrong in the database, and in which row.

use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::time::Duration;

use super::{block_on, fail, refuse};
use crate::app::AppError;
use crate::config::{DatabaseConfig, DatabaseUrl, Env};
use crate::store::{Finding, Report, Store, StoreError};
use crate::terminal::print;

/// A check reads whole tables; no request waits for it.
const DEADLINE: Duration = Duration::from_secs(600);

/// Runs the command.
pub fn check(env: &Env) -> ExitCode {
    let database = match DatabaseConfig::from_env(env) {
        Ok(database) => database,
        Err(faults) => return refuse(&faults),
    };
    let report = match block_on(Box::pin(look_into(&database))) {
        Ok(Ok(report)) => report,
        Ok(Err(error)) => return fail(&error),
        Err(error) => return fail(&error),
    };
    if let Err(error) = print(&told(&report)) {
        return fail(&error);
    }
    match report.is_sound() {
        true => ExitCode::SUCCESS,
        false => fail(&"the database is not as it must be: see above"),
    }
}

async fn look_into(config: &DatabaseConfig) -> Result<Report, AppError> {
    let unusable = |fault| AppError::Database {
        url: config.url.to_string(),
        fault,
    };
    // To open a file that is not there would make it.
    if let DatabaseUrl::Sqlite { path } = &config.url
        && !path.exists()
    {
        return Err(unusable(StoreError::Unavailable(
            "there is no such file".to_owned(),
        )));
    }
    let patient = DatabaseConfig {
        timeout: DEADLINE,
        ..config.clone()
    };
    let store = Store::open(&patient).await.map_err(unusable)?;
    let report = store.check(progress).await.map_err(unusable);
    progress("");
    report
}

/// One line that is written over, where somebody looks.
fn progress(what: &str) {
    const ERASE: &str = "\r\x1b[K";
    let mut stderr = stderr();
    if stderr.is_terminal() {
        let colon = if what.is_empty() { "" } else { "checking: " };
        // Nobody looks any more when it cannot be written.
        drop(write!(stderr, "{ERASE}{colon}{what}"));
        drop(stderr.flush());
    }
}

fn told(report: &Report) -> String {
    let mut text = String::new();
    for note in &report.notes {
        name(&mut text, "note", note);
    }
    for fault in &report.faults {
        name(&mut text, "fault", fault);
    }
    let Report {
        payments,
        recorded,
        rows,
        purged,
        ..
    } = report;
    let books = format!(
        "{payments} payments, {recorded} notifications recorded: {rows} are here, {purged} were \
         removed by retention"
    );
    let verdict = match (report.balances(), report.is_sound()) {
        (false, _) => "fault: the books do not balance: ",
        (true, true) => "sound: ",
        (true, false) => "",
    };
    line(&mut text, format_args!("{verdict}{books}"));
    text
}

fn name(text: &mut String, kind: &str, finding: &Finding) {
    let Finding {
        table, what, rows, ..
    } = finding;
    for id in rows {
        line(text, format_args!("{kind}: {table} {id}: {what}"));
    }
    let named = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    let more = finding.count.saturating_sub(named);
    if more > 0 {
        line(
            text,
            format_args!("{kind}: {more} more rows of {table}: {what}"),
        );
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    text.push_str(&words.to_string());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn report() -> Report {
        Report {
            payments: 2,
            recorded: 5,
            rows: 4,
            purged: 1,
            ..Report::default()
        }
    }

    #[test]
    fn a_sound_database_is_one_line() {
        assert_eq!(
            told(&report()),
            "sound: 2 payments, 5 notifications recorded: 4 are here, 1 were removed by retention\n"
        );
    }

    #[test]
    fn books_that_do_not_balance_are_a_fault() {
        let lost = Report {
            rows: 3,
            ..report()
        };
        let text = told(&lost);
        assert!(
            text.starts_with("fault: the books do not balance: 2 payments, 5"),
            "{text}"
        );
        assert!(!lost.is_sound());
    }

    #[test]
    fn rows_are_named_and_those_beyond_are_counted() {
        let fault = Finding {
            table: "outbox",
            what: "odd",
            rows: vec![Uuid::nil()],
            count: 3,
        };
        let broken = Report {
            faults: vec![fault],
            ..report()
        };
        assert!(!broken.is_sound());
        let text = told(&broken);
        let named = "fault: outbox 00000000-0000-0000-0000-000000000000: odd\n";
        assert!(text.starts_with(named), "{text}");
        assert!(
            text.contains("fault: 2 more rows of outbox: odd\n"),
            "{text}"
        );
    }
}
