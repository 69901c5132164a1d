//! Twilio Messages (API version 2010-04-01).
//!
//! Twilio takes no key that would make a repeat harmless, and keeps no name of ours: after an
//! unclear answer its list is searched for a message of the same sender, recipient and text.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use super::clock;
use super::listing::{Fits, MAX_PAGES, Problem, in_time, page, redactor, same_text};
use super::verdict::{Codes, Meaning, OPTED_OUT, REFUSED, Statuses, of_code, of_status};
use crate::payment::sms_text::{SmsText, one_body};
use crate::provider::client::{Client, Reply, endpoint, message_id};
use crate::provider::redact::Redactor;
use crate::provider::{LookUp, Message, Outcome, Provider};

/// Where Twilio is.
pub const TWILIO_BASE_URL: &str = "https://api.twilio.com";

/// Messages listed at a time: their texts, escaped, stay below what is read of an answer.
const PAGE_SIZE: &str = "5";

/// Who we are to Twilio.
#[derive(Debug, Clone)]
pub struct TwilioSettings {
    /// An http or https URL without the API version.
    pub base_url: Url,
    /// `AC…`; also the user name.
    pub account_sid: String,
    /// The password.
    pub auth_token: SecretString,
    /// A number of ours in E.164, or an alphanumeric sender.
    pub from: String,
}

/// Speaks to Twilio on behalf of one account.
pub struct Twilio {
    settings: TwilioSettings,
    messages_url: Url,
    client: Client,
}

/// What Twilio's own codes mean, whatever the status.
/// Source: <https://www.twilio.com/docs/api/errors>
const CODES: &Codes = &[
    ("20003", Meaning::Misconfigured), // bad credentials
    ("20005", Meaning::Misconfigured), // account not active
    ("20429", Meaning::Deferred),      // too many requests at a time: never processed
    ("20500", Meaning::Unknown),       // fault or timeout
    ("20503", Meaning::Unknown),       // product unavailable
    ("21211", REFUSED),                // To is not a phone number
    ("21212", Meaning::Misconfigured), // From is not a phone number
    ("21408", Meaning::Misconfigured), // region not enabled for the account
    ("21603", Meaning::Misconfigured), // From is missing
    ("21606", Meaning::Misconfigured), // From cannot be used
    ("21608", REFUSED),                // a trial account's recipient is not verified
    ("21610", OPTED_OUT),              // the recipient answered STOP
    ("21611", Meaning::Deferred),      // the queue of From is full
    ("21612", REFUSED),                // no route from From to To
    ("21614", REFUSED),                // To is not a mobile number
    ("21617", REFUSED),                // the text is too long
    ("21659", Meaning::Misconfigured), // From is not ours
    ("30002", Meaning::Misconfigured), // account suspended
];

/// What a status means when its code is none of these; 2xx is looked at before.
const STATUSES: &Statuses = &[
    (401..=401, Meaning::Misconfigured),
    (403..=405, Meaning::Misconfigured), // the path is the account's
    (407..=407, Meaning::Misconfigured),
    (408..=408, Meaning::Unknown),
    (425..=425, Meaning::Deferred),
    (429..=429, Meaning::Deferred),
    (400..=499, REFUSED),
];

impl Twilio {
    /// An adapter for the account of these settings.
    pub fn new(settings: TwilioSettings, client: Client) -> Self {
        let sid = &*settings.account_sid;
        let path = ["2010-04-01", "Accounts", sid, "Messages.json"];
        Self {
            messages_url: endpoint(&settings.base_url, &path),
            settings,
            client,
        }
    }

    fn authorized(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let token = self.settings.auth_token.expose_secret();
        request.basic_auth(&self.settings.account_sid, Some(token))
    }

    fn redactor(&self, message: &Message) -> Redactor {
        let token = self.settings.auth_token.expose_secret();
        redactor(message, &[token, &self.settings.account_sid])
    }

