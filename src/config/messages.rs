//! What a payment request leaves open.
//!
//! - `DEFAULT_REGION`: ISO 3166 country that phone numbers without a country code are read in
//! - `DEFAULT_LOCALE`: `ko` or `en`, the language of texts when the request's has none

use super::reader::{Faulty, Reader};
use super::variables;
use crate::payment::Locale;
use crate::payment::recipient::Region;

/// Defaults of a request.
#[derive(Debug, Clone)]
pub struct MessageDefaults {
    /// Country of phone numbers without a country code.
    pub region: Region,
    /// Language of the texts.
    pub locale: Locale,
}

impl MessageDefaults {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Faulty> {
        let region = reader.required(variables::DEFAULT_REGION, parse_region);
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

fn parse_region(text: &str) -> Result<Region, String> {
    Region::parse(&text.to_ascii_uppercase())
        .map_err(|_| "is not a country: use two letters of ISO 3166, for example KR".to_owned())
}
