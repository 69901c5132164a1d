//! The rules of `/notifications`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde_json::value::RawValue;

use super::faults::{Faults, Pointer};
use super::fields::{Lines, check_text, quoted, unify_newlines};
use super::fingerprint::CanonicalNotification;
use super::json::{self, Object};
use super::{PaymentRequest, Rules};
use crate::payment::sms_text::{Part, SmsText};
use crate::payment::text::{self, Event, MAX_BODY_CHARS, MAX_TITLE_CHARS};
use crate::payment::{Channel, Recipient};

/// Most notifications of one payment.
pub const MAX_NOTIFICATIONS: usize = 20;
/// Most keys in `data`.
const MAX_DATA_KEYS: usize = 20;
/// Most bytes of all keys and values in `data`.
const MAX_DATA_BYTES: usize = 2048;
/// Keys that FCM keeps for itself. `collapse_key` is taken but overwritten there.
/// <https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages#Message>
const FCM_KEYS: [&str; 3] = ["from", "message_type", "collapse_key"];
/// Beginnings of keys that FCM keeps for itself.
const FCM_KEY_PREFIXES: [&str; 2] = ["google", "gcm"];
/// Keys that we set ourselves.
const OWN_KEYS: [&str; 3] = ["payment_id", "event_type", "outbox_id"];

/// One valid notification of a request.
#[derive(Clone, PartialEq, Eq)]
pub struct NotificationRequest {
    /// How it is to be sent.
    pub channel: Channel,
    /// To whom.
    pub recipient: Recipient,
    /// The caller's title.
    pub title: Option<String>,
    /// The caller's body.
    pub body: Option<String>,
    /// The caller's key-value pairs; only of a push.
    pub data: BTreeMap<String, String>,
}

impl fmt::Debug for NotificationRequest {
    /// Texts are personal data: only their sizes are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotificationRequest")
            .field("channel", &self.channel)
            .field("recipient", &self.recipient)
            .field("title_bytes", &self.title.as_ref().map(String::len))
            .field("body_bytes", &self.body.as_ref().map(String::len))
            .field("data_keys", &self.data.len())
            .finish()
    }
}

/// A valid notification with everything as it was written.
pub(super) struct Draft {
    channel: Channel,
    to: String,
    recipient: Recipient,
    title: Option<String>,
    body: Option<String>,
    data: Option<BTreeMap<String, String>>,
}

impl Draft {
    /// Its part of the canonical form.
    pub(super) fn canonical(&self) -> CanonicalNotification<'_> {
        CanonicalNotification {
            body: self.body.as_deref(),
            channel: self.channel.as_str(),
            data: self.data.as_ref(),
            title: self.title.as_deref(),
            to: &self.to,
        }
    }

    /// Its final form.
    pub(super) fn into_request(self) -> NotificationRequest {
        NotificationRequest {
            channel: self.channel,
            recipient: self.recipient,
            title: self.title,
            body: self.body.as_deref().map(unify_newlines),
            data: self.data.unwrap_or_default(),
        }
    }
}

/// Reads `/notifications`; a `None` in the list has had its faults noted.
pub(super) fn read_all(
    object: &mut Object<'_>,
    rules: &Rules,
    faults: &mut Faults,
) -> Vec<Option<Draft>> {
    let at = object.at("notifications");
    let elements = object
        .take_required("notifications", faults)
        .and_then(|raw| json::array(raw, &at, faults));
    let Some(elements) = elements else {
        return Vec::new();
    };
    if !(1..=MAX_NOTIFICATIONS).contains(&elements.len()) {
        let count = elements.len();
        faults.rule(
            &at,
            format!("has {count} entries; 1 to {MAX_NOTIFICATIONS} are allowed"),
        );
    }
    let mut seen = HashMap::new();
    let mut drafts = Vec::new();
    for (index, raw) in elements.into_iter().take(MAX_NOTIFICATIONS).enumerate() {
        let here = at.index(index);
        let draft = read(raw, here.clone(), rules, faults);
        if let Some(draft) = &draft {
            refuse_repetition(draft, index, &here, &mut seen, faults);
        }
        drafts.push(draft);
    }
    drafts
}

/// The same recipient over the same channel twice would be told the same thing twice.
fn refuse_repetition(
    draft: &Draft,
    index: usize,
    at: &Pointer,
    seen: &mut HashMap<(Channel, Recipient), usize>,
    faults: &mut Faults,
) {
    let first = *seen
        .entry((draft.channel, draft.recipient.clone()))
        .or_insert(index);
    if first != index {
        faults.rule(
            &at.field("to"),
            format!(
                "is the same {} recipient as /notifications/{first}/to",
                draft.channel
            ),
        );
    }
}

/// Standard texts hold the caller's words too: whether the provider can carry them shows when they
/// are rendered.
pub(super) fn check_rendered(request: &PaymentRequest, rules: &Rules, faults: &mut Faults) {
    if rules.sms_text == SmsText::Any {
        return;
    }
    let at = Pointer::root().field("notifications");
    for (index, wanted) in request.notifications.iter().enumerate() {
        if wanted.channel != Channel::Sms || wanted.body.is_some() {
            continue;
        }
        let facts = request.facts();
        let event = Event::PaymentApproved;
        let standard = text::render(event, wanted.channel, request.text_locale, &facts);
        let title = wanted.title.as_deref();
        for (part, fault) in rules.sms_text.faults(title, Some(&standard.body)) {
            if part == Part::Body {
                let detail = format!("is left out, and the standard text of this payment {fault}");
                faults.rule(&at.index(index).field("body"), detail);
            }
        }
    }
}

