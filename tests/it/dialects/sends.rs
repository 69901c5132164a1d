//! What each dialect's table says of the answers to a send.

use serde_json::{Value, json};

use super::faults::{self, Case, End, body, page, status};
use crate::support::app::TestApp;
use crate::support::database::Database;
use crate::support::dialect::speaking_with;
use crate::support::on_both_databases;

const REFUSED: End = End::Failed("rejected");
const OPTED_OUT: End = End::Failed("recipient_opted_out");

fn generic() -> Vec<Case> {
    let mut cases = vec![
        status(201, End::Accepted),
        status(204, End::Accepted),
        page(400, REFUSED),
        status(503, End::Deferred),
    ];
    for code in [400, 402, 404, 409, 413, 422, 451] {
        cases.push(status(code, REFUSED));
    }
    cases
}

fn twilio() -> Vec<Case> {
    let coded = |code: u32| json!({ "code": code, "message": "why" });
    let codes = [
        (
            End::Misconfigured,
            &[20003, 20005, 21212, 21408, 21603, 21606, 21659, 30002][..],
        ),
        (End::Deferred, &[20429, 21611]),
        (End::Resent, &[20500, 20503]),
        (REFUSED, &[21211, 21608, 21612, 21614, 21617, 99999]),
        (OPTED_OUT, &[21610]),
    ];
    let mut cases = vec![
        page(400, End::Resent),
        page(503, End::Resent),
        status(204, End::Found),
    ];
    for (end, codes) in codes {
        cases.extend(codes.iter().map(|code| body(400, coded(*code), end)));
    }
    for code in [403, 404, 405] {
        cases.push(body(code, json!({ "detail": "why" }), End::Misconfigured));
    }
    cases.push(body(422, json!({ "detail": "why" }), REFUSED));
    cases
}

fn solapi() -> Vec<Case> {
    let failed = |code: &str| json!({ "failedMessageList": [{ "statusCode": code, "statusMessage": "why" }] });
    let messages = [
        (
            End::Misconfigured,
            &["1020", "1030", "1062", "2230", "3059"][..],
        ),
        (
            End::Deferred,
            &["1024", "2024", "3024", "3041", "3042", "3043", "3053"],
        ),
        (End::Resent, &["3040", "2999", "9999"]),
        (REFUSED, &["2254", "3010", "1999", "3999"]),
        (OPTED_OUT, &["1061"]),
    ];
    let coded = |code: &str| json!({ "errorCode": code, "errorMessage": "why" });
    let ours = [
        "InvalidAPIKey",
        "NotEnoughBalance",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    ];
    let requests = [
        (End::Misconfigured, &ours[..]),
        (End::Deferred, &["DuplicatedSignature", "TooManyRequests"]),
        (REFUSED, &["ValidationError"]),
    ];
    let mut cases = vec![page(400, End::Resent), page(503, End::Resent)];
    for (end, codes) in messages {
        cases.extend(codes.iter().map(|code| body(200, failed(code), end)));
    }
    for (end, codes) in requests {
        cases.extend(codes.iter().map(|code| body(400, coded(code), end)));
    }
    cases.push(status(402, End::Misconfigured));
    cases
}

fn sens() -> Vec<Case> {
    let told = |code: Value| json!({ "requestId": "r", "statusCode": code });
    let said = |words: &str| json!({ "status": 400, "errorMessage": words });
    let mut cases = vec![
        page(400, End::Resent),
        page(503, End::Resent),
        body(202, told("400".into()), REFUSED),
        body(202, told(429.into()), End::Deferred),
        body(202, told("500".into()), End::Resent),
        body(202, told(Value::Null), End::Resent),
        body(400, json!({ "errors": ["messages is required"] }), REFUSED),
        status(400, REFUSED),
        status(404, End::Misconfigured),
    ];
    for words in [
        "Not registered calling number",
        "No balance",
        "invalid field: from",
        "발신번호",
    ] {
        cases.push(body(400, said(words), End::Misconfigured));
    }
    cases
}

async fn end_as_the_table_says(database: Database, dialect: &str, own: Vec<Case>) {
    let app: TestApp = speaking_with(database, dialect, faults::settings).await;
    let mut cases = faults::of_every_dialect();
    cases.extend(own);
    faults::meet_at_sends(&app, "sms", &cases).await;
    app.stop().await.0.unwrap();
}

on_both_databases! {
    async fn sends_to_the_generic_gateway_end_as_its_table_says(database: Database) {
        end_as_the_table_says(database, "http", generic()).await;
    }
}

on_both_databases! {
    async fn sends_to_twilio_end_as_its_table_says(database: Database) {
        end_as_the_table_says(database, "twilio", twilio()).await;
    }
}

on_both_databases! {
    async fn sends_to_solapi_end_as_its_table_says(database: Database) {
        end_as_the_table_says(database, "solapi", solapi()).await;
    }
}

on_both_databases! {
    async fn sends_to_sens_end_as_its_table_says(database: Database) {
        end_as_the_table_says(database, "sens", sens()).await;
    }
}
