//! What the log says, and what neither it nor any page may say.

use std::time::Duration;

use paybell::provider::client::plain_http;
use paybell::provider::mock::{Behavior, Fault, Mock, RunningMock, Target};
use serde_json::{Value, json};

use crate::support::app::{ADMIN_TOKEN, Settings, notification, payment, sms};
use crate::support::http::{Answer, talk};
use crate::support::on_both_databases;
use crate::support::process::Process;
use crate::support::wait::until;

const PHONE: &str = "010-8642-9753";
const TOKEN: &str = "fZ3-registration-token-of-somebody";
const API_KEY: &str = "api-key-of-the-shop";
const GATEWAY_KEY: &str = "key-of-our-gateway-account";
const PASSWORD: &str = "password-of-the-database";
const IDEMPOTENCY_KEY: &str = "idempotency-key-of-somebody";
const WRONG: &str = "credentials-of-an-intruder";

/// In no log, answer or figure; whoever is allowed to see a row sees its texts there.
const PERSONAL: [&str; 9] = [
    "86429753",
    "8642-9753",
    "8642 9753",
    TOKEN,
    API_KEY,
    GATEWAY_KEY,
    PASSWORD,
    WRONG,
    ADMIN_TOKEN,
];
/// In no log.
const WORDS: [&str; 6] = [
    "words-of-the-description",
    "words-of-the-body",
    "words-of-the-title",
    "words-of-the-data",
    IDEMPOTENCY_KEY,
    "words-of-a-query",
];

/// The ways in which a program writes bytes: as they are, as a list of numbers, as hex.
fn spellings(secret: &str) -> [String; 4] {
    let numbers: Vec<String> = secret.bytes().map(|byte| byte.to_string()).collect();
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    [
        secret.to_owned(),
        numbers.join(", "),
        numbers.join(","),
        hex,
    ]
}

fn assert_says_nothing(text: &str, secrets: &[&str], place: &str) {
    for secret in secrets {
        for spelling in spellings(secret) {
            let Some(at) = text.find(&spelling) else {
                continue;
            };
            let around: String = text[..at]
                .chars()
                .rev()
                .take(200)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect();
            panic!("{place} says {spelling} after {around}");
        }
    }
}

struct Caller {
    process: Process,
    http: reqwest::Client,
}

impl Caller {
    async fn start(settings: &Settings) -> Self {
        Self {
            process: Process::serve(settings).await,
            http: plain_http(Duration::from_secs(30)).unwrap(),
        }
    }

    fn request(&self, method: &str, path: &str, key: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.process.base);
        self.http
            .request(method.parse().unwrap(), url)
            .bearer_auth(key)
    }

    async fn pay(&self, body: &Value, idempotency_key: &str) -> Value {
        let request = self.request("POST", "/payments", API_KEY).json(body);
        let answer = Answer::to(request.header("idempotency-key", idempotency_key)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    }

    async fn admin(&self, path: &str) -> Answer {
        Answer::to(self.request("GET", path, ADMIN_TOKEN)).await
    }

    /// Waits until `done` holds for the row.
    async fn row(&self, id: &str, done: impl Fn(&Value) -> bool) -> Value {
        until("the row gets there", Duration::from_secs(15), async || {
            let row = self.admin(&format!("/admin/outbox/{id}")).await.json();
            done(&row).then_some(row)
        })
        .await
    }

    async fn ended(self) -> Vec<String> {
        self.process.signal("TERM");
        let ended = self.process.ended(Duration::from_secs(15)).await;
        assert_eq!(ended.code, Some(0), "{:#?}", ended.log);
        ended.log
    }
}

/// Providers that repeat whatever they were sent, credentials included.
fn echo(status: u16, sent: &str) -> Behavior {
    let text = format!(
        "cannot send 'words-of-the-body' to +821086429753 (010-8642-9753, {PHONE}), \
         words-of-the-title, {sent}"
    );
    let body =
        json!({ "message": text, "error": { "message": text, "status": "INVALID_ARGUMENT" } });
    Behavior {
        status: Some(status),
        times: Some(1),
        body: Some(body),
        ..Behavior::default()
    }
}

