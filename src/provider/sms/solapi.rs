//! Solapi (CoolSMS), messages v4.
//!
//! Solapi removes duplicates only within one request. Our reference travels in the custom fields
//! and comes back in its list, which is how an unclear send is asked about.

use async_trait::async_trait;
use chrono::{DateTime, SecondsFormat, Utc};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{AUTHORIZATION, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::Sha256;
use url::Url;
use uuid::Uuid;

use super::clock;
use super::korean::{Kind, KoreanText, Number};
use super::listing::{Fits, MAX_PAGES, Problem, in_time, page, redactor, same_text};
use crate::payment::sms_text::SmsText;
use crate::provider::client::{Client, endpoint, message_id};
use crate::provider::redact::Redactor;
use crate::provider::{LookUp, Message, Outcome, Provider, RejectReason};

mod answer;

/// Where Solapi is.
pub const SOLAPI_BASE_URL: &str = "https://api.solapi.com";

/// Messages listed at a time: their texts stay below what is read of an answer.
const PAGE_SIZE: &str = "8";

/// Who we are to Solapi.
#[derive(Debug, Clone)]
pub struct SolapiSettings {
    /// An http or https URL; the API's own paths are added.
    pub base_url: Url,
    /// Names the account.
    pub api_key: SecretString,
    /// Signs the requests.
    pub api_secret: SecretString,
    /// A registered sender, digits only.
    pub from: String,
}

/// Speaks to Solapi on behalf of one account.
pub struct Solapi {
    settings: SolapiSettings,
    client: Client,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    messages: [Outgoing<'a>; 1],
    allow_duplicates: bool,
    show_message_list: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outgoing<'a> {
    to: &'a str,
    from: &'a str,
    country: &'a str,
    text: &'a str,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    auto_type_detect: bool,
    custom_fields: Value,
}

impl Solapi {
    /// An adapter for the account of these settings.
    pub fn new(settings: SolapiSettings, client: Client) -> Self {
        Self { settings, client }
    }

    /// A fresh date and salt each time: a signature that was used before is refused.
    fn authorized(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let date = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
        let salt = Uuid::new_v4().simple().to_string();
        let secret = self.settings.api_secret.expose_secret();
        let signature = sign(secret, &date, &salt);
        let key = self.settings.api_key.expose_secret();
        let value =
            format!("HMAC-SHA256 apiKey={key}, date={date}, salt={salt}, signature={signature}");
        match HeaderValue::try_from(value) {
            Ok(mut value) => {
                value.set_sensitive(true);
                request.header(AUTHORIZATION, value)
            }
            // The configuration admits only what fits into a header; without one we are refused.
            Err(_) => request,
        }
    }

    fn redactor(&self, message: &Message) -> Redactor {
        let secret = self.settings.api_secret.expose_secret();
        let secrets = [secret, self.settings.api_key.expose_secret()];
        KoreanText::of(&message.payload).hidden_by(redactor(message, &secrets))
    }

    async fn search(&self, message: &Message, number: &Number) -> Result<LookUp, Problem> {
        let earliest = clock::earliest(message).to_rfc3339_opts(SecondsFormat::Millis, true);
        let text = KoreanText::of(&message.payload).text;
        let mut first = endpoint(&self.settings.base_url, &["messages", "v4", "list"]);
        first
            .query_pairs_mut()
            .append_pair("to", &number.national)
            .append_pair("from", &self.settings.from)
            .append_pair("dateType", "CREATED")
            .append_pair("startDate", &earliest)
            .append_pair("limit", PAGE_SIZE);
        let mut url = first.clone();
        let mut fits = Fits::default();
        for _ in 0..MAX_PAGES {
            let here = url.clone();
            let reply = self.client.call(|http| self.authorized(http.get(here)));
            let reply = reply.await?;
            let json = page(&reply)?;
            let Some(listed) = listed(&json["messageList"]) else {
                return Err(Problem::answered(&reply));
            };
            for item in &listed {
                match likeness(item, message, &text) {
                    Likeness::Ours(provider_message_id) => {
                        return Ok(LookUp::Found {
                            provider_message_id,
                        });
                    }
                    Likeness::Alike(id) => fits.add(created(item), &id),
                    Likeness::None => {}
                }
            }
            match json["nextKey"].as_str() {
                Some(next) if !listed.is_empty() => {
                    url = first.clone();
                    url.query_pairs_mut().append_pair("startKey", next);
                }
                _ => return Ok(fits.into_look_up()),
            }
        }
        Err(Problem::too_long())
    }
}

/// Lowercase hex of HMAC-SHA256 over date and salt.
/// Source: <https://developers.solapi.com/references/authentication/api-key>
fn sign(secret: &str, date: &str, salt: &str) -> String {
    // HMAC takes a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(date.as_bytes());
    mac.update(salt.as_bytes());
    let digest = mac.finalize().into_bytes();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The messages of a list, which is an object by their ids or an array.
fn listed(list: &Value) -> Option<Vec<&Value>> {
    match list {
        Value::Object(by_id) => Some(by_id.values().collect()),
        Value::Array(items) => Some(items.iter().collect()),
        _ => None,
    }
}

/// How much a listed message is like ours.
enum Likeness {
    /// It carries our reference.
    Ours(Option<String>),
    /// It carries no reference, and the same text.
    Alike(String),
    /// It is another's.
    None,
}

fn likeness(item: &Value, message: &Message, text: &str) -> Likeness {
    // A message that was refused at entry is listed and was not accepted.
    let code = item["statusCode"].as_str().unwrap_or_default();
    if code.starts_with('1') {
        return Likeness::None;
    }
    let id = item["messageId"].as_str().and_then(message_id);
    match item["customFields"][REFERENCE].as_str() {
        Some(reference) if reference == &*message.reference => Likeness::Ours(id),
        Some(_) => Likeness::None,
        None => {
            let listed = item["text"].as_str();
            match id {
                Some(id) if listed.is_some_and(|listed| same_text(listed, text)) => {
                    Likeness::Alike(id)
                }
                _ => Likeness::None,
            }
        }
    }
}

fn created(item: &Value) -> Option<DateTime<Utc>> {
    let text = item["dateCreated"].as_str()?;
    Some(DateTime::parse_from_rfc3339(text).ok()?.to_utc())
}

/// The custom field that carries our reference.
const REFERENCE: &str = "reference";

#[async_trait]
impl Provider for Solapi {
    fn name(&self) -> &'static str {
        "solapi"
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
            messages: [Outgoing {
                to: &number.national,
                from: &self.settings.from,
                country: &number.country,
                text: &text.text,
                kind: text.kind,
                subject: text.subject.as_deref(),
                auto_type_detect: false,
                custom_fields: json!({ REFERENCE: &*message.reference }),
            }],
            allow_duplicates: true,
            show_message_list: true,
        };
        let path = ["messages", "v4", "send-many", "detail"];
        let url = endpoint(&self.settings.base_url, &path);
        let result = self
            .client
            .call(|http| self.authorized(http.post(url)).json(&body));
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

/// A row whose recipient no gateway could reach.
pub(super) fn not_a_number() -> Outcome {
    Outcome::Rejected {
        reason: RejectReason::Rejected,
        answer: Redactor::default().answer(None, "the recipient is not a phone number"),
    }
}

#[cfg(test)]
mod tests;
