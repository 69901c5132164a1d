//! The HTTP client of one provider, and the one question every failure is sorted by: can the
//! request have arrived?
//!
//! A connection is never older than [`MAX_CLIENT_AGE`] plus one request: the pool is replaced as a
//! whole, so that a provider that moved to another address is followed even under constant load,
//! when no connection would ever fall idle.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;
use url::Url;

use super::redact::Redactor;
use super::{Outcome, retry_after};

mod credentials;

pub use credentials::Credentials;

/// How much of an answer is read, after decompression. What a provider says fits many times over;
/// the rest of an endless or inflating body is never fetched.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// After this long all connections are opened anew.
pub const MAX_CLIENT_AGE: Duration = Duration::from_secs(120);

/// Establishing a connection takes a few round trips; a host that needs longer is not there.
const MAX_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Shorter than the keep-alive of common servers (60 s and more), so that a request is rarely
/// written to a connection that the other side is just closing.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Finds a dead HTTP/2 connection, which no single stream's timeout would close.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(15);
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// What a [`Client`] is made from.
#[derive(Clone)]
pub struct ClientSettings {
    /// One request, from connect to the last byte of the answer.
    pub timeout: Duration,
    /// Outbound proxy; may carry a user name and password. The system's proxy variables are never
    /// read.
    pub proxy: Option<Url>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The proxy's URL is of a kind that cannot be used.
    #[error(
        "PROVIDER_PROXY has the scheme {0:?}, which cannot be used: give an http:// or https:// URL"
    )]
    ProxyScheme(String),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up for provider calls: {0}")]
    Tls(#[from] rustls::Error),
    /// The client cannot be built.
    #[error("the HTTP client for provider calls cannot be built: {0}")]
    Build(#[source] reqwest::Error),
}

/// Sends one provider's requests. One for each provider, so that their connections are apart.
pub struct Client {
    settings: ClientSettings,
    tls: rustls::ClientConfig,
    proxy_credentials: Credentials,
    current: Mutex<Current>,
}

struct Current {
    http: reqwest::Client,
    /// When the next request replaces it.
    old_at: Instant,
}

/// The head of an answer, and as much of its body as was sent and allowed.
#[derive(Clone)]
pub struct Reply {
    /// HTTP status code.
    pub status: u16,
    /// The provider's wish, not yet capped.
    pub retry_after: Option<Duration>,
    /// At most [`MAX_BODY_BYTES`] bytes.
    pub body: Vec<u8>,
    /// What ended the body before its end, if anything did.
    pub broken: Option<String>,
    /// What the request said about who we are: an answer may repeat it.
    pub credentials: Credentials,
}

/// No answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The request provably did not go out: no address, no connection, no TLS.
    NotSent(String),
    /// It may have arrived, and nothing came back.
    Unanswered(String),
}

impl Client {
    /// Builds the client; opens no connection.
    ///
    /// # Errors
    ///
    /// When the proxy's URL cannot be used or TLS cannot be set up.
    pub fn new(settings: ClientSettings) -> Result<Self, ClientError> {
        let tls = tls_config()?;
        let current = Mutex::new(Current {
            http: build(&settings, &tls)?,
            old_at: Instant::now() + MAX_CLIENT_AGE,
        });
        Ok(Self {
            proxy_credentials: Credentials::of_proxy(settings.proxy.as_ref()),
            settings,
            tls,
            current,
        })
    }

    /// How long one request may take, connect to last byte.
    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Sends the request that `build` makes, once, and reads the answer up to [`MAX_BODY_BYTES`].
    ///
    /// # Errors
    ///
    /// Only when there is no status line. A body that breaks off leaves a [`Reply`]: its status
    /// was said.
    pub async fn call<F>(&self, build: F) -> Result<Reply, Failure>
    where
        F: FnOnce(&reqwest::Client) -> reqwest::RequestBuilder,
    {
        let (http, request) = build(&self.http()).build_split();
        let request = request.map_err(|error| classify(&error))?;
        let credentials = self.proxy_credentials.clone().and_of(&request);
        let response = http.execute(request).await;
        let mut response = response.map_err(|error| classify(&error))?;
        let mut reply = Reply {
            status: response.status().as_u16(),
            retry_after: wish(response.headers()),
            body: Vec::new(),
            broken: None,
            credentials,
        };
        while reply.body.len() < MAX_BODY_BYTES {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    let room = MAX_BODY_BYTES - reply.body.len();
                    reply.body.extend(chunk.iter().take(room));
                }
                Ok(None) => break,
                Err(error) => {
                    reply.broken = Some(describe(&error));
                    break;
                }
            }
        }
        Ok(reply)
    }

    /// The pool in use, replaced when it has grown old. Requests under way keep the old one alive
    /// until they end.
    fn http(&self) -> reqwest::Client {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if Instant::now() >= current.old_at {
            // It was built from the same settings before. Should it fail now, the old one serves
            // on until the next turn.
            if let Ok(http) = build(&self.settings, &self.tls) {
                current.http = http;
            }
            current.old_at = Instant::now() + MAX_CLIENT_AGE;
        }
        current.http.clone()
    }
}

