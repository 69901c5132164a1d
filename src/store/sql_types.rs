//! One Rust type for both databases: moments and ids, and "now" as each database tells it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use diesel::backend::Backend;
use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::{AsExpression, ValidGrouping};
use diesel::pg::{Pg, PgValue};
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::{BigInt, SqlType};
use diesel::sqlite::{Sqlite, SqliteValue};
use uuid::Uuid;

/// `timestamptz` on PostgreSQL, integer microseconds since 1970 on SQLite.
#[derive(Debug, Clone, Copy, Default, QueryId, SqlType)]
#[diesel(
    postgres_type(oid = 1184, array_oid = 1185),
    sqlite_type(name = "Long")
)]
pub struct MomentSql;

/// `uuid` on PostgreSQL, a 16-byte blob on SQLite.
#[derive(Debug, Clone, Copy, Default, QueryId, SqlType)]
#[diesel(
    postgres_type(oid = 2950, array_oid = 2951),
    sqlite_type(name = "Binary")
)]
pub struct UuidSql;

impl diesel::sql_types::SqlOrd for MomentSql {}

/// Microseconds between 1970-01-01 and PostgreSQL's own epoch, 2000-01-01.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A stored moment: microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromSqlRow, AsExpression)]
#[diesel(sql_type = MomentSql)]
pub struct Moment(pub i64);

impl Moment {
    /// No stored moment is earlier (PostgreSQL reads it as `-infinity`): a low-water mark that lets
    /// everything through.
    pub const DISTANT_PAST: Self = Self(i64::MIN);

    /// Seconds from here to a later moment; 0 when it is earlier.
    pub fn seconds_until(self, later: Self) -> f64 {
        let micros = u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0);
        Duration::from_micros(micros).as_secs_f64()
    }

    /// The moment for people.
    pub fn to_datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(self.0).unwrap_or_default()
    }
}

impl From<DateTime<Utc>> for Moment {
    fn from(at: DateTime<Utc>) -> Self {
        Self(at.timestamp_micros())
    }
}

impl ToSql<MomentSql, Pg> for Moment {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        let since_postgres_epoch = self.0.saturating_sub(POSTGRES_EPOCH_MICROS);
        ToSql::<BigInt, Pg>::to_sql(&since_postgres_epoch, &mut out.reborrow())
    }
}

impl FromSql<MomentSql, Pg> for Moment {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        let micros = <i64 as FromSql<BigInt, Pg>>::from_sql(value)?;
        Ok(Self(micros.saturating_add(POSTGRES_EPOCH_MICROS)))
    }
}

impl ToSql<MomentSql, Sqlite> for Moment {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        out.set_value(self.0);
        Ok(IsNull::No)
    }
}

impl FromSql<MomentSql, Sqlite> for Moment {
    fn from_sql(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
        <i64 as FromSql<BigInt, Sqlite>>::from_sql(value).map(Self)
    }
}

/// A stored id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, FromSqlRow, AsExpression)]
#[diesel(sql_type = UuidSql)]
pub struct Id(pub Uuid);

impl ToSql<UuidSql, Pg> for Id {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        use std::io::Write;
        out.write_all(self.0.as_bytes())?;
        Ok(IsNull::No)
    }
}

impl FromSql<UuidSql, Pg> for Id {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        Ok(Self(Uuid::from_slice(value.as_bytes())?))
    }
}

impl ToSql<UuidSql, Sqlite> for Id {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        out.set_value(self.0.as_bytes().as_slice());
        Ok(IsNull::No)
    }
}

impl FromSql<UuidSql, Sqlite> for Id {
    fn from_sql(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
        let bytes = <Vec<u8> as FromSql<diesel::sql_types::Binary, Sqlite>>::from_sql(value)?;
        Ok(Self(Uuid::from_slice(&bytes)?))
    }
}

/// "Now, and so much later", told by the database's clock: `now() + …` on PostgreSQL.
///
/// SQLite lives in this process, so its clock is ours: wall time at start carried on by the
/// monotonic clock, which no one can set back.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    clock: Clock,
    offset_micros: i64,
    embedded: Moment,
}

