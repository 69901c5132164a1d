//! What a request says about who we are, so that it can be hidden when it comes back.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use reqwest::Request;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// Shorter words of a header are names and schemes; a credential that is shorter is hidden by the
/// adapter that knows it.
const MIN_WORD_CHARS: usize = 16;

/// A shorter user name is a common word, and says little without its password.
const MIN_USER_CHARS: usize = 8;

/// The credentials of one request. `Debug` does not show them.
#[derive(Debug, Clone, Default)]
pub struct Credentials(Vec<SecretString>);

impl Credentials {
    /// Of a proxy's URL: the password, the user name and the header that is made of both.
    pub(super) fn of_proxy(proxy: Option<&Url>) -> Self {
        let Some(url) = proxy else {
            return Self::default();
        };
        let user = unescaped(url.username());
        let mut words = Vec::new();
        if let Some(password) = url.password().map(unescaped) {
            words.push(BASE64_STANDARD.encode(format!("{user}:{password}")));
            words.push(password);
        } else if !user.is_empty() {
            words.push(BASE64_STANDARD.encode(format!("{user}:")));
        }
        if words.len() < 2 || user.len() >= MIN_USER_CHARS {
            words.push(user);
        }
        words.retain(|word| !word.is_empty());
        Self(words.into_iter().map(SecretString::from).collect())
    }

    /// These, and the words of the request's headers that are marked as sensitive: keys, encoded
    /// passwords, signatures.
    pub(super) fn and_of(mut self, request: &Request) -> Self {
        let sensitive = request
            .headers()
            .values()
            .filter(|value| value.is_sensitive())
            .filter_map(|value| value.to_str().ok());
        let words = sensitive
            .flat_map(|value| value.split([' ', ',', '=']))
            .filter(|word| word.len() >= MIN_WORD_CHARS);
        self.0.extend(words.map(SecretString::from));
        self
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(ExposeSecret::expose_secret)
    }
}

/// User info as it is sent.
fn unescaped(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use reqwest::header::{AUTHORIZATION, HeaderValue};

    use super::*;

    fn words(credentials: &Credentials) -> Vec<&str> {
        credentials.iter().collect()
    }

    #[test]
    fn a_proxys_credentials_are_known_in_every_form() {
        let table = [
            ("http://proxy:3128", vec![]),
            (
                "http://me:p%40ss+w&rd=@proxy",
                vec!["bWU6cEBzcyt3JnJkPQ==", "p@ss+w&rd="],
            ),
            (
                "http://somebody:pw@proxy",
                vec!["c29tZWJvZHk6cHc=", "pw", "somebody"],
            ),
            ("http://token@proxy", vec!["dG9rZW46", "token"]),
        ];
        for (proxy, expected) in table {
            let url = Url::parse(proxy).unwrap();
            let credentials = Credentials::of_proxy(Some(&url));
            assert_eq!(words(&credentials), expected, "{proxy}");
        }
        assert_eq!(words(&Credentials::of_proxy(None)), Vec::<&str>::new());
    }

    #[test]
    fn a_signature_is_known_and_the_scheme_is_not_hidden() {
        let mut value = HeaderValue::from_static(
            "HMAC-SHA256 apiKey=NCS0123456789ABC, salt=short, signature=00112233445566778899",
        );
        value.set_sensitive(true);
        let mut request = Request::new(reqwest::Method::GET, Url::parse("http://h").unwrap());
        request.headers_mut().insert(AUTHORIZATION, value);
        let open = HeaderValue::from_static("not-sensitive-at-all");
        request.headers_mut().insert("x-open", open);
        let credentials = Credentials::default().and_of(&request);
        assert_eq!(
            words(&credentials),
            ["NCS0123456789ABC", "00112233445566778899"]
        );
    }
}
