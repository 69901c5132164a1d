//! The request of `messages:send`.
//! Source: <https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages>

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::provider::Message;

/// How much of title, body and data is sent, in UTF-8 bytes. FCM takes 4,096, counts more than
/// these (key names of its own among them) and answers with a permanent error beyond.
pub(super) const BUDGET_BYTES: usize = 3_500;

/// What APNs takes as a collapse id, in bytes.
/// Source: <https://developer.apple.com/documentation/usernotifications>
const MAX_COLLAPSE_ID_BYTES: usize = 64;

/// A day: a device that comes back later than that has no use for the message. There is no
/// `apns-expiration` to match, since a moment instead of a duration would make every attempt's
/// body differ.
const TTL: &str = "86400s";

/// The whole body of the request.
#[derive(Serialize)]
pub(super) struct SendRequest<'a> {
    message: Target<'a>,
}

#[derive(Serialize)]
struct Target<'a> {
    token: &'a str,
    notification: Notification<'a>,
    data: BTreeMap<&'a str, Cow<'a, str>>,
    android: Android<'a>,
    apns: Apns<'a>,
}

#[derive(Serialize)]
struct Notification<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<Cow<'a, str>>,
    body: Cow<'a, str>,
}

#[derive(Serialize)]
struct Android<'a> {
    priority: &'static str,
    ttl: &'static str,
    notification: AndroidNotification<'a>,
}

#[derive(Serialize)]
struct AndroidNotification<'a> {
    tag: &'a str,
}

#[derive(Serialize)]
struct Apns<'a> {
    headers: ApnsHeaders<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ApnsHeaders<'a> {
    apns_priority: &'static str,
    apns_collapse_id: Cow<'a, str>,
}

impl<'a> SendRequest<'a> {
    /// The same bytes for the same message, however often it is built.
    pub(super) fn new(message: &'a Message) -> Self {
        let data = data(message);
        let used = data.iter().map(|(key, value)| key.len() + value.len());
        let room = BUDGET_BYTES.saturating_sub(used.sum());
        let title = message.payload.title.as_deref().map(|text| fit(text, room));
        let room = room.saturating_sub(title.as_ref().map_or(0, |title| title.len()));
        let body = fit(&message.payload.body, room);
        Self {
            message: Target {
                token: message.recipient.as_str(),
                notification: Notification { title, body },
                data,
                android: Android {
                    priority: "HIGH",
                    ttl: TTL,
                    notification: AndroidNotification {
                        tag: &message.reference,
                    },
                },
                apns: Apns {
                    headers: ApnsHeaders {
                        apns_priority: "10",
                        apns_collapse_id: collapse_id(message),
                    },
                },
            },
        }
    }
}

fn data(message: &Message) -> BTreeMap<&str, Cow<'_, str>> {
    let mut data = message
        .payload
        .data
        .iter()
        .map(|(key, value)| (key.as_str(), Cow::from(value)))
        .collect::<BTreeMap<_, _>>();
    data.insert("payment_id", message.payment_id.to_string().into());
    data.insert("outbox_id", message.outbox_id.to_string().into());
    data.insert("event_type", Cow::from(&*message.event_type));
    data
}

fn collapse_id(message: &Message) -> Cow<'_, str> {
    if message.reference.len() <= MAX_COLLAPSE_ID_BYTES {
        Cow::from(&*message.reference)
    } else {
        message.outbox_id.to_string().into()
    }
}

/// The text in at most `room` bytes, cut on a character and marked with an ellipsis.
fn fit(text: &str, room: usize) -> Cow<'_, str> {
    const ELLIPSIS: &str = "…";
    if text.len() <= room {
        return text.into();
    }
    let Some(room) = room.checked_sub(ELLIPSIS.len()) else {
        return "".into();
    };
    let end = (0..=room).rev().find(|&end| text.is_char_boundary(end));
    format!("{}{ELLIPSIS}", &text[..end.unwrap_or(0)]).into()
}
