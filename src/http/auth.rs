//! Who is asking: API keys of clients, and the operator's token.
//!
//! Secrets are compared as SHA-256 digests in constant time, and against every known one, so that
//! neither length, nor content, nor position of a key can be timed.

use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::problem::Problem;

/// Name of the client when no keys are configured and everybody may post.
pub const ANONYMOUS: &str = "";

/// SHA-256 of a secret.
type Fingerprint = [u8; 32];

/// The API keys of the clients.
#[derive(Clone)]
pub struct ApiKeys {
    keys: Vec<(String, Fingerprint)>,
}

/// The token that opens the admin routes.
#[derive(Clone)]
pub struct AdminToken {
    token: Fingerprint,
}

impl ApiKeys {
    /// Keys with the names of their clients; several may share a name. None: everybody is
    /// [`ANONYMOUS`].
    pub fn new(keys: &[(String, SecretString)]) -> Self {
        let digested = |(name, key): &(String, SecretString)| (name.clone(), digest(key));
        Self {
            keys: keys.iter().map(digested).collect(),
        }
    }

    /// The name of the client whose key the request carries.
    ///
    /// # Errors
    /// [`Problem::Unauthorized`] without credentials, with wrong ones, or with several.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<&str, Problem> {
        if self.keys.is_empty() {
            return Ok(ANONYMOUS);
        }
        let given = bearer(headers).ok_or(Problem::Unauthorized)?;
        let mut client = None;
        for (name, key) in &self.keys {
            // No early exit: every key is compared, whichever fits.
            if bool::from(key.ct_eq(&given)) {
                client = client.or(Some(name.as_str()));
            }
        }
        client.ok_or(Problem::Unauthorized)
    }
}

impl AdminToken {
    /// The configured token.
    pub fn new(token: &SecretString) -> Self {
        Self {
            token: digest(token),
        }
    }

    /// Lets through a request that carries the token.
    ///
    /// # Errors
    /// [`Problem::Unauthorized`] without credentials, with wrong ones, or with several.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let fits = bearer(headers).map_or(Choice::from(0), |given| self.token.ct_eq(&given));
        if bool::from(fits) {
            Ok(())
        } else {
            Err(Problem::Unauthorized)
        }
    }
}

fn digest(secret: &SecretString) -> Fingerprint {
    Sha256::digest(secret.expose_secret().as_bytes()).into()
}

/// Digest of the one bearer token of a request (RFC 6750, 2.1; the scheme's case does not matter).
fn bearer(headers: &HeaderMap) -> Option<Fingerprint> {
    let mut values = headers.get_all(AUTHORIZATION);
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty())
        .then(|| Sha256::digest(token).into())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    fn keys() -> ApiKeys {
        ApiKeys::new(&[
            ("shop".to_owned(), SecretString::from("key-one")),
            ("shop".to_owned(), SecretString::from("key-one-new")),
            ("club".to_owned(), SecretString::from("key-two")),
        ])
    }

    #[test]
    fn a_key_names_its_client() {
        for (value, client) in [
            ("Bearer key-one", "shop"),
            ("Bearer key-one-new", "shop"),
            ("bearer key-two", "club"),
            ("BEARER   key-two", "club"),
        ] {
            let keys = keys();
            assert_eq!(keys.authenticate(&headers(&[value.as_bytes()])), Ok(client));
        }
    }

    #[test]
    fn anything_else_is_unauthorized() {
        let refused: [&[&[u8]]; 13] = [
            &[],
            &[b""],
            &[b"Bearer"],
            &[b"Bearer "],
            &[b"key-one"],
            &[b"Basic key-one"],
            &[b"Bearerkey-one"],
            &[b"Bearer key-on"],
            &[b"Bearer key-onee"],
            &[b"Bearer KEY-ONE"],
            &[b"Bearer key-one key-two"],
            &[b"Bearer key-\xff\xfe"],
            &[b"Bearer key-one", b"Bearer key-one"],
        ];
        for values in refused {
            let headers = headers(values);
            assert_eq!(
                keys().authenticate(&headers),
                Err(Problem::Unauthorized),
                "{values:?}"
            );
        }
    }

    #[test]
    fn without_keys_everybody_is_anonymous() {
        let open = ApiKeys::new(&[]);
        assert_eq!(open.authenticate(&headers(&[])), Ok(ANONYMOUS));
        assert_eq!(open.authenticate(&headers(&[b"Bearer x"])), Ok(ANONYMOUS));
    }

    #[test]
    fn the_admin_token_opens_and_nothing_else_does() {
        let admin = AdminToken::new(&SecretString::from("0123456789abcdef"));
        assert_eq!(
            admin.authenticate(&headers(&[b"Bearer 0123456789abcdef"])),
            Ok(())
        );
        let refused: [&[&[u8]]; 4] = [
            &[],
            &[b"Bearer 0123456789abcde"],
            &[b"Bearer key-one"],
            &[b"Bearer 0123456789abcdef", b"Bearer 0123456789abcdef"],
        ];
        for values in refused {
            assert_eq!(
                admin.authenticate(&headers(values)),
                Err(Problem::Unauthorized)
            );
        }
    }
}
