//! The SMS channel, and the way to all providers.
//!
//! - `SMS_PROVIDER`: the dialect; only `http` so far
//! - `SMS_BASE_URL`: of the SMS gateway; unset: SMS is off
//! - `SMS_FROM`: sender of text messages
//! - `SMS_API_KEY`: bearer token of the gateway
//! - `PROVIDER_PROXY`: URL of an outbound HTTP proxy

use std::fmt;

use secrecy::SecretString;
use url::{Host, Url};

use super::fcm::FcmConfig;
use super::reader::{Faulty, Reader, visible_ascii};
use super::{mask, variables};

/// The SMS channel, one variant per dialect.
#[derive(Debug, Clone)]
pub enum SmsConfig {
    /// The generic JSON gateway.
    Http {
        /// Without user info, query and fragment.
        base_url: Url,
        /// Sender, when the gateway wants one.
        from: Option<String>,
        /// Bearer token, when the gateway wants one.
        api_key: Option<SecretString>,
    },
}

/// A dialect by its name in `SMS_PROVIDER`.
enum SmsProvider {
    Http,
}

impl SmsConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Faulty> {
        let provider = reader.required(variables::SMS_PROVIDER, parse_provider);
        let base_url = reader.optional(variables::SMS_BASE_URL, base_url);
        let from = reader.optional(variables::SMS_FROM, plain_text);
        let api_key = reader.optional(variables::SMS_API_KEY, |text| {
            visible_ascii(text).map(SecretString::from)
        });
        let (from, api_key) = (from?, api_key?);
        match (provider?, base_url?) {
            (SmsProvider::Http, Some(base_url)) => {
                if api_key.is_some() && leaves_in_the_clear(&base_url) {
                    reader.warn("SMS_API_KEY is sent unencrypted: use an https SMS_BASE_URL");
                }
                Ok(Some(Self::Http {
                    base_url,
                    from,
                    api_key,
                }))
            }
            (SmsProvider::Http, None) => {
                if from.is_some() || api_key.is_some() {
                    reader.warn(
                        "SMS_FROM and SMS_API_KEY have no effect without SMS_BASE_URL: SMS is off",
                    );
                }
                Ok(None)
            }
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
            "is not set, and no other channel is on: set SMS_BASE_URL for SMS, or \
             GOOGLE_APPLICATION_CREDENTIALS for push",
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

fn parse_provider(text: &str) -> Result<SmsProvider, String> {
    match text {
        "http" => Ok(SmsProvider::Http),
        "twilio" | "solapi" | "sens" => {
            Err("is not in this version, which speaks http only: use http".to_owned())
        }
        _ => Err("is not a provider: use http".to_owned()),
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

/// Whether what is sent there can be read on the way.
pub(super) fn leaves_in_the_clear(url: &Url) -> bool {
    let loopback = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.to_canonical().is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "http" && !loopback
}

fn plain_text(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err("holds a control character: leave it out".to_owned());
    }
    Ok(text.to_owned())
}
