//! Naver Cloud SENS, SMS v2.
//!
//! SENS keeps no name of ours and removes no duplicates: an unclear send is asked about in its list
//! of requests by recipient, sender and time, and by the text where it tells one.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, FixedOffset, NaiveDateTime, TimeDelta, Utc};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;
use sha2::Sha256;
use url::Url;

use super::clock;
use super::korean::{Kind, KoreanText, Number};
use super::listing::{Fits, MAX_PAGES, Problem, in_time, page, redactor, same_text};
use super::solapi::not_a_number;
use crate::payment::sms_text::SmsText;
use crate::provider::client::{Client, endpoint, message_id};
use crate::provider::redact::Redactor;
use crate::provider::{LookUp, Message, Outcome, Provider};

mod answer;

/// Where SENS is.
pub const SENS_BASE_URL: &str = "https://sens.apigw.ntruss.com";

/// Messages listed at a time.
const PAGE_SIZE: &str = "10";

/// A list spans at most 30 days.
/// Source: <https://api.ncloud-docs.com/docs/en/ai-application-service-sens-smsv2>
const MAX_SPAN: TimeDelta = TimeDelta::days(29);

/// Korea's only time zone.
const SEOUL_SECS: i32 = 9 * 3600;

/// Who we are to SENS.
#[derive(Debug, Clone)]
pub struct SensSettings {
    /// An http or https URL; the API's own paths are added.
    pub base_url: Url,
    /// `ncp:sms:kr:…`, part of every path.
    pub service_id: String,
    /// Names the account.
    pub access_key: SecretString,
    /// Signs the requests.
    pub secret_key: SecretString,
    /// A registered sender, digits only.
    pub from: String,
}

/// Speaks to one SENS service.
pub struct Sens {
    settings: SensSettings,
    messages_url: Url,
    client: Client,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(rename = "type")]
    kind: Kind,
    content_type: &'static str,
    country_code: &'a str,
    from: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    content: &'a str,
    messages: [To<'a>; 1],
}

#[derive(Serialize)]
struct To<'a> {
    to: &'a str,
}

impl Sens {
    /// An adapter for the service of these settings.
    pub fn new(settings: SensSettings, client: Client) -> Self {
        let path = ["sms", "v2", "services", &*settings.service_id, "messages"];
        Self {
            messages_url: endpoint(&settings.base_url, &path),
            settings,
            client,
        }
    }

    /// A request with the time and a signature of this moment.
    fn signed(
        &self,
        http: &reqwest::Client,
        method: reqwest::Method,
        url: Url,
    ) -> reqwest::RequestBuilder {
        let timestamp = Utc::now().timestamp_millis().to_string();
        let access_key = self.settings.access_key.expose_secret();
        let secret = self.settings.secret_key.expose_secret();
        let path = path_and_query(&url);
        let signature = sign(secret, method.as_str(), &path, &timestamp, access_key);
        let request = http
            .request(method, url)
            .header("x-ncp-apigw-timestamp", timestamp)
            .header("x-ncp-iam-access-key", access_key);
        match HeaderValue::try_from(signature) {
            Ok(mut signature) => {
                signature.set_sensitive(true);
                request.header("x-ncp-apigw-signature-v2", signature)
            }
            // Base64 always fits into a header.
            Err(_) => request,
        }
    }

    fn redactor(&self, message: &Message) -> Redactor {
        let settings = &self.settings;
        let secret = settings.secret_key.expose_secret();
        let access_key = settings.access_key.expose_secret();
        let secrets = [secret, access_key, &settings.service_id];
        KoreanText::of(&message.payload).hidden_by(redactor(message, &secrets))
    }

    async fn search(&self, message: &Message, number: &Number) -> Result<LookUp, Problem> {
        let text = KoreanText::of(&message.payload).text;
        let (start, end) = window(clock::earliest(message), clock::latest());
        let mut first = self.messages_url.clone();
        first
            .query_pairs_mut()
            .append_pair("requestStartTime", &start)
            .append_pair("requestEndTime", &end)
            .append_pair("to", &number.national)
            .append_pair("from", &self.settings.from)
            .append_pair("pageSize", PAGE_SIZE);
        let mut url = first.clone();
        let mut fits = Fits::default();
        for _ in 0..MAX_PAGES {
            let (json, items) = self.get(url).await?;
            for item in &items {
                let id = item["requestId"].as_str().and_then(message_id);
                if let Some(id) = id
                    && self.is_alike(item, &text).await?
                {
                    fits.add(requested(item), &id);
                }
            }
            match json["nextToken"].as_str() {
                Some(next) if json["hasMore"] != Value::Bool(false) && !items.is_empty() => {
                    url = first.clone();
                    url.query_pairs_mut().append_pair("nextToken", next);
                }
                _ => return Ok(fits.into_look_up()),
            }
        }
        Err(Problem::too_long())
    }