fn personal_payment() -> Value {
    let notifications = json!([
        { "channel": "sms", "to": PHONE, "title": "words-of-the-title", "body": "words-of-the-body" },
        { "channel": "fcm", "to": TOKEN, "title": "words-of-the-title", "body": "words-of-the-body",
          "data": { "k": "words-of-the-data" } },
    ]);
    let mut body = payment("order-1", &notifications);
    body["description"] = json!("words-of-the-description");
    body
}

fn settings(database: &crate::support::database::Database, mock: &RunningMock) -> Settings {
    let url = database
        .url()
        .replace("postgres@", &format!("postgres:{PASSWORD}@"));
    Settings::new(database, mock)
        .with_short_leases()
        .with("DATABASE_URL", url)
        .with("API_KEYS", format!("shop={API_KEY}"))
        .with("SMS_API_KEY", GATEWAY_KEY)
        .with("DATABASE_TIMEOUT_MS", 1000)
        .with(
            "RUST_LOG",
            "trace,paybell=trace,tokio_postgres=trace,hyper=trace,actix_http=trace",
        )
}

/// Every failure of a provider, one after the other, on both channels.
async fn fail_in_every_way(caller: &Caller, mock: &RunningMock) -> Vec<String> {
    let mut ids = Vec::new();
    let faults = [Fault::NotJson, Fault::Reset].map(|fault| Behavior {
        fault: Some(fault),
        times: Some(1),
        ..Behavior::default()
    });
    let answers =
        [400, 401, 404, 429, 500].map(|status| [echo(status, GATEWAY_KEY), echo(status, TOKEN)]);
    let faults = faults.map(|fault| [fault.clone(), fault]);
    for (n, [sms, fcm]) in answers.into_iter().chain(faults).enumerate() {
        mock.set_behavior(Target::Sms, sms).unwrap();
        mock.set_behavior(Target::Fcm, fcm).unwrap();
        let created = caller
            .pay(&personal_payment(), &format!("{IDEMPOTENCY_KEY}-{n}"))
            .await;
        for m in 0..2 {
            let id = notification(&created, m);
            caller
                .row(&id, |row| {
                    row["last_error"].is_string() || row["status"] != "PENDING"
                })
                .await;
            ids.push(id);
        }
    }
    ids
}

/// What scanners and clients with bugs send.
async fn ask_wrongly(caller: &Caller) {
    let base = &caller.process.base;
    for (path, key) in [
        ("/admin/outbox", WRONG),
        ("/payments?order_id=words-of-a-query", WRONG),
        ("/payments/010-8642-9753", API_KEY),
        ("/010-8642-9753?x=words-of-a-query", API_KEY),
        (
            "/payments?order_id=010-8642-9753&limit=words-of-a-query",
            API_KEY,
        ),
        ("/admin/outbox?order_id=010-8642-9753", ADMIN_TOKEN),
        ("/admin/outbox?cursor=words-of-a-query", ADMIN_TOKEN),
    ] {
        Answer::to(caller.request("GET", path, key)).await;
    }
    for body in [
        "{\"to\": \"010-8642-9753\", words-of-the-body".to_owned(),
        sms("010-8642-9753", "010-8642-97539753").to_string(),
        personal_payment()
            .to_string()
            .replace("KRW", "words-of-the-description"),
        personal_payment()
            .to_string()
            .replace("15000", "\"words-of-the-body\""),
    ] {
        let request = caller.request("POST", "/payments", API_KEY);
        Answer::to(
            request
                .header("content-type", "application/json")
                .body(body),
        )
        .await;
    }
    let broken = format!(
        "POST /payments HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {API_KEY}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n010-8642-9753\r\n"
    );
    talk(base, broken.as_bytes()).await;
    talk(
        base,
        format!("words-of-the-body 010-8642-9753 {WRONG}\r\n\r\n").as_bytes(),
    )
    .await;
}