impl Now {
    /// The same reading, `offset` later.
    pub fn plus(self, offset: Duration) -> Self {
        Self {
            offset_micros: self.offset_micros.saturating_add(micros(offset)),
            ..self
        }
    }

    /// The same reading, `offset` earlier.
    pub fn minus(self, offset: Duration) -> Self {
        Self {
            offset_micros: self.offset_micros.saturating_sub(micros(offset)),
            ..self
        }
    }

    /// The clock read anew.
    pub fn live(self) -> Live {
        Live(Self {
            offset_micros: self.offset_micros,
            ..self.clock.now()
        })
    }

    /// The moment itself, as the embedded database sees it.
    pub(super) fn embedded(self) -> Moment {
        Moment(self.embedded.0.saturating_add(self.offset_micros))
    }
}

/// Like [`Now`], but never older than the row that it is compared with.
///
/// A transaction's `now()` stands still while it waits for a lock. Measured from it, a row that its
/// holder took meanwhile would seem to be from the future, and a lease would end too early.
#[derive(Debug, Clone, Copy)]
pub struct Live(Now);

impl Live {
    /// The same clock, `offset` later.
    pub fn plus(self, offset: Duration) -> Self {
        Self(self.0.plus(offset))
    }
}

/// A column of `outbox`, told by the clock that last wrote the row, as this clock tells it.
#[derive(Debug, Clone, Copy)]
pub struct Retold {
    now: Live,
    column: &'static str,
}

impl Retold {
    /// `column` names a moment.
    pub fn new(now: Live, column: &'static str) -> Self {
        Self { now, column }
    }

    fn push<'b, DB: Backend>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()>
    where
        Live: QueryFragment<DB>,
    {
        out.push_sql("(");
        self.now.walk_ast(out.reborrow())?;
        out.push_sql(" + (outbox.");
        out.push_sql(self.column);
        out.push_sql(" - outbox.updated_at))");
        Ok(())
    }
}

/// What the query builder asks of a moment that no column holds.
macro_rules! moment_expression {
    ($name:ident, $id:ty, $static:literal) => {
        impl QueryId for $name {
            type QueryId = $id;
            const HAS_STATIC_QUERY_ID: bool = $static;
        }

        impl<GB> ValidGrouping<GB> for $name {
            type IsAggregate = diesel::expression::is_aggregate::Never;
        }

        impl Expression for $name {
            type SqlType = MomentSql;
        }

        impl<QS> SelectableExpression<QS> for $name {}
        impl<QS> AppearsOnTable<QS> for $name {}
    };
}

moment_expression!(Now, Self, true);
moment_expression!(Live, Self, true);
// Its text depends on its column.
moment_expression!(Retold, (), false);

impl QueryFragment<Pg> for Now {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("(now() + ");
        out.push_bind_param::<BigInt, i64>(&self.offset_micros)?;
        out.push_sql(" * interval '1 microsecond')");
        Ok(())
    }
}

impl QueryFragment<Pg> for Live {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("(clock_timestamp() + ");
        out.push_bind_param::<BigInt, i64>(&self.0.offset_micros)?;
        out.push_sql(" * interval '1 microsecond')");
        Ok(())
    }
}

impl QueryFragment<Sqlite> for Live {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        self.0.walk_ast(out)
    }
}

impl QueryFragment<Pg> for Retold {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.push(out)
    }
}

impl QueryFragment<Sqlite> for Retold {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        self.push(out)
    }
}

impl QueryFragment<Sqlite> for Now {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("(");
        out.push_bind_param::<BigInt, i64>(&self.embedded.0)?;
        out.push_sql(" + ");
        out.push_bind_param::<BigInt, i64>(&self.offset_micros)?;
        out.push_sql(")");
        Ok(())
    }
}

/// Whole microseconds of a duration; a duration past 292,000 years is cut.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// The embedded database's clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started_wall: i64,
    started: Instant,
}

impl Clock {
    /// Reads the wall clock once, now.
    pub fn start() -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started_wall: micros(wall),
            started: Instant::now(),
        }
    }

    /// A reading to put into a statement.
    pub fn now(&self) -> Now {
        let elapsed = micros(self.started.elapsed());
        Now {
            clock: *self,
            offset_micros: 0,
            embedded: Moment(self.started_wall.saturating_add(elapsed)),
        }
    }
}
