//! The push channel, and what all channels share.
//!
//! - `FCM_BASE_URL`, `FCM_PROJECT_ID`: both unset: push is off
//! - `GOOGLE_APPLICATION_CREDENTIALS`: refused, so that nobody believes it is used
//! - `PROVIDER_PROXY`: URL of an outbound HTTP proxy

use std::fmt;

use url::{Host, Url};

use super::reader::{Faulty, Reader};
use super::sms::SmsConfig;
use super::{mask, variables};

/// The push channel (Firebase Cloud Messaging, HTTP v1).
#[derive(Debug, Clone)]
pub struct FcmConfig {
    /// Without user info, query and fragment.
    pub base_url: Url,
    /// The Firebase project, as it stands in the request path.
    pub project_id: String,
}

impl FcmConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Faulty> {
        let base_url = reader.optional(variables::FCM_BASE_URL, base_url);
        let project_id = reader.optional(variables::FCM_PROJECT_ID, project_id);
        let key_file = reader.optional(variables::GOOGLE_APPLICATION_CREDENTIALS, |_| {
            Err::<(), _>(
                "cannot be used by this version: unset it; FCM_BASE_URL with \
                          FCM_PROJECT_ID reaches a server that asks for no authorization"
                    .to_owned(),
            )
        });
        key_file?;
        match (base_url?, project_id?) {
            (Some(base_url), Some(project_id)) => Ok(Some(Self {
                base_url,
                project_id,
            })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(reader.fault(
                variables::FCM_PROJECT_ID,
                "is not set although FCM_BASE_URL is: set both, or neither to turn push off",
            )),
            (None, Some(_)) => Err(reader.fault(
                variables::FCM_BASE_URL,
                "is not set although FCM_PROJECT_ID is: set both, or neither to turn push off",
            )),
        }
    }
}

/// A service that can tell nobody anything is surely not meant.
pub(super) fn require_one(
    reader: &mut Reader<'_>,
    sms: &Result<Option<SmsConfig>, Faulty>,
    fcm: &Result<Option<FcmConfig>, Faulty>,
) {
    if matches!((sms, fcm), (Ok(None), Ok(None))) {
        reader.fault(
            variables::SMS_BASE_URL,
            "is not set, and no other channel is on: set SMS_BASE_URL for SMS, or FCM_BASE_URL and \
             FCM_PROJECT_ID for push",
        );
    }
}

/// An outbound proxy. Its URL may hold credentials, so `Debug` masks it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyUrl(Url);

impl ProxyUrl {
    /// The URL, credentials included.
    pub fn url(&self) -> &Url {
        &self.0
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Faulty> {
        reader.optional(variables::PROVIDER_PROXY, |text| {
            let url = http_url(text)?;
            if url.query().is_some() || url.fragment().is_some() || url.path() != "/" {
                return Err("has more than an address: write http://HOST:PORT".to_owned());
            }
            Ok(Self(url))
        })
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProxyUrl({})", mask::url(self.0.as_str()))
    }
}

fn http_url(text: &str) -> Result<Url, String> {
    let example = "write for example https://gateway.example:8443/path";
    let url = Url::parse(text).map_err(|error| format!("is not a URL ({error}): {example}"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err(format!("is neither an http nor an https URL: {example}")),
    }
}

pub(super) fn base_url(text: &str) -> Result<Url, String> {
    let url = http_url(text)?;
    let problem = if !url.username().is_empty() || url.password().is_some() {
        "has user info: leave it out, a key has its own variable"
    } else if url.query().is_some() || url.fragment().is_some() {
        "has a query or a fragment: leave it out, paths are added to the end"
    } else {
        return Ok(url);
    };
    Err(problem.to_owned())
}

pub(super) fn leaves_in_the_clear(url: &Url) -> bool {
    let loopback = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.to_canonical().is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "http" && !loopback
}

pub(super) fn plain_text(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err("holds a control character: leave it out".to_owned());
    }
    Ok(text.to_owned())
}

fn project_id(text: &str) -> Result<String, String> {
    const MAX_CHARS: usize = 128;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if text.len() > MAX_CHARS || !text.chars().all(plain) {
        return Err(
            "is not a project id: copy it from the Firebase console, for example \
                    demo-project"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}