on_both_databases! {
    async fn nothing_personal_and_no_secret_is_ever_told(database: Database) {
        let mock = Mock::start(([127, 0, 0, 1], 0).into()).unwrap();
        let caller = Caller::start(&settings(&database, &mock)).await;
        ask_wrongly(&caller).await;
        let ids = fail_in_every_way(&caller, &mock).await;
        // A repeat, another request under the key, and a replay by hand.
        let created = caller.pay(&personal_payment(), &format!("{IDEMPOTENCY_KEY}-0")).await;
        let reused = caller.request("POST", "/payments", API_KEY).json(&sms("o", PHONE));
        let reused = reused.header("idempotency-key", format!("{IDEMPOTENCY_KEY}-0"));
        Answer::to(reused).await.problem(422, "idempotency-key-reused");
        let failed = notification(&created, 0);
        let replay = caller.request("POST", &format!("/admin/outbox/{failed}/replay"), ADMIN_TOKEN);
        assert_eq!(Answer::to(replay).await.status, 200);
        caller.row(&failed, |row| row["status"] == "SENT").await;
        // A database that does not take writes for a while.
        let lock = database.hold_writes_back().await;
        let late = caller.request("POST", "/payments", API_KEY).json(&personal_payment());
        Answer::to(late).await.problem(503, "unavailable");
        lock.let_go().await;

        let mut paths: Vec<String> = ids.iter().map(|id| format!("/admin/outbox/{id}")).collect();
        paths.extend(["/admin/outbox", "/admin/outbox/stats", "/health/ready", "/metrics"].map(str::to_owned));
        let mut errors = 0;
        for path in paths {
            let page = caller.admin(&path).await;
            assert_eq!(page.status, 200, "{path}");
            assert_says_nothing(page.text(), &PERSONAL, &path);
            errors += page.text().matches("cannot send").count();
        }
        assert!(errors > 0, "the providers' words are shown, masked");
        if !database.is_sqlite() {
            database.cut_off().await;
            let ready = caller.admin("/health/ready").await;
            assert_eq!(ready.status, 503);
            assert_says_nothing(ready.text(), &PERSONAL, "ready");
            database.let_in().await;
            until("it is ready again", Duration::from_secs(15), async || {
                (caller.admin("/health/ready").await.status == 200).then_some(())
            })
            .await;
        }
        let log = caller.ended().await.join("\n");
        assert!(log.contains("\"TRACE\"") || log.contains("\"DEBUG\""), "not everything was logged");
        assert_says_nothing(&log, &PERSONAL, "the log");
        assert_says_nothing(&log, &WORDS, "the log");
    }
}

on_both_databases! {
    async fn spans_say_which_payment_which_row_and_which_attempt(database: Database) {
        let mock = Mock::start(([127, 0, 0, 1], 0).into()).unwrap();
        let caller = Caller::start(&settings(&database, &mock)).await;
        let busy = Behavior { status: Some(503), times: Some(1), ..Behavior::default() };
        mock.set_behavior(Target::Sms, busy).unwrap();
        let created = caller.pay(&sms("order-1", PHONE), IDEMPOTENCY_KEY).await;
        let id = notification(&created, 0);
        caller.row(&id, |row| row["status"] == "SENT").await;
        let lines: Vec<Value> = caller
            .ended()
            .await
            .iter()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
            .collect();
        let span = |message: &str, name: &str| {
            lines
                .iter()
                .filter(|line| line["message"] == message)
                .flat_map(|line| line["spans"].as_array().unwrap())
                .find(|span| span["name"] == name)
                .unwrap_or_else(|| panic!("{message} in {name} is not in {lines:#?}"))
        };
        for message in ["deferred", "accepted"] {
            let delivery = span(message, "delivery");
            assert_eq!(delivery["payment.id"], created["id"]);
            assert_eq!(delivery["outbox.id"], id.as_str());
            assert_eq!(delivery["attempt"], 1, "a deferral costs no attempt");
        }
        let requests: Vec<_> = lines
            .iter()
            .filter_map(|line| line["spans"].as_array()?.iter().find(|span| span["name"] == "request"))
            .filter(|span| span["payment.id"] == created["id"])
            .collect();
        assert!(requests.iter().any(|span| span["http.route"] == "/payments" && span["http.status"] == 201), "{requests:#?}");
        for line in &lines {
            for field in ["timestamp", "level", "target", "message"] {
                assert!(line[field].is_string(), "{line}");
            }
        }
    }
}

on_both_databases! {
    async fn missing_admin_routes_are_said_once(database: Database) {
        let mock = Mock::start(([127, 0, 0, 1], 0).into()).unwrap();
        let caller = Caller::start(&settings(&database, &mock).with("ADMIN_TOKEN", "")).await;
        for _ in 0..3 {
            caller.admin("/admin/outbox").await.problem(404, "not-found");
        }
        let log = caller.ended().await;
        let said = log.iter().filter(|line| line.contains("ADMIN_TOKEN is not set")).count();
        assert_eq!(said, 1, "{log:#?}");
    }
}
