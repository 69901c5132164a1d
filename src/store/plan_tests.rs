//! The claim must be driven by its partial index on both databases, or it slows down with every row
//! that was ever sent.

use std::time::Duration;

use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{Integer, Text};
use diesel::sqlite::Sqlite;
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use uuid::Uuid;

use super::sql_types::{Clock, Moment};
use super::{Claim, migrations, postgres, sqlite};
use crate::payment::Channel;

/// Rows that were sent, beside `DUE` that are due and `SUSPECT` whose holders died.
const SENT: i64 = 40_000;
const DUE: i64 = 5_000;
const SUSPECT: i64 = 1_000;

fn claim(suspects: bool) -> Claim {
    Claim {
        channel: Channel::Sms,
        holder: Uuid::nil(),
        lease: Duration::from_secs(20),
        limit: 200,
        held: Vec::new(),
        since: Moment::DISTANT_PAST,
        suspects,
    }
}

/// A payment and its rows, made by the database itself. `ids` and `bytes` are SQL of the dialect.
fn fill(numbers: &str, id: &str, response: &str, moment: &str) -> String {
    // Rows are as wide as those of real messages: the planner counts pages.
    let payload = "x".repeat(400);
    format!(
        "INSERT INTO payments (id, client, order_id, amount, currency, status, response,
                               notification_count, created_at, idempotency_key)
         SELECT {id}, 'c', 'o', 1, 'KRW', 'APPROVED', {response}, 1, {moment}, 'key-' || n
         FROM {numbers};
         INSERT INTO outbox (id, payment_id, event_type, channel, provider, recipient, payload,
                             payload_version, reference, status, attempts, deferrals, lost_leases,
                             replays, epoch, maybe_sent, processable_after, expires_at,
                             created_at, updated_at)
         SELECT {id}, {id}, 'PAYMENT_APPROVED', CASE WHEN n % 2 = 0 THEN 'sms' ELSE 'fcm' END,
                'http', 'r', '{payload}', 1, 'r',
                CASE WHEN n <= {SENT} THEN 'SENT' ELSE 'PENDING' END, 0, 0,
                CASE WHEN n > {SENT} + {DUE} THEN 2 ELSE 0 END,
                0, 0, false, {moment}, {moment}, {moment}, {moment}
         FROM {numbers};
         ANALYZE;"
    )
}

/// `EXPLAIN QUERY PLAN` of a query, with its binds.
struct Explained<Q>(Q);

impl<Q> QueryId for Explained<Q> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q> Query for Explained<Q> {
    type SqlType = (Integer, Integer, Integer, Text);
}

impl<Q: QueryFragment<Sqlite>> QueryFragment<Sqlite> for Explained<Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("EXPLAIN QUERY PLAN ");
        self.0.walk_ast(out.reborrow())
    }
}

impl<Q> RunQueryDsl<SqliteConnection> for Explained<Q> {}

fn sqlite_plan(conn: &mut SqliteConnection, suspects: bool) -> String {
    let claim = claim(suspects);
    let query = sqlite::due(&claim, Clock::start().now()).select(super::schema::outbox::id);
    let steps: Vec<(i32, i32, i32, String)> = Explained(query).load(conn).unwrap();
    let steps: Vec<String> = steps.into_iter().map(|(.., detail)| detail).collect();
    steps.join("\n")
}

#[test]
fn claim_uses_its_partial_index_on_sqlite() {
    let mut conn = SqliteConnection::establish(":memory:").unwrap();
    migrations::on_sqlite(&mut conn).unwrap();
    let last = SENT + DUE + SUSPECT;
    let numbers = format!(
        "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {last})
          SELECT n FROM s)"
    );
    let id = "CAST(printf('%016d', n) AS blob)";
    diesel::connection::SimpleConnection::batch_execute(&mut conn, &fill(&numbers, id, "x''", "n"))
        .unwrap();
    for (suspects, index) in [(false, "outbox_due"), (true, "outbox_suspect")] {
        let plan = sqlite_plan(&mut conn, suspects);
        let expected = format!("USING INDEX {index} (channel=? AND processable_after>? AND");
        assert!(plan.contains(&expected), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "it sorts: {plan}");
    }
}