    async fn get(&self, url: Url) -> Result<(Value, Vec<Value>), Problem> {
        let get = reqwest::Method::GET;
        let reply = self.client.call(|http| self.signed(http, get, url)).await?;
        let json = page(&reply)?;
        match json["messages"].as_array().cloned() {
            Some(items) => Ok((json, items)),
            None => Err(Problem::answered(&reply)),
        }
    }

    /// Whether a listed message has our text. The list need not carry the text; the message itself
    /// does. Where neither tells, recipient, sender and time must do.
    async fn is_alike(&self, item: &Value, text: &str) -> Result<bool, Problem> {
        if let Some(listed) = item["content"].as_str() {
            return Ok(same_text(listed, text));
        }
        let Some(id) = item["messageId"].as_str() else {
            return Ok(true);
        };
        let (_, items) = self.get(endpoint(&self.messages_url, &[id])).await?;
        let told = items.first().and_then(|item| item["content"].as_str());
        Ok(told.is_none_or(|told| same_text(told, text)))
    }
}

/// Base64 of HMAC-SHA256 over method, path with query, timestamp and access key.
/// Source: <https://api.ncloud-docs.com/docs/en/common-ncpapi>
fn sign(secret: &str, method: &str, path: &str, timestamp: &str, access_key: &str) -> String {
    // HMAC takes a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(format!("{method} {path}\n{timestamp}\n{access_key}").as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// As it goes over the wire: the signature is over these very bytes.
fn path_and_query(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// The span of a list. SENS does not say in which time zone it reads these, Seoul's or UTC: the
/// start is written as UTC, which is the earlier reading in Seoul, and the end as Seoul's time,
/// which is the later one in UTC.
fn window(earliest: DateTime<Utc>, latest: DateTime<Utc>) -> (String, String) {
    const FORMAT: &str = "%Y-%m-%d %H:%M:%S";
    let start = earliest.max(latest - MAX_SPAN);
    let end = match FixedOffset::east_opt(SEOUL_SECS) {
        Some(seoul) => latest.with_timezone(&seoul).naive_local(),
        None => latest.naive_utc(),
    };
    (
        start.format(FORMAT).to_string(),
        end.format(FORMAT).to_string(),
    )
}

/// When SENS says the request came in; only good for an order among its own answers.
fn requested(item: &Value) -> Option<DateTime<Utc>> {
    let text = item["requestTime"].as_str()?;
    let formats = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
    let read = |format| NaiveDateTime::parse_from_str(text, format).ok();
    formats.into_iter().find_map(read).map(|at| at.and_utc())
}

#[async_trait]
impl Provider for Sens {
    fn name(&self) -> &'static str {
        "sens"
    }

    fn sms_text(&self) -> SmsText {
        SmsText::EucKr
    }

    async fn send(&self, message: &Message) -> Outcome {
        let Some(number) = Number::of(&message.recipient) else {
            return not_a_number();
        };
        let text = KoreanText::of(&message.payload);
        let body = Request {
            kind: text.kind,
            content_type: "COMM",
            country_code: &number.country,
            from: &self.settings.from,
            subject: text.subject.as_deref(),
            content: &text.text,
            messages: [To {
                to: &number.national,
            }],
        };
        let result = self.client.call(|http| {
            self.signed(http, reqwest::Method::POST, self.messages_url.clone())
                .header(CONTENT_TYPE, "application/json; charset=utf-8")
                .json(&body)
        });
        match result.await {
            Ok(reply) => answer::judge(&reply, || self.redactor(message)),
            Err(failure) => failure.outcome(&self.redactor(message)),
        }
    }

    async fn look_up(&self, message: &Message) -> LookUp {
        let Some(number) = Number::of(&message.recipient) else {
            return LookUp::NeverSeen;
        };
        in_time(self.search(message, &number), || self.redactor(message)).await
    }
}

#[cfg(test)]
mod tests;
