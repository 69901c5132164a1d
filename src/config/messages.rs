//! What a payment request leaves open.
//!
//! - `DEFAULT_REGION`: ISO 3166 country that phone numbers without a country code are read in
//! - `DEFAULT_LOCALE`: `ko` or `en`, the language of texts when the request's has none

use std::fmt;

use super::reader::{Faulty, Reader};
use super::variables;
use crate::payment::Locale;

/// Defaults of a request.
#[derive(Debug, Clone)]
pub struct MessageDefaults {
    /// Country of phone numbers without a country code.
    pub region: Region,
    /// Language of the texts.
    pub locale: Locale,
}

/// A country that has phone numbers: two capitals, ISO 3166-1 alpha-2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region(String);

impl Region {
    /// The two capitals.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(text: &str) -> Result<Self, String> {
        let code = text.to_ascii_uppercase();
        match code.parse::<phonenumber::country::Id>() {
            Ok(_) => Ok(Self(code)),
            Err(_) => {
                Err("is not a country: use two letters of ISO 3166, for example KR".to_owned())
            }
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl MessageDefaults {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Faulty> {
        let region = reader.required(variables::DEFAULT_REGION, Region::parse);
        let locale = reader.required(variables::DEFAULT_LOCALE, |text| match text {
            "ko" => Ok(Locale::Ko),
            "en" => Ok(Locale::En),
            _ => Err("has no message texts: use ko or en".to_owned()),
        });
        Ok(Self {
            region: region?,
            locale: locale?,
        })
    }
}