/// What PostgreSQL says of a prepared statement, as the service runs it, under one kind of plan.
async fn postgres_plan(
    conn: &mut AsyncPgConnection,
    (types, statement, values): (&str, &str, &str),
    mode: &str,
) -> String {
    #[derive(QueryableByName)]
    struct Line {
        #[diesel(sql_type = Text, column_name = "QUERY PLAN")]
        line: String,
    }
    let prepare = format!(
        "DEALLOCATE ALL; SET plan_cache_mode = {mode}; PREPARE it ({types}) AS {statement}"
    );
    conn.batch_execute(&prepare).await.unwrap();
    let explain = diesel::sql_query(format!("EXPLAIN EXECUTE it ({values})"));
    let lines: Vec<Line> = diesel_async::RunQueryDsl::load(explain, conn)
        .await
        .unwrap();
    let lines: Vec<String> = lines.into_iter().map(|line| line.line).collect();
    lines.join("\n")
}

/// `$1`, `$2`… for the `?` of our own statements.
fn numbered(statement: &str) -> String {
    let mut text = String::new();
    for (number, piece) in statement.split('?').enumerate() {
        if number > 0 {
            text.push_str(&format!("${number}"));
        }
        text.push_str(piece);
    }
    text
}

/// A database of its own, which goes with the cluster.
async fn postgres_database() -> AsyncPgConnection {
    let url = std::env::var("TEST_DATABASE_URL")
        .expect("TEST_DATABASE_URL is not set: run the tests with scripts/test");
    let mut url = url::Url::parse(&url).unwrap();
    let name = format!("plan_{}", Uuid::new_v4().simple());
    let mut conn = AsyncPgConnection::establish(url.as_str()).await.unwrap();
    conn.batch_execute(&format!("CREATE DATABASE {name}"))
        .await
        .unwrap();
    url.set_path(&name);
    let conn = AsyncPgConnection::establish(url.as_str()).await.unwrap();
    migrations::on_postgres(conn).await.unwrap();
    AsyncPgConnection::establish(url.as_str()).await.unwrap()
}

async fn filled_postgres() -> AsyncPgConnection {
    let mut conn = postgres_database().await;
    let numbers = format!("generate_series(1, {}) AS s(n)", SENT + DUE + SUSPECT);
    let moment = "now() - n * interval '1 second'";
    let sql = fill(&numbers, "lpad(n::text, 32, '0')::uuid", "''", moment);
    conn.batch_execute(&sql).await.unwrap();
    conn
}

const MODES: [&str; 2] = ["force_custom_plan", "force_generic_plan"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_uses_its_partial_index_on_postgres() {
    let mut conn = filled_postgres().await;
    let types = "text, timestamptz, integer, uuid[], bigint, uuid, bigint";
    let values = "'sms', '1970-01-01', 1, '{}', 200, NULL, 20000000";
    for mode in MODES {
        for (statement, index) in [
            (postgres::CLAIM, "outbox_due"),
            (postgres::CLAIM_SUSPECT, "outbox_suspect"),
        ] {
            let statement = numbered(statement);
            let plan = postgres_plan(&mut conn, (types, &statement, values), mode).await;
            let scan = format!("Index Scan using {index} on outbox");
            assert!(plan.contains(&scan), "{mode}: {plan}");
            assert!(!plan.contains("Sort"), "{mode}, it sorts: {plan}");
            assert!(!plan.contains("Seq Scan on outbox"), "{mode}: {plan}");
        }
    }
}

/// Payments are kept for ever: a repeated POST must not read them all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_key_is_found_by_its_index_on_postgres() {
    let mut conn = filled_postgres().await;
    let query = postgres::stored(Vec::new(), Vec::new(), Vec::new());
    let text = diesel::debug_query::<diesel::pg::Pg, _>(&query).to_string();
    let (statement, _binds) = text.split_once(" -- binds").unwrap();
    let values = "ARRAY['00000000-0000-0000-0000-000000000001']::uuid[], '{c}', '{key-7,key-8}'";
    for mode in MODES {
        let call = ("uuid[], text[], text[]", statement, values);
        let plan = postgres_plan(&mut conn, call, mode).await;
        assert!(plan.contains("payments_idempotency"), "{mode}: {plan}");
        assert!(!plan.contains("Seq Scan"), "{mode}: {plan}");
    }
}
