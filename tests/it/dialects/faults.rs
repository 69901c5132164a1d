//! A fault for each of many recipients at once, and how each row must end.

use futures_util::future::join_all;
use paybell::provider::mock::{Behavior, Fault, Target};
use serde_json::{Value, json};

use crate::support::app::{Settings, TestApp, notifications, payments_to};
use crate::support::client::outcomes;
use crate::support::dialect::{arrived, national};
use crate::support::load::phone;

/// Passes before most faults: all requests are out by then, so that the breaker stops none.
const ALL_OUT_MS: u64 = 300;

/// After the client has left, and long before it asks again.
const LATE_MS: u64 = 2_200;

/// How a row ends whose first request met a fault, and whose later ones are answered well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The fault was none: sent at the first try.
    Accepted,
    /// Nobody knew; the provider was asked and had it.
    Found,
    /// Nobody knew; the provider was asked and had it not, or cannot be asked and had it not.
    Resent,
    /// Nobody knew, and the provider, which had it, cannot be asked or says no: sent twice.
    Doubled,
    /// Nobody knew, and the first question failed too; the second found it.
    FoundLater,
    /// Sent later, at no cost.
    Deferred,
    /// Sent later, at no cost: the set-up was refused.
    Misconfigured,
    /// `FAILED`, for this reason.
    Failed(&'static str),
}

impl End {
    /// Outcomes in the history.
    fn history(self) -> &'static [&'static str] {
        match self {
            Self::Accepted => &[],
            Self::Found => &["unknown", "found_on_lookup"],
            Self::Resent | Self::Doubled => &["unknown", "accepted"],
            Self::FoundLater => &["unknown", "unknown", "found_on_lookup"],
            Self::Deferred => &["deferred", "accepted"],
            Self::Misconfigured => &["misconfigured", "accepted"],
            Self::Failed(_) => &["rejected"],
        }
    }

    fn attempts(self) -> u64 {
        match self {
            Self::Resent | Self::Doubled | Self::FoundLater => 2,
            _ => 1,
        }
    }

    fn deferrals(self) -> u64 {
        u64::from(matches!(self, Self::Deferred | Self::Misconfigured))
    }

    /// Messages that the recipient got.
    fn messages(self) -> usize {
        match self {
            Self::Failed(_) => 0,
            Self::Doubled => 2,
            _ => 1,
        }
    }

    fn status(self) -> &'static str {
        match self {
            Self::Failed(_) => "FAILED",
            _ => "SENT",
        }
    }

    fn reason(self) -> Value {
        match self {
            Self::Failed(reason) => reason.into(),
            _ => Value::Null,
        }
    }
}

/// What happens to one recipient's first request, and how its row ends.
#[derive(Clone)]
pub struct Case {
    /// Told when it goes wrong.
    pub name: String,
    pub behavior: Behavior,
    pub end: End,
}

/// A fault of the mock's.
pub fn fault(fault: Fault, end: End) -> Case {
    let late = fault == Fault::LateAccept;
    Case {
        name: format!("{fault:?}"),
        behavior: Behavior {
            fault: Some(fault),
            latency_ms: if late { LATE_MS } else { 0 },
            ..Behavior::default()
        },
        end,
    }
}

/// A status with the mock's usual body.
pub fn status(status: u16, end: End) -> Case {
    Case {
        name: status.to_string(),
        behavior: Behavior {
            status: Some(status),
            ..Behavior::default()
        },
        end,
    }
}

/// A status with a body.
pub fn body(status: u16, body: Value, end: End) -> Case {
    Case {
        name: format!("{status} {body}"),
        behavior: Behavior {
            status: Some(status),
            body: Some(body),
            ..Behavior::default()
        },
        end,
    }
}

/// A status with an HTML page, as a proxy or a load balancer answers.
pub fn page(status: u16, end: End) -> Case {
    let mut case = fault(Fault::NotJson, end);
    case.name = format!("{status} with a page");
    case.behavior.status = Some(status);
    case
}

/// Timeouts of 2 s, leases of 6 s, and waits of 1 to 2 s, however long a provider wishes.
pub fn settings(settings: Settings) -> Settings {
    settings
        .with("PROVIDER_TIMEOUT_MS", 2000)
        .with("OUTBOX_LEASE_SECS", 6)
        .with("BACKOFF_BASE_MS", 2000)
        .with("BACKOFF_MAX_MS", 2000)
}

