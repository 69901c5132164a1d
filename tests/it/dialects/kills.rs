//! `kill -9` between a provider's acceptance and its record: the provider is asked, and each
//! recipient has one message.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use paybell::provider::mock::{Behavior, Fault, Mock, RunningMock, Target};

use crate::dialects::in_each_dialect;
use crate::support::app::{Settings, notifications, payments_to};
use crate::support::client::{Client, outcomes};
use crate::support::database::Database;
use crate::support::dialect::{arrived, in_dialect, national, over_wire};
use crate::support::load::phone;
use crate::support::process::Process;
use crate::support::wire::Wire;

/// How requests are treated: answered like any other, not answered, or accepted only later.
const FAULTS: [Option<Fault>; 4] = [
    None,
    Some(Fault::AcceptThenHang),
    Some(Fault::AcceptThenReset),
    Some(Fault::LateAccept),
];

/// Recipients that meet each of them; all together are as many requests as may be out at a time.
const EACH: usize = 50;

/// Passes before `late_accept`: after the kill, and within the PROVIDER_TIMEOUT of a client that
/// lived on.
const LATE_MS: u64 = 1_500;

const PATIENCE: Duration = Duration::from_secs(10);

in_each_dialect! {
    /// 50 recipients for each way to be accepted, with PROVIDER_TIMEOUT_MS=2000 and
    /// OUTBOX_LEASE_SECS=6, the shortest that it allows. All requests are out before the first is
    /// accepted, and from then on nothing can be written. The process is killed, and those of
    /// `late_accept` are accepted after its death. The next process waits for the leases to end,
    /// asks about each, finds it and sends nothing.
    async fn a_kill_after_acceptance_doubles_nothing(database: Database, dialect: &str) {
        let mock = Mock::start(([127, 0, 0, 1], 0).into()).unwrap();
        let wire = Wire::to(mock.addr()).await;
        let settings = in_dialect(&Settings::new(&database, &mock), &mock, dialect)
            .with("PROVIDER_TIMEOUT_MS", 2000)
            .with("OUTBOX_LEASE_SECS", 6);
        let settings = over_wire(settings, &mock, &wire);
        let recipients: Vec<String> = (0..FAULTS.len() * EACH).map(phone).collect();
        for (n, to) in recipients.iter().enumerate() {
            mock.set_behavior(Target::Sms, behavior(to, FAULTS[n % FAULTS.len()])).unwrap();
        }
        wire.hold(true);
        let process = Process::serve(&settings).await;
        let ids = post_all(&process.client(), &recipients).await;
        assert!(wire.has_taken(ids.len(), PATIENCE).await, "not all requests are out");
        let lock = database.hold_writes_back().await;
        wire.hold(false);
        let killed_at = killed_when_accepted(process, &mock).await;
        database.end_waiting_statements().await;
        lock.let_go().await;
        nothing_is_written(&database).await;

        let process = Process::serve(&settings).await;
        let client = process.client();
        let mut found = BTreeSet::new();
        for id in &ids {
            let row = client.row_in(id, "SENT").await;
            assert_eq!(outcomes(&row), ["found_on_lookup"], "{row}");
            assert_eq!(row["attempts"], 1, "{row}");
            found.insert(row["provider_message_id"].as_str().unwrap().to_owned());
        }
        let once = recipients.iter().map(|to| (national(to), 1)).collect();
        assert_eq!(arrived(&mock), once);
        let messages = mock.messages();
        assert_eq!(found, messages.iter().map(|message| message.id.clone()).collect());
        let late = messages.iter().filter(|message| message.received_at > killed_at).count();
        assert_eq!(late, EACH, "accepted after the kill");
        assert_eq!(mock.requests(Target::Sms), u64::try_from(ids.len()).unwrap());
        assert!(mock.requests(Target::SmsLookup) > 0);
    }
}

fn behavior(to: &str, fault: Option<Fault>) -> Behavior {
    Behavior {
        to: Some(to.to_owned()),
        latency_ms: match fault {
            Some(Fault::LateAccept) => LATE_MS,
            _ => 0,
        },
        fault,
        ..Behavior::default()
    }
}

async fn post_all(client: &Client, recipients: &[String]) -> Vec<String> {
    let bodies = payments_to("sms", recipients);
    let answers = join_all(bodies.iter().map(|body| client.pay(body))).await;
    answers.iter().flat_map(notifications).collect()
}

/// Kills the process once all but the late messages are accepted. Returns when it was dead.
async fn killed_when_accepted(process: Process, mock: &RunningMock) -> DateTime<Utc> {
    let all = (FAULTS.len() * EACH).try_into().unwrap();
    assert!(
        mock.wait_for_requests(Target::Sms, all, PATIENCE).await,
        "not all came"
    );
    let accepted = mock.wait_for((FAULTS.len() - 1) * EACH, PATIENCE).await;
    assert!(accepted.is_some(), "not accepted");
    process.kill().await;
    Utc::now()
}

/// Each row is as it was born: leased, and nothing known of its request.
async fn nothing_is_written(database: &Database) {
    let untold = "SELECT count(*) FROM outbox WHERE status = 'PENDING' AND epoch = 1 \
                  AND claimed_by IS NOT NULL AND attempts = 0";
    let untold = usize::try_from(database.number(untold).await).unwrap();
    assert_eq!(untold, FAULTS.len() * EACH, "something was written");
}