impl Reply {
    /// The body as JSON, if it is JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The body as text for people, or what broke it when there is none. Not yet safe to store.
    pub fn text(&self) -> String {
        if let Some(json) = self.json() {
            // Written anew, so that \u escapes cannot carry a text past the redaction.
            return json.to_string();
        }
        let text = String::from_utf8_lossy(&self.body);
        match (&self.broken, text.trim().is_empty()) {
            (Some(broken), true) => broken.clone(),
            (None, true) => "empty body".to_owned(),
            _ => text.into_owned(),
        }
    }
}

impl Failure {
    /// What it means for the message.
    pub fn outcome(&self, redactor: &Redactor) -> Outcome {
        let retry_after = None;
        match self {
            Self::NotSent(text) => Outcome::Deferred {
                retry_after,
                answer: redactor.answer(None, text),
            },
            Self::Unanswered(text) => Outcome::Unknown {
                retry_after,
                answer: redactor.answer(None, text),
            },
        }
    }
}

/// `base` with path segments added, percent-encoded. The configuration admits only http and https
/// URLs, which always have a path.
pub fn endpoint(base: &Url, segments: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

/// A provider's own id of a message, if it can be kept: it is stored under a unique index, which
/// takes no NUL and no kilobytes. An acceptance with an id that cannot be kept is an acceptance all
/// the same.
pub fn message_id(id: &str) -> Option<String> {
    let usable = (1..=255).contains(&id.len()) && !id.chars().any(char::is_control);
    usable.then(|| id.to_owned())
}

/// Whether the request provably did not reach the provider: it could not be built, the name did
/// not resolve, the connection was refused or timed out, or TLS failed. Everything else, a reset of
/// a pooled connection included, leaves it open.
pub fn before_request_went_out(error: &reqwest::Error) -> bool {
    error.is_connect() || error.is_builder()
}

fn classify(error: &reqwest::Error) -> Failure {
    let text = describe(error);
    if before_request_went_out(error) {
        Failure::NotSent(text)
    } else {
        Failure::Unanswered(text)
    }
}

/// What happened, without the URL: a path can carry account names.
fn describe(error: &reqwest::Error) -> String {
    let what = if error.is_builder() {
        "the request could not be built"
    } else if error.is_connect() {
        "could not connect"
    } else if error.is_timeout() {
        return "no complete answer in time".to_owned();
    } else {
        "the connection broke after the request went out"
    };
    // The outer layers say "error sending request"; the innermost says why.
    let mut cause = std::error::Error::source(error);
    let mut why = None;
    while let Some(inner) = cause {
        why = Some(inner.to_string());
        cause = inner.source();
    }
    why.map_or_else(|| what.to_owned(), |why| format!("{what}: {why}"))
}

fn wish(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    retry_after::parse(value, SystemTime::now())
}

/// A bare HTTP client with this file's settings, for callers that speak to our own routes.
///
/// # Errors
///
/// When TLS cannot be set up.
pub fn plain_http(timeout: Duration) -> Result<reqwest::Client, ClientError> {
    let settings = ClientSettings {
        timeout,
        proxy: None,
    };
    build(&settings, &tls_config()?)
}

fn build(
    settings: &ClientSettings,
    tls: &rustls::ClientConfig,
) -> Result<reqwest::Client, ClientError> {
    // Less than the whole, so that a host that does not answer is told apart from a request that
    // was not answered.
    let connect_timeout = MAX_CONNECT_TIMEOUT.min(settings.timeout / 2);
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(settings.timeout)
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .http2_keep_alive_interval(HTTP2_PING_INTERVAL)
        .http2_keep_alive_timeout(HTTP2_PING_TIMEOUT)
        .tcp_nodelay(true)
        .user_agent(concat!("paybell/", env!("CARGO_PKG_VERSION")));
    if let Some(url) = &settings.proxy {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ClientError::ProxyScheme(url.scheme().to_owned()));
        }
        let proxy = reqwest::Proxy::all(url.as_str());
        let proxy = proxy.map_err(|error| ClientError::Build(error.without_url()))?;
        builder = builder.proxy(proxy);
    }
    builder
        .build()
        .map_err(|error| ClientError::Build(error.without_url()))
}

/// TLS with the system's roots. Built once: reading them again for every pool would cost
/// milliseconds on the path of a request. A host without any roots can still speak plain HTTP.
fn tls_config() -> Result<rustls::ClientConfig, rustls::Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        tracing::warn!(
            "no trusted root certificates on this system: https providers cannot be reached \
             (install ca-certificates or set SSL_CERT_FILE)"
        );
    }
    let ring = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests;