/// Where the cases are met: `sms` or `fcm`.
pub async fn meet_at_sends(app: &TestApp, channel: &str, cases: &[Case]) {
    let target = match channel {
        "sms" => Target::Sms,
        _ => Target::Fcm,
    };
    for (n, case) in cases.iter().enumerate() {
        let mut behavior = at(&recipient(channel, n), case);
        if behavior.latency_ms == 0 {
            behavior.latency_ms = ALL_OUT_MS;
        }
        app.mock.set_behavior(target, behavior).unwrap();
    }
    let ids = post(app, channel, cases).await;
    all_end(app, channel, cases, &ids).await;
}

/// The case's behaviour for one request to one recipient.
pub fn at(recipient: &str, case: &Case) -> Behavior {
    Behavior {
        to: Some(recipient.to_owned()),
        times: Some(1),
        ..case.behavior.clone()
    }
}

/// The recipient of the n-th case.
pub fn recipient(channel: &str, n: usize) -> String {
    match channel {
        "sms" => phone(n),
        _ => format!("token-{n}"),
    }
}

/// Notifies the recipient of each case; the ids of the rows.
pub async fn post(app: &TestApp, channel: &str, cases: &[Case]) -> Vec<String> {
    let recipients: Vec<_> = (0..cases.len()).map(|n| recipient(channel, n)).collect();
    let bodies = payments_to(channel, &recipients);
    let answers = join_all(bodies.iter().map(|body| app.pay(body))).await;
    answers.iter().flat_map(notifications).collect()
}

/// Notifies one recipient whose request meets no fault: it is sent at the first try.
pub async fn neighbour_is_sent(app: &TestApp, channel: &str, n: usize) {
    let answer = app
        .pay(&payments_to(channel, &[recipient(channel, n)])[0])
        .await;
    let row = app.row_in(&notifications(&answer)[0], "SENT").await;
    assert_eq!(row["attempts"], 1, "{row}");
    assert_eq!(row["history"], json!([]), "{row}");
}

/// Checks how each row ends and what its recipient got. After each a neighbour is sent: the lane is
/// not stuck.
pub async fn all_end(app: &TestApp, channel: &str, cases: &[Case], ids: &[String]) {
    assert_eq!(ids.len(), cases.len());
    for (n, (case, id)) in cases.iter().zip(ids).enumerate() {
        check(case, &app.row_in(id, case.end.status()).await);
        neighbour_is_sent(app, channel, cases.len() + n).await;
    }
    let arrived = arrived(&app.mock);
    for (n, case) in cases.iter().enumerate() {
        let messages = arrived.get(&national(&recipient(channel, n)));
        let messages = messages.copied().unwrap_or(0);
        assert_eq!(messages, case.end.messages(), "{}", case.name);
    }
}

fn check(case: &Case, row: &Value) {
    let (name, end) = (&case.name, case.end);
    assert_eq!(outcomes(row), end.history(), "{name}: {row}");
    assert_eq!(row["reason"], end.reason(), "{name}: {row}");
    assert_eq!(row["attempts"], end.attempts(), "{name}: {row}");
    assert_eq!(row["deferrals"], end.deferrals(), "{name}: {row}");
}

/// Faults that mean the same in each dialect of text messages.
pub fn of_every_dialect() -> Vec<Case> {
    let mut cases = vec![
        fault(Fault::Hang, End::Resent),
        fault(Fault::Reset, End::Resent),
        fault(Fault::AcceptThenHang, End::Found),
        fault(Fault::AcceptThenReset, End::Found),
        fault(Fault::LateAccept, End::Found),
        fault(Fault::NotJson, End::Resent),
        fault(Fault::EndlessBody, End::Resent),
        body(200, json!({ "result": "ERROR: 14" }), End::Resent),
    ];
    for code in [302, 408, 500, 502, 504] {
        cases.push(page(code, End::Resent));
    }
    for code in [401, 403, 407] {
        cases.push(page(code, End::Misconfigured));
    }
    for code in [425, 429] {
        cases.push(page(code, End::Deferred));
    }
    cases
}
