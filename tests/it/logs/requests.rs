//! What clients, the generic gateway, FCM and a database say in their worst hours is not repeated.

use std::time::Duration;

use paybell::provider::mock::{Behavior, Fault, Mock, RunningMock, Target};
use serde_json::{Value, json};

use super::caller::{
    API_KEY, Caller, GATEWAY_KEY, IDEMPOTENCY_KEY, PERSONAL, PHONE, TOKEN, WORDS, WRONG, settings,
};
use super::search::Search;
use crate::support::app::{ADMIN_TOKEN, notification, payment, sms};
use crate::support::http::{Answer, talk};
use crate::support::on_both_databases;
use crate::support::wait::until;

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
        let personal = Search::new(PERSONAL);
        let mut errors = 0;
        for path in paths {
            let page = caller.admin(&path).await;
            assert_eq!(page.status, 200, "{path}");
            personal.assert_not_in(page.text(), &path);
            errors += page.text().matches("cannot send").count();
        }
        assert!(errors > 0, "the providers' words are shown, masked");
        if !database.is_sqlite() {
            database.cut_off().await;
            let ready = caller.admin("/health/ready").await;
            assert_eq!(ready.status, 503);
            personal.assert_not_in(ready.text(), "ready");
            database.let_in().await;
            until("it is ready again", Duration::from_secs(15), async || {
                (caller.admin("/health/ready").await.status == 200).then_some(())
            })
            .await;
        }
        let log = caller.ended().await.join("\n");
        assert!(log.contains("\"TRACE\"") || log.contains("\"DEBUG\""), "not everything was logged");
        personal.assert_not_in(&log, "the log");
        Search::new(WORDS).assert_not_in(&log, "the log");
    }
}
