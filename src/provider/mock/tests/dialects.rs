//! What the SMS dialects check, beyond what their adapters ever get wrong.

use std::sync::Arc;

use reqwest::header::AUTHORIZATION;

use super::*;
use crate::provider::client::Client;
use crate::provider::mock::credentials as known;
use crate::provider::sms::sens::{Sens, SensSettings};
use crate::provider::sms::solapi::{Solapi, SolapiSettings};
use crate::provider::sms::twilio::{Twilio, TwilioSettings};
use crate::provider::testing::{message, summary};
use crate::provider::{Message, Provider};

fn twilio(mock: &RunningMock, token: &str, from: &str) -> Twilio {
    let settings = TwilioSettings {
        base_url: mock.base_url(),
        account_sid: known::TWILIO_ACCOUNT_SID.to_owned(),
        auth_token: token.into(),
        from: from.to_owned(),
    };
    Twilio::new(settings, client())
}

fn solapi(mock: &RunningMock, key: &str, secret: &str, from: &str) -> Solapi {
    let settings = SolapiSettings {
        base_url: mock.base_url(),
        api_key: key.into(),
        api_secret: secret.into(),
        from: from.to_owned(),
    };
    Solapi::new(settings, client())
}

fn sens(mock: &RunningMock, secret: &str, from: &str) -> Sens {
    let settings = SensSettings {
        base_url: mock.base_url(),
        service_id: known::SENS_SERVICE_ID.to_owned(),
        access_key: known::SENS_ACCESS_KEY.into(),
        secret_key: secret.into(),
        from: from.to_owned(),
    };
    Sens::new(settings, client())
}

fn saying(body: &str) -> Message {
    let mut message = message(PHONE);
    Arc::make_mut(&mut message.payload).body = body.to_owned();
    message
}

#[tokio::test]
async fn wrong_accounts_and_senders_are_ours_to_mend() {
    let mock = testing::mock();
    let right = known::SOLAPI_API_KEY;
    let adapters: [Box<dyn Provider>; 7] = [
        Box::new(twilio(&mock, "wrong", known::TWILIO_FROM)),
        Box::new(twilio(&mock, known::TWILIO_AUTH_TOKEN, "+14155550123")),
        Box::new(solapi(
            &mock,
            "wrong",
            known::SOLAPI_API_SECRET,
            known::KOREAN_FROM,
        )),
        Box::new(solapi(&mock, right, "wrong", known::KOREAN_FROM)),
        Box::new(solapi(&mock, right, known::SOLAPI_API_SECRET, "0299999999")),
        Box::new(sens(&mock, "wrong", known::KOREAN_FROM)),
        Box::new(sens(&mock, known::SENS_SECRET_KEY, "0299999999")),
    ];
    for (at, adapter) in adapters.iter().enumerate() {
        let outcome = adapter.send(&message(PHONE)).await;
        assert_eq!(summary(&outcome), "misconfigured", "{at} {outcome:?}");
    }
    assert_eq!(mock.messages().len(), 0);
}

#[tokio::test]
async fn texts_that_a_carrier_cannot_send_are_refused() {
    let mock = testing::mock();
    let solapi = solapi(
        &mock,
        known::SOLAPI_API_KEY,
        known::SOLAPI_API_SECRET,
        known::KOREAN_FROM,
    );
    let sens = sens(&mock, known::SENS_SECRET_KEY, known::KOREAN_FROM);
    let twilio = twilio(&mock, known::TWILIO_AUTH_TOKEN, known::TWILIO_FROM);
    let long = "가".repeat(1_601);
    let table: [(&dyn Provider, &str); 4] = [
        (&solapi, "😀"),
        (&solapi, &long),
        (&sens, "😀"),
        (&twilio, &long),
    ];
    for (adapter, body) in table {
        let outcome = adapter.send(&saying(body)).await;
        assert_eq!(summary(&outcome), "rejected Rejected", "{outcome:?}");
    }
    assert_eq!(mock.messages().len(), 0);
    // SENS cuts what is too long without a word.
    sens.send(&saying(&long)).await;
    let cut = mock.messages()[0].text.clone().unwrap();
    assert_eq!(cut.chars().count(), 1_000);
}

