//! What all channels share, and the way to all providers.
//!
//! - `PROVIDER_PROXY`: URL of an outbound HTTP proxy

use std::fmt;

use url::{Host, Url};

use super::fcm::FcmConfig;
use super::reader::{Faulty, Reader};
use super::sms::SmsConfig;
use super::{mask, variables};

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

pub(super) fn plain_text(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err("holds a control character: leave it out".to_owned());
    }
    Ok(text.to_owned())
}