    async fn search(&self, message: &Message) -> Result<LookUp, Problem> {
        let wanted = Wanted {
            body: &one_body(message.payload.title.as_deref(), &message.payload.body),
            earliest: clock::earliest(message),
        };
        let mut url = self.messages_url.clone();
        url.query_pairs_mut()
            .append_pair("To", message.recipient.as_str())
            .append_pair("From", &self.settings.from)
            .append_pair("PageSize", PAGE_SIZE);
        let mut fits = Fits::default();
        for _ in 0..MAX_PAGES {
            let here = url.clone();
            let reply = self.client.call(|http| self.authorized(http.get(here)));
            let reply = reply.await?;
            let json = page(&reply)?;
            let Some(listed) = json["messages"].as_array() else {
                return Err(Problem::answered(&reply));
            };
            wanted.gather(listed, &mut fits);
            let next = json["next_page_uri"].as_str().and_then(query_of);
            match next {
                // Newest come first: behind a page of too old messages are only older ones.
                Some(next) if !wanted.all_too_old(listed) => url.set_query(Some(next)),
                _ => return Ok(fits.into_look_up()),
            }
        }
        Err(Problem::too_long())
    }
}

/// The next page's address is taken for its query alone: the credentials go nowhere else.
fn query_of(uri: &str) -> Option<&str> {
    uri.split_once('?').map(|(_, query)| query)
}

/// What a listed message must be like.
struct Wanted<'a> {
    body: &'a str,
    earliest: DateTime<Utc>,
}

impl Wanted<'_> {
    fn gather(&self, listed: &[Value], fits: &mut Fits) {
        for message in listed {
            let at = created(message);
            let in_time = at.is_none_or(|at| at >= self.earliest);
            let same = message["body"]
                .as_str()
                .is_some_and(|body| same_text(body, self.body));
            if let Some(sid) = message["sid"].as_str().and_then(message_id)
                && in_time
                && same
            {
                fits.add(at, &sid);
            }
        }
    }

    fn all_too_old(&self, listed: &[Value]) -> bool {
        let too_old = |message| created(message).is_some_and(|at| at < self.earliest);
        !listed.is_empty() && listed.iter().all(too_old)
    }
}

fn created(message: &Value) -> Option<DateTime<Utc>> {
    let text = message["date_created"].as_str()?;
    Some(DateTime::parse_from_rfc2822(text).ok()?.to_utc())
}

#[async_trait]
impl Provider for Twilio {
    fn name(&self) -> &'static str {
        "twilio"
    }

    fn sms_text(&self) -> SmsText {
        SmsText::OneBody
    }

    async fn send(&self, message: &Message) -> Outcome {
        let body = one_body(message.payload.title.as_deref(), &message.payload.body);
        let form = [
            ("To", message.recipient.as_str()),
            ("From", &self.settings.from),
            ("Body", &body),
        ];
        let result = self.client.call(|http| {
            self.authorized(http.post(self.messages_url.clone()))
                .form(&form)
        });
        match result.await {
            Ok(reply) => judge(&reply, || self.redactor(message)),
            Err(failure) => failure.outcome(&self.redactor(message)),
        }
    }

    async fn look_up(&self, message: &Message) -> LookUp {
        in_time(self.search(message), || self.redactor(message)).await
    }
}

fn judge(reply: &Reply, redactor: impl FnOnce() -> Redactor) -> Outcome {
    let json = reply.json();
    if let Some(sid) = json.as_ref().and_then(|json| json["sid"].as_str())
        && (200..=299).contains(&reply.status)
    {
        return Outcome::Accepted {
            provider_message_id: message_id(sid),
        };
    }
    let words = json
        .as_ref()
        .and_then(words)
        .unwrap_or_else(|| reply.text());
    meaning(reply.status, json.as_ref()).outcome(reply, &words, redactor())
}

/// The table. A status alone, from somebody who does not speak Twilio's JSON, says nothing of the
/// message.
fn meaning(status: u16, json: Option<&Value>) -> Meaning {
    let code = json.and_then(|json| json["code"].as_u64());
    if let Some(known) = code.and_then(|code| of_code(CODES, &code.to_string())) {
        return known;
    }
    match of_status(STATUSES, status) {
        Meaning::Rejected(_) if !json.is_some_and(Value::is_object) => Meaning::Unknown,
        meaning => meaning,
    }
}

/// Code and message in one line.
fn words(json: &Value) -> Option<String> {
    let message = json["message"].as_str().or(json["detail"].as_str())?;
    Some(match json["code"].as_u64() {
        Some(code) => format!("{code}: {message}"),
        None => message.to_owned(),
    })
}

#[cfg(test)]
mod tests;
