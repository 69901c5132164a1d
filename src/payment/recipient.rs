//! Whom a notification goes to. A [`Recipient`] never shows itself in full by accident: printing
//! it in any way prints it masked, and only [`Recipient::as_str`] gives it away.

mod mask;
mod phone;

use std::fmt;

pub use mask::mask;
pub use phone::{Region, UnknownRegion};

/// Longest FCM registration token taken, in characters. Google states no limit; tokens seen are
/// below 300 characters, and a message is at most 4,096 bytes.
pub const MAX_TOKEN_CHARS: usize = 4096;

/// A phone number in E.164 or an FCM registration token, ready for the provider.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Recipient(String);

/// Why a recipient was refused. The text shows at most the masked form of what was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecipientError {
    /// Nothing was given.
    #[error("must not be empty")]
    Empty,
    /// There is something in it that no spelling of a phone number has (letters, an extension).
    #[error(
        "{0} is not a phone number: give digits only, without an extension, such as \
         010-1234-5678 or +821012345678"
    )]
    NotANumber(String),
    /// A number of a kind that cannot get SMS, or that nobody can have.
    #[error(
        "{0} is not a mobile number that can receive SMS; a number from abroad needs its country \
         code, such as +14155550123"
    )]
    NotMobile(String),
    /// Not the form of an FCM registration token.
    #[error(
        "is not an FCM registration token: it must be 1 to {max} visible ASCII characters without \
         spaces",
        max = MAX_TOKEN_CHARS
    )]
    NotAToken,
}

impl Recipient {
    /// A phone number in any common spelling, kept as E.164.
    ///
    /// Spaces, dots, hyphens, slashes and brackets are skipped, full-width digits and the prefix
    /// `00` understood, and a number without a country code is read in `region`.
    ///
    /// # Errors
    /// [`RecipientError`] when it is not a number that can receive SMS.
    pub fn phone(text: &str, region: Region) -> Result<Self, RecipientError> {
        phone::normalise(text, region).map(Self)
    }

    /// An FCM registration token, opaque but for its alphabet.
    ///
    /// # Errors
    /// [`RecipientError::NotAToken`] when it is empty, longer than [`MAX_TOKEN_CHARS`] or has
    /// anything but visible ASCII.
    pub fn fcm_token(text: &str) -> Result<Self, RecipientError> {
        let plausible = (1..=MAX_TOKEN_CHARS).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        if plausible {
            Ok(Self(text.to_owned()))
        } else {
            Err(RecipientError::NotAToken)
        }
    }

    /// A recipient that was checked before it was stored.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// The recipient in full, for the database and the provider only.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form that people may see: `+82*****5678`.
    pub fn masked(&self) -> String {
        mask(&self.0)
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_visible_ascii_of_bounded_length() {
        let longest = "x".repeat(MAX_TOKEN_CHARS);
        for token in ["a", "fZ3:APA91b-_x.~%+=/", &longest] {
            assert_eq!(Recipient::fcm_token(token).unwrap().as_str(), token);
        }
        let too_long = "x".repeat(MAX_TOKEN_CHARS + 1);
        for token in [
            "",
            " ",
            "a b",
            "a\n",
            "tok\u{0}en",
            "tökén",
            "\u{7f}",
            &too_long,
        ] {
            assert_eq!(
                Recipient::fcm_token(token),
                Err(RecipientError::NotAToken),
                "{token:?}"
            );
        }
    }

    #[test]
    fn printing_never_shows_it_in_full() {
        let phone = Recipient::phone("010-1234-5678", Region::KR).unwrap();
        assert_eq!(phone.as_str(), "+821012345678");
        assert_eq!(format!("{phone} {phone:?}"), "+82*****5678 +82*****5678");
        let token = Recipient::stored("secret-token-abcd".to_owned());
        assert_eq!(format!("{token:?}"), "*****abcd");
    }

    #[test]
    fn errors_never_show_the_number_in_full() {
        for text in ["02-973-3456", "+82 2 973 3456", "my number is 01097321111"] {
            let error = Recipient::phone(text, Region::KR).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("973"), "{shown}");
        }
    }
}