/// Whether the provider of text messages can carry the words that were given.
fn check_sms_words(
    title: Option<&str>,
    body: Option<&str>,
    rules: &Rules,
    object: &Object<'_>,
    faults: &mut Faults,
) {
    for (part, fault) in rules.sms_text.faults(title, body) {
        let name = match part {
            Part::Title => "title",
            Part::Body => "body",
        };
        faults.rule(&object.at(name), fault);
    }
}

/// Reads one entry.
fn read(raw: &RawValue, at: Pointer, rules: &Rules, faults: &mut Faults) -> Option<Draft> {
    let mut object = Object::read(raw, at, faults)?;
    let channel = read_channel(&mut object, rules, faults);
    let to = read_recipient(&mut object, channel, rules, faults);
    let title = read_words(&mut object, "title", MAX_TITLE_CHARS, Lines::One, faults);
    let body = read_words(&mut object, "body", MAX_BODY_CHARS, Lines::Many, faults);
    if let (Some(Channel::Sms), Some(title), Some(body)) = (channel, &title, &body) {
        check_sms_words(title.as_deref(), body.as_deref(), rules, &object, faults);
    }
    let data = read_data(&mut object, channel, faults);
    object.refuse_unknown("channel, to, title, body, data", faults);
    let (to, recipient) = to?;
    Some(Draft {
        channel: channel?,
        to,
        recipient,
        title: title?,
        body: body?,
        data: data?,
    })
}

/// `channel`: required, one that this service can send over.
fn read_channel(object: &mut Object<'_>, rules: &Rules, faults: &mut Faults) -> Option<Channel> {
    let name = object.required_string("channel", faults)?;
    let at = object.at("channel");
    let Ok(channel) = name.parse::<Channel>() else {
        let known: Vec<_> = rules
            .channels
            .iter()
            .map(|channel| channel.as_str())
            .collect();
        faults.rule(
            &at,
            format!(
                "{} is not a channel; there are: {}",
                quoted(&name),
                known.join(", ")
            ),
        );
        return None;
    };
    if !rules.channels.contains(&channel) {
        faults.rule(&at, format!("the channel {channel} is not configured here"));
    }
    Some(channel)
}

/// `to`: required; without a known channel only its type can be judged.
fn read_recipient(
    object: &mut Object<'_>,
    channel: Option<Channel>,
    rules: &Rules,
    faults: &mut Faults,
) -> Option<(String, Recipient)> {
    let to = object.required_string("to", faults)?;
    let recipient = match channel? {
        Channel::Sms => Recipient::phone(&to, rules.region),
        Channel::Fcm => Recipient::fcm_token(&to),
    };
    match recipient {
        Ok(recipient) => Some((to, recipient)),
        Err(error) => {
            faults.rule(&object.at("to"), error.to_string());
            None
        }
    }
}

/// `title` and `body`: optional; what is there must say something, as no provider sends nothing.
fn read_words(
    object: &mut Object<'_>,
    name: &str,
    max_chars: usize,
    lines: Lines,
    faults: &mut Faults,
) -> Option<Option<String>> {
    let words = object.optional_string(name, faults)?;
    let at = object.at(name);
    let valid = match words.as_deref() {
        None => true,
        Some(text) if text.trim().is_empty() => {
            faults.rule(&at, "must not be empty: leave it out for the standard text");
            false
        }
        Some(text) => check_text(text, max_chars, lines, &at, faults),
    };
    valid.then_some(words)
}

/// `data`: optional, string to string, only for a push.
fn read_data(
    object: &mut Object<'_>,
    channel: Option<Channel>,
    faults: &mut Faults,
) -> Option<Option<BTreeMap<String, String>>> {
    let at = object.at("data");
    let Some(raw) = object.take("data") else {
        return Some(None);
    };
    let members = Object::read(raw, at.clone(), faults)?;
    if channel == Some(Channel::Sms) {
        faults.rule(&at, "is for fcm only");
    }
    let mut data = BTreeMap::new();
    let mut whole = true;
    for (key, raw) in members.into_fields() {
        let here = at.field(&key);
        if let Some(fault) = key_fault(&key) {
            faults.rule(&here, fault);
        }
        match json::string(raw, &here, faults) {
            Some(value) if value.contains('\0') => faults.rule(&here, "must not contain U+0000"),
            Some(value) => {
                data.insert(key, value);
            }
            None => whole = false,
        }
    }
    check_data_size(&data, &at, faults);
    whole.then_some(Some(data))
}

/// Why a key of `data` cannot be taken.
fn key_fault(key: &str) -> Option<&'static str> {
    if key.is_empty() {
        Some("an empty key is not allowed")
    } else if key.chars().any(char::is_control) {
        Some("the key must not contain control characters")
    } else if OWN_KEYS.contains(&key) {
        Some("the key is set by this service")
    } else if FCM_KEYS.contains(&key)
        || FCM_KEY_PREFIXES
            .iter()
            .any(|prefix| key.starts_with(prefix))
    {
        Some("the key is reserved by FCM")
    } else {
        None
    }
}

fn check_data_size(data: &BTreeMap<String, String>, at: &Pointer, faults: &mut Faults) {
    let keys = data.len();
    if keys > MAX_DATA_KEYS {
        faults.rule(
            at,
            format!("has {keys} keys; at most {MAX_DATA_KEYS} are allowed"),
        );
    }
    let bytes: usize = data
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if bytes > MAX_DATA_BYTES {
        faults.rule(
            at,
            format!("has {bytes} bytes of keys and values; at most {MAX_DATA_BYTES} are allowed"),
        );
    }
}