async fn post(client: &Client, url: url::Url, headers: &[(&str, &str)], body: &str) -> Reply {
    let call = client.call(|http| {
        let request = http.post(url).body(body.to_owned());
        let typed = request.header("Content-Type", "application/json");
        headers.iter().fold(typed, |request, (name, value)| {
            request.header(*name, *value)
        })
    });
    call.await.unwrap()
}

#[tokio::test]
async fn solapi_takes_a_signature_once_and_only_fresh() {
    use hmac::{Hmac, KeyInit, Mac};
    let mock = testing::mock();
    let url = endpoint(&mock.base_url(), &["messages", "v4", "send-many", "detail"]);
    let header = |date: &str, salt: &str| {
        let key = known::SOLAPI_API_SECRET.as_bytes();
        let mac = Hmac::<sha2::Sha256>::new_from_slice(key).unwrap();
        let mac = mac.chain_update(date).chain_update(salt).finalize();
        let hex = mac.into_bytes().map(|byte| format!("{byte:02x}"));
        let hex: String = hex.iter().map(String::as_str).collect();
        let key = known::SOLAPI_API_KEY;
        format!("HMAC-SHA256 apiKey={key}, date={date}, salt={salt}, signature={hex}")
    };
    let code = async |header: &str| {
        let name = AUTHORIZATION.as_str();
        let reply = post(&client(), url.clone(), &[(name, header)], "{}").await;
        reply.json().unwrap()["errorCode"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let now = chrono::Utc::now().to_rfc3339();
    let once = header(&now, "0123456789ab");
    // The body is looked at only behind the signature.
    assert_eq!(code(&once).await, "ValidationError");
    assert_eq!(code(&once).await, "DuplicatedSignature");
    let short = header(&now, "short");
    assert_eq!(code(&short).await, "SignatureDoesNotMatch");
    let old = (chrono::Utc::now() - chrono::TimeDelta::minutes(16)).to_rfc3339();
    let old = header(&old, "0123456789ab");
    assert_eq!(code(&old).await, "RequestTimeTooSkewed");
    assert_eq!(code("Bearer x").await, "Unauthorized");
}

#[tokio::test]
async fn sens_takes_only_a_fresh_timestamp() {
    let mock = testing::mock();
    let service = known::SENS_SERVICE_ID;
    let path = ["sms", "v2", "services", service, "messages"];
    let url = endpoint(&mock.base_url(), &path);
    let old = chrono::Utc::now() - chrono::TimeDelta::minutes(6);
    let old = old.timestamp_millis().to_string();
    for (timestamp, words) in [(&*old, "timestamp"), ("x", "timestamp")] {
        let headers = [("x-ncp-apigw-timestamp", timestamp)];
        let reply = post(&client(), url.clone(), &headers, "{}").await;
        assert_eq!(reply.status, 401);
        assert!(reply.text().contains(words), "{}", reply.text());
    }
}

/// A behaviour for a Korean number holds however the dialect writes it.
#[tokio::test]
async fn a_behaviour_finds_its_recipient_in_every_spelling() {
    let mock = testing::mock();
    let sens = sens(&mock, known::SENS_SECRET_KEY, known::KOREAN_FROM);
    let refusal = Behavior {
        to: Some(PHONE.to_owned()),
        ..status(429)
    };
    mock.set_behavior(Target::Sms, refusal).unwrap();
    let outcome = sens.send(&message(PHONE)).await;
    assert_eq!(summary(&outcome), "deferred None");
    let outcome = sens.send(&message(OTHER_PHONE)).await;
    assert!(summary(&outcome).starts_with("accepted"), "{outcome:?}");
    let path = format!("/mock/messages?to=%2B{}", &OTHER_PHONE[1..]);
    let listed = control(&mock, "GET", &path, "").await.json().unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1);
}
