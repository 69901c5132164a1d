//! The HTTP server, and who may talk to it.
//!
//! - `BIND_ADDR`: IP address and port to listen on
//! - `API_KEYS`: comma separated `name=key`, or a bare key, whose name is `default`
//! - `ALLOW_UNAUTHENTICATED`: `true` lets a server without keys listen beyond this machine
//! - `ADMIN_TOKEN`: the bearer token of the admin routes, 16 characters or more

use std::net::SocketAddr;

use secrecy::{ExposeSecret, SecretString};

use super::reader::{Faulty, Reader, boolean, visible_ascii};
use super::variables;

/// The admin token of `.env.example`: everybody knows it.
pub const SAMPLE_ADMIN_TOKEN: &str = "sample-admin-token";

/// The client name of a key that is written without one.
const DEFAULT_CLIENT: &str = "default";
const MIN_ADMIN_TOKEN_CHARS: usize = 16;
const MAX_CLIENT_CHARS: usize = 64;

/// The HTTP server's settings.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Where to listen.
    pub bind: SocketAddr,
    /// Who may use `/payments`; empty: everybody who can connect.
    pub api_keys: Vec<ApiKey>,
    /// Opens the admin routes; `None`: they do not exist.
    pub admin_token: Option<SecretString>,
    /// Whether an open server beyond the loopback interface is meant.
    pub allow_unauthenticated: bool,
}

/// One client's key.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// The client: scopes idempotency keys and what GET shows. Two keys may share a name.
    pub name: String,
    /// What the client sends as its bearer token.
    pub key: SecretString,
}

impl HttpConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Faulty> {
        let bind = reader.required(variables::BIND_ADDR, parse_bind);
        let api_keys = reader.optional(variables::API_KEYS, parse_api_keys);
        let allow_unauthenticated = reader.required(variables::ALLOW_UNAUTHENTICATED, boolean);
        let admin_token = reader.optional(variables::ADMIN_TOKEN, parse_admin_token);
        let config = Self {
            bind: bind?,
            api_keys: api_keys?.unwrap_or_default(),
            admin_token: admin_token?,
            allow_unauthenticated: allow_unauthenticated?,
        };
        config.check_exposure(reader)?;
        Ok(config)
    }

    /// What is harmless on one's own machine need not be so on a network.
    fn check_exposure(&self, reader: &mut Reader<'_>) -> Result<(), Faulty> {
        if self.shares_the_admin_token() {
            reader.warn("ADMIN_TOKEN is also one of API_KEYS: that client can administer");
        }
        if self.bind.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        let open = self.check_open(reader);
        let sample = self.check_sample(reader);
        open.and(sample)
    }

    fn check_open(&self, reader: &mut Reader<'_>) -> Result<(), Faulty> {
        if !self.api_keys.is_empty() {
            return Ok(());
        }
        if self.allow_unauthenticated {
            reader.warn(format!(
                "API_KEYS is not set: anybody who reaches {} can post payments",
                self.bind
            ));
            return Ok(());
        }
        Err(reader.fault(
            variables::API_KEYS,
            "is not set while BIND_ADDR can be reached from other machines: set API_KEYS, or \
             ALLOW_UNAUTHENTICATED=true if that is meant",
        ))
    }

    fn check_sample(&self, reader: &mut Reader<'_>) -> Result<(), Faulty> {
        let token = self.admin_token.as_ref().map(ExposeSecret::expose_secret);
        if token != Some(SAMPLE_ADMIN_TOKEN) {
            return Ok(());
        }
        Err(reader.fault(
            variables::ADMIN_TOKEN,
            "is the sample value of .env.example while BIND_ADDR can be reached from other \
             machines: choose your own",
        ))
    }

    fn shares_the_admin_token(&self) -> bool {
        self.admin_token.as_ref().is_some_and(|token| {
            self.api_keys
                .iter()
                .any(|key| key.key.expose_secret() == token.expose_secret())
        })
    }
}

fn parse_bind(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "is not an IP address with a port: write for example 127.0.0.1:8080, or 0.0.0.0:8080 for \
         every interface"
            .to_owned()
    })
}

fn parse_admin_token(text: &str) -> Result<SecretString, String> {
    let token = visible_ascii(text)?;
    if token.len() < MIN_ADMIN_TOKEN_CHARS {
        return Err(format!(
            "is too short: use at least {MIN_ADMIN_TOKEN_CHARS} characters"
        ));
    }
    Ok(SecretString::from(token))
}

/// Errors give the position of an entry, never its text: any part of it may be the key.
pub(super) fn parse_api_keys(text: &str) -> Result<Vec<ApiKey>, String> {
    let mut keys: Vec<ApiKey> = Vec::new();
    for (index, entry) in text.split(',').enumerate() {
        let place = index + 1;
        let key = parse_api_key(entry.trim())
            .map_err(|problem| format!("has entry {place}, which {problem}"))?;
        let same = |other: &ApiKey| other.key.expose_secret() == key.key.expose_secret();
        if let Some(first) = keys.iter().position(same) {
            let first = first + 1;
            return Err(format!(
                "has the same key in entries {first} and {place}: give each its own"
            ));
        }
        keys.push(key);
    }
    Ok(keys)
}

fn parse_api_key(entry: &str) -> Result<ApiKey, String> {
    if entry.is_empty() {
        return Err("is empty: write name=key, separated by single commas".to_owned());
    }
    let (name, key) = entry.split_once('=').unwrap_or((DEFAULT_CLIENT, entry));
    let (name, key) = (name.trim(), visible_ascii(key.trim())?);
    if key.bytes().all(|byte| byte == b'=') {
        return Err(
            "has no key after its name: write name=key, with the name also before a key \
                    that ends in ="
                .to_owned(),
        );
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > MAX_CLIENT_CHARS || !name.chars().all(plain) {
        return Err(format!(
            "has a bad name: use 1 to {MAX_CLIENT_CHARS} letters, digits, dots, hyphens and \
             underscores"
        ));
    }
    Ok(ApiKey {
        name: name.to_owned(),
        key: SecretString::from(key),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let keys = parse_api_keys(text).unwrap();
        keys.into_iter()
            .map(|key| (key.name, key.key.expose_secret().to_owned()))
            .collect()
    }

    #[test]
    fn keys_have_names_or_get_one() {
        let expected = [
            ("shop", "k1"),
            ("shop", "k2"),
            ("default", "k3"),
            ("b64", "ab=="),
        ];
        let expected: Vec<_> = expected
            .map(|(name, key)| (name.to_owned(), key.to_owned()))
            .into_iter()
            .collect();
        assert_eq!(pairs("shop=k1, shop=k2 ,k3,b64=ab=="), expected);
    }

    #[test]
    fn bad_keys_are_told_by_their_place_and_not_shown() {
        for (text, hint) in [
            ("a=zq1,", "entry 2, which is empty"),
            (",a=zq1", "entry 1, which is empty"),
            ("a=zq1,,b=zq2", "entry 2, which is empty"),
            ("a=", "has no key after its name"),
            ("enpxMQ==", "also before a key that ends in ="),
            ("=zq1", "bad name"),
            ("a b=zq1", "bad name"),
            ("a=zq1,b=zq1", "same key in entries 1 and 2"),
            ("a=zq1,a=zq1", "same key in entries 1 and 2"),
            ("a=zq 1", "blank"),
            ("a=zqé", "beyond ASCII"),
        ] {
            let problem = parse_api_keys(text).unwrap_err();
            assert!(problem.contains(hint), "{text}: {problem}");
            assert!(
                !problem.contains("zq") && !problem.contains("enpx"),
                "{problem}"
            );
        }
    }
}
