//! A Google service account's key: read and checked once, then used to sign.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

/// What the access token is for: sending, and nothing else of the project.
/// Source: <https://firebase.google.com/docs/cloud-messaging/send/v1-api>
pub(crate) const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";

/// Where keys that do not say it are exchanged.
/// Source: <https://developers.google.com/identity/protocols/oauth2/service-account>
const GOOGLE_TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

/// The only type of key that can sign for itself.
const SERVICE_ACCOUNT: &str = "service_account";

/// The longest life that Google gives a signed request for a token.
const ASSERTION_LIFE: TimeDelta = TimeDelta::hours(1);

/// A clock that is a little fast must not make a request from the future, which is refused.
const BACKDATED: TimeDelta = TimeDelta::seconds(10);

/// A service account that can ask for access tokens. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct ServiceAccount {
    project_id: Option<String>,
    client_email: String,
    key_id: Option<String>,
    token_uri: Url,
    /// The token URI as it is written, which a parsed URL need not be.
    audience: String,
    key: Arc<RsaKeyPair>,
}

/// Why a key cannot be used. The texts hold nothing of the key's content and continue a sentence
/// that begins with the name of its file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not the JSON of a key.
    #[error("is not the JSON of a service-account key (line {line}, column {column})")]
    NotJson {
        /// Counted from 1.
        line: usize,
        /// Counted from 1; 0 before the first character.
        column: usize,
    },
    /// A user's credentials, a federated identity, a client secret.
    #[error("is JSON of another kind: its type is not service_account")]
    WrongType,
    /// Some of what is needed is not there or is empty.
    #[error("lacks {0}")]
    Missing(String),
    /// Not a private key at all.
    #[error("has a private_key that is not a PEM block of a private key")]
    NotPem,
    /// A private key of another kind, a short one or a damaged one.
    #[error("has a private_key that is not an RSA key of 2048 bits or more, or is damaged")]
    NotRsa,
    /// Nowhere to ask.
    #[error("has a token_uri that is not an http or https URL")]
    TokenUri,
}

/// A request for a token could not be signed.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the request for an access token could not be signed")]
pub struct SigningError;

#[derive(Deserialize)]
struct KeyFile {
    #[serde(rename = "type")]
    kind: Option<String>,
    project_id: Option<String>,
    private_key_id: Option<String>,
    private_key: Option<String>,
    client_email: Option<String>,
    token_uri: Option<String>,
}

impl ServiceAccount {
    /// Reads the text of a key file as the Firebase console makes it.
    ///
    /// # Errors
    ///
    /// When it is not the key of a service account, or not a whole one.
    pub fn parse(json: &str) -> Result<Self, KeyError> {
        // serde's own text may quote the content: only the place is told.
        let file: KeyFile =
            serde_json::from_str(json.trim_start_matches('\u{feff}')).map_err(|error| {
                KeyError::NotJson {
                    line: error.line(),
                    column: error.column(),
                }
            })?;
        if file
            .kind
            .as_deref()
            .is_some_and(|kind| kind != SERVICE_ACCOUNT)
        {
            return Err(KeyError::WrongType);
        }
        file.check()
    }

    /// The project that the key belongs to, if it says so.
    pub fn project_id(&self) -> Option<&str> {
        self.project_id.as_deref()
    }

    /// Where the key is exchanged for an access token.
    pub fn token_uri(&self) -> &Url {
        &self.token_uri
    }

    /// A signed request for an access token, good for an hour: a JSON Web Token, RS256.
    ///
    /// # Errors
    ///
    /// When the system gives no randomness.
    pub(super) fn assertion(&self, now: DateTime<Utc>) -> Result<SecretString, SigningError> {
        let mut header = json!({ "alg": "RS256", "typ": "JWT" });
        if let Some(key_id) = &self.key_id {
            header["kid"] = Value::from(key_id.as_str());
        }
        let issued = now - BACKDATED;
        let claims = json!({
            "iss": self.client_email,
            "scope": SCOPE,
            "aud": self.audience,
            "iat": issued.timestamp(),
            "exp": (issued + ASSERTION_LIFE).timestamp(),
        });
        let mut token = format!("{}.{}", encoded(&header), encoded(&claims));
        let mut signature = vec![0; self.key.public().modulus_len()];
        self.key
            .sign(
                &RSA_PKCS1_SHA256,
                &SystemRandom::new(),
                token.as_bytes(),
                &mut signature,
            )
            .map_err(|_| SigningError)?;
        token.push('.');
        BASE64_URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token.into())
    }
}

impl KeyFile {
    fn check(self) -> Result<ServiceAccount, KeyError> {
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let (kind, client_email) = (given(self.kind), given(self.client_email));
        let private_key = given(self.private_key);
        let missing = [
            ("type", kind.is_none()),
            ("client_email", client_email.is_none()),
            ("private_key", private_key.is_none()),
        ];
        let (Some(_), Some(client_email), Some(private_key)) = (kind, client_email, private_key)
        else {
            let names = missing.iter().filter(|(_, missing)| *missing);
            let names: Vec<_> = names.map(|(name, _)| *name).collect();
            return Err(KeyError::Missing(names.join(" and ")));
        };
        let audience = given(self.token_uri).unwrap_or_else(|| GOOGLE_TOKEN_URI.to_owned());
        Ok(ServiceAccount {
            project_id: given(self.project_id),
            client_email,
            key_id: given(self.private_key_id),
            token_uri: parse_token_uri(&audience)?,
            audience,
            key: Arc::new(parse_private_key(&private_key)?),
        })
    }
}

fn parse_token_uri(text: &str) -> Result<Url, KeyError> {
    let url = Url::parse(text).map_err(|_| KeyError::TokenUri)?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err(KeyError::TokenUri),
    }
}

fn parse_private_key(pem: &str) -> Result<RsaKeyPair, KeyError> {
    // Keys that went through a shell or a CI variable often have their line breaks written out.
    let pem = pem.replace("\\r", "").replace("\\n", "\n");
    let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| KeyError::NotPem)?;
    let key = match &der {
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        _ => return Err(KeyError::NotRsa),
    };
    key.map_err(|_| KeyError::NotRsa)
}

fn encoded(part: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(part.to_string())
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccount").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
