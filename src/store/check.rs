//! `paybell check`: whether the books balance and every row is as it must be. Reads only.

mod rules;

use diesel::dsl::{count_star, sql, sum};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use self::rules::{NOTES, OUTBOX, PAYMENTS};
use super::dispatch::in_snapshot;
use super::schema::{outbox, payments, totals};
use super::sql_types::Id;
use super::{Database, Store, StoreError, migrations};
use crate::payment::{PAYLOAD_VERSION, Payload};

/// Rows that are named for one fault; beyond them only their number is told.
pub const NAMED: i64 = 20;

/// Rows whose payloads are read at a time.
const STEP: i64 = 1_000;

/// Rows that share something worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `outbox` or `payments`.
    pub table: &'static str,
    /// What it is.
    pub what: &'static str,
    /// The first of the rows.
    pub rows: Vec<Uuid>,
    /// How many there are.
    pub count: i64,
}

/// What a check came to, all of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Payments.
    pub payments: i64,
    /// Notifications ever recorded with them.
    pub recorded: i64,
    /// Outbox rows that are there.
    pub rows: i64,
    /// Outbox rows that retention removed.
    pub purged: i64,
    /// What must not be.
    pub faults: Vec<Finding>,
    /// What is no fault and worth knowing.
    pub notes: Vec<Finding>,
}

impl Report {
    /// Whether every notification that was recorded is there or was removed by retention.
    pub fn balances(&self) -> bool {
        self.recorded == self.rows.saturating_add(self.purged)
    }

    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty() && self.balances()
    }
}

/// The rows of a table of which SQL is true: the first of them and their number.
macro_rules! found {
    ($conn:expr, $table:ident, $rule:expr) => {{
        let rule: &rules::Rule = $rule;
        let rows: Vec<Id> = $table::table
            .filter(sql::<Bool>(rule.found_by))
            .order($table::id)
            .limit(NAMED)
            .select($table::id)
            .load($conn)
            .await?;
        let count: i64 = if rows.is_empty() {
            0
        } else {
            $table::table
                .filter(sql::<Bool>(rule.found_by))
                .select(count_star())
                .first($conn)
                .await?
        };
        Finding {
            table: stringify!($table),
            what: rule.wrong,
            rows: rows.into_iter().map(|id| id.0).collect(),
            count,
        }
    }};
}

impl Store {
    /// Checks everything; `progress` hears what is looked at next.
    ///
    /// # Errors
    /// [`StoreError::Migration`] for a schema that is not this version's, or any of the database.
    pub async fn check(&self, progress: fn(&str)) -> Result<Report, StoreError> {
        self.knows_its_schema().await?;
        in_snapshot!(self, |conn, now| {
            let _unused = now;
            progress("the balance");
            let mut report = Report {
                payments: payments::table.count().get_result(conn).await?,
                recorded: payments::table
                    .select(sum(payments::notification_count))
                    .first::<Option<i64>>(conn)
                    .await?
                    .unwrap_or(0),
                rows: outbox::table.count().get_result(conn).await?,
                purged: totals::table
                    .filter(totals::name.eq("purged"))
                    .select(totals::value)
                    .first(conn)
                    .await
                    .optional()?
                    .unwrap_or(0),
                ..Report::default()
            };
            for rule in PAYMENTS {
                progress(rule.wrong);
                report.faults.push(found!(conn, payments, rule));
            }
            for rule in OUTBOX {
                progress(rule.wrong);
                report.faults.push(found!(conn, outbox, rule));
            }
            for rule in NOTES {
                progress(rule.wrong);
                report.notes.push(found!(conn, outbox, rule));
            }
            progress("payloads");
            let mut unreadable = Unreadable::default();
            let mut after = Id(Uuid::nil());
            loop {
                let step: Vec<(Id, String)> = outbox::table
                    .filter(outbox::id.gt(after))
                    .filter(sql::<Bool>("outbox.status = 'PENDING'"))
                    .filter(outbox::payload_version.le(PAYLOAD_VERSION))
                    .order(outbox::id)
                    .limit(STEP)
                    .select((outbox::id, outbox::payload))
                    .load(conn)
                    .await?;
                let Some((last, _)) = step.last() else { break };
                after = *last;
                unreadable.look_at(&step);
            }
            report.faults.push(unreadable.into_finding());
            report.faults.retain(|fault| fault.count > 0);
            report.notes.retain(|note| note.count > 0);
            Ok::<Report, StoreError>(report)
        })
    }

    /// A schema that is older or newer would make the rules say wrong things.
    async fn knows_its_schema(&self) -> Result<(), StoreError> {
        let name = "__diesel_schema_migrations";
        let tables = match self.database {
            Database::Sqlite(_) => "SELECT count(*) AS n FROM sqlite_master WHERE name = ?",
            Database::Postgres(_) => "SELECT count(*) AS n FROM pg_tables WHERE tablename = $1",
        };
        let versions = "SELECT version FROM __diesel_schema_migrations ORDER BY version";
        let applied: Option<Vec<String>> = in_snapshot!(self, |conn, now| {
            let _unused = now;
            let there = diesel::sql_query(tables).bind::<Text, _>(name);
            if there.get_result::<Count>(conn).await?.n == 0 {
                return Ok(None);
            }
            let versions: Vec<Version> = diesel::sql_query(versions).load(conn).await?;
            Ok::<_, StoreError>(Some(versions.into_iter().map(|v| v.version).collect()))
        })?;
        let known = migrations::versions()?;
        match applied {
            Some(applied) if applied == known => Ok(()),
            Some(applied) => Err(StoreError::Migration(format!(
                "the schema is at {}, this version's is {}: run the paybell that serves it, or \
                 paybell migrate",
                applied.last().map_or("its very beginning", String::as_str),
                known.last().map_or("empty", String::as_str),
            ))),
            None => Err(StoreError::Migration(
                "there is no schema of Paybell's in it: check DATABASE_URL, or run paybell migrate"
                    .to_owned(),
            )),
        }
    }
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    n: i64,
}

#[derive(QueryableByName)]
struct Version {
    #[diesel(sql_type = Text)]
    version: String,
}

/// Waiting rows that this version should read and cannot.
#[derive(Default)]
struct Unreadable {
    rows: Vec<Uuid>,
    count: i64,
}

impl Unreadable {
    fn look_at(&mut self, rows: &[(Id, String)]) {
        for (id, payload) in rows {
            if serde_json::from_str::<Payload>(payload).is_ok() {
                continue;
            }
            if self.count < NAMED {
                self.rows.push(id.0);
            }
            self.count += 1;
        }
    }

    fn into_finding(self) -> Finding {
        Finding {
            table: "outbox",
            what: "waiting, and its payload cannot be read",
            rows: self.rows,
            count: self.count,
        }
    }
}
