//! The SMS channel.
//!
//! - `SMS_PROVIDER`: the dialect: `http`, `twilio`, `solapi` or `sens`
//! - `SMS_BASE_URL`: of the gateway; with `http` unset: SMS is off; else the provider's own
//! - `SMS_FROM`: sender of text messages; required but for `http`
//! - `SMS_API_KEY`: bearer token of the `http` gateway
//! - `TWILIO_ACCOUNT_SID`, `TWILIO_AUTH_TOKEN`: required with `twilio`
//! - `SOLAPI_API_KEY`, `SOLAPI_API_SECRET`: required with `solapi`
//! - `SENS_SERVICE_ID`, `SENS_ACCESS_KEY`, `SENS_SECRET_KEY`: required with `sens`

use secrecy::SecretString;
use url::Url;

use super::channels::{base_url, leaves_in_the_clear, plain_text};
use super::reader::{Faulty, Reader, visible_ascii};
use super::variables::{self, Variable};
use crate::provider::sms::http::HttpSmsSettings;
use crate::provider::sms::sens::{SENS_BASE_URL, SensSettings};
use crate::provider::sms::solapi::{SOLAPI_BASE_URL, SolapiSettings};
use crate::provider::sms::twilio::{TWILIO_BASE_URL, TwilioSettings};

/// The SMS channel, one variant per dialect.
#[derive(Debug, Clone)]
pub enum SmsConfig {
    /// The generic JSON gateway.
    Http(HttpSmsSettings),
    /// Twilio Messages.
    Twilio(TwilioSettings),
    /// Solapi.
    Solapi(SolapiSettings),
    /// Naver Cloud SENS.
    Sens(SensSettings),
}

/// A dialect by its name in `SMS_PROVIDER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Http,
    Twilio,
    Solapi,
    Sens,
}

/// Every variable that belongs to one dialect alone.
const OWN: [(Dialect, Variable); 8] = [
    (Dialect::Http, variables::SMS_API_KEY),
    (Dialect::Twilio, variables::TWILIO_ACCOUNT_SID),
    (Dialect::Twilio, variables::TWILIO_AUTH_TOKEN),
    (Dialect::Solapi, variables::SOLAPI_API_KEY),
    (Dialect::Solapi, variables::SOLAPI_API_SECRET),
    (Dialect::Sens, variables::SENS_SERVICE_ID),
    (Dialect::Sens, variables::SENS_ACCESS_KEY),
    (Dialect::Sens, variables::SENS_SECRET_KEY),
];

impl SmsConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Faulty> {
        let dialect = reader.required(variables::SMS_PROVIDER, parse_dialect)?;
        warn_of_others(reader, dialect);
        let config = match dialect {
            Dialect::Http => return read_http(reader),
            Dialect::Twilio => read_twilio(reader)?,
            Dialect::Solapi => read_solapi(reader)?,
            Dialect::Sens => read_sens(reader)?,
        };
        Ok(Some(config))
    }
}

fn read_http(reader: &mut Reader<'_>) -> Result<Option<SmsConfig>, Faulty> {
    let base_url = reader.optional(variables::SMS_BASE_URL, base_url);
    let from = reader.optional(variables::SMS_FROM, plain_text);
    let api_key = reader.optional(variables::SMS_API_KEY, secret);
    let (base_url, from, api_key) = (base_url?, from?, api_key?);
    let Some(base_url) = base_url else {
        if from.is_some() || api_key.is_some() {
            reader.warn("SMS_FROM and SMS_API_KEY have no effect without SMS_BASE_URL: SMS is off");
        }
        return Ok(None);
    };
    if api_key.is_some() && leaves_in_the_clear(&base_url) {
        reader.warn("SMS_API_KEY is sent unencrypted: use an https SMS_BASE_URL");
    }
    Ok(Some(SmsConfig::Http(HttpSmsSettings {
        base_url,
        from,
        api_key,
    })))
}

fn read_twilio(reader: &mut Reader<'_>) -> Result<SmsConfig, Faulty> {
    let base_url = vendor_url(reader, TWILIO_BASE_URL);
    let account_sid = reader.required(variables::TWILIO_ACCOUNT_SID, account_sid);
    let auth_token = reader.required(variables::TWILIO_AUTH_TOKEN, secret);
    let from = reader.required(variables::SMS_FROM, twilio_sender);
    Ok(SmsConfig::Twilio(TwilioSettings {
        base_url: base_url?,
        account_sid: account_sid?,
        auth_token: auth_token?,
        from: from?,
    }))
}

fn read_solapi(reader: &mut Reader<'_>) -> Result<SmsConfig, Faulty> {
    let base_url = vendor_url(reader, SOLAPI_BASE_URL);
    let api_key = reader.required(variables::SOLAPI_API_KEY, secret);
    let api_secret = reader.required(variables::SOLAPI_API_SECRET, secret);
    let from = reader.required(variables::SMS_FROM, korean_sender);
    Ok(SmsConfig::Solapi(SolapiSettings {
        base_url: base_url?,
        api_key: api_key?,
        api_secret: api_secret?,
        from: from?,
    }))
}

fn read_sens(reader: &mut Reader<'_>) -> Result<SmsConfig, Faulty> {
    let base_url = vendor_url(reader, SENS_BASE_URL);
    let service_id = reader.required(variables::SENS_SERVICE_ID, service_id);
    let access_key = reader.required(variables::SENS_ACCESS_KEY, secret);
    let secret_key = reader.required(variables::SENS_SECRET_KEY, secret);
    let from = reader.required(variables::SMS_FROM, korean_sender);
    Ok(SmsConfig::Sens(SensSettings {
        base_url: base_url?,
        service_id: service_id?,
        access_key: access_key?,
        secret_key: secret_key?,
        from: from?,
    }))
}

/// The provider's own address, unless another is set.
fn vendor_url(reader: &mut Reader<'_>, own: &str) -> Result<Url, Faulty> {
    let set = reader.optional(variables::SMS_BASE_URL, base_url)?;
    let url = match set {
        Some(url) => url,
        None => {
            return base_url(own).map_err(|fault| reader.fault(variables::SMS_BASE_URL, &fault));
        }
    };
    if leaves_in_the_clear(&url) {
        reader.warn("text messages are sent unencrypted: use an https SMS_BASE_URL");
    }
    Ok(url)
}

/// Settings of a dialect that is not spoken are probably a forgotten `SMS_PROVIDER`.
fn warn_of_others(reader: &mut Reader<'_>, dialect: Dialect) {
    for (other, variable) in OWN {
        if other != dialect && reader.text(variable).is_some() {
            reader.warn(format!(
                "{} has no effect with this SMS_PROVIDER",
                variable.name()
            ));
        }
    }
}

fn parse_dialect(text: &str) -> Result<Dialect, String> {
    match text {
        "http" => Ok(Dialect::Http),
        "twilio" => Ok(Dialect::Twilio),
        "solapi" => Ok(Dialect::Solapi),
        "sens" => Ok(Dialect::Sens),
        _ => Err("is not a provider: use http, twilio, solapi or sens".to_owned()),
    }
}

fn secret(text: &str) -> Result<SecretString, String> {
    visible_ascii(text).map(SecretString::from)
}

fn account_sid(text: &str) -> Result<String, String> {
    let id = text.strip_prefix("AC").unwrap_or_default();
    if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(text.to_owned())
    } else {
        Err(
            "is not an account SID: copy it from the Twilio console, AC and 32 hexadecimal digits"
                .to_owned(),
        )
    }
}

fn service_id(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '_' | '.');
    if text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(
            "is not a service id: copy it from the console, for example ncp:sms:kr:1:name"
                .to_owned(),
        )
    }
}

/// A number in E.164, a short code, or an alphanumeric sender.
fn twilio_sender(text: &str) -> Result<String, String> {
    let number = text.strip_prefix('+').is_some_and(|digits| {
        (7..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    let name = (1..=11).contains(&text.len())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || " +-_&".contains(c))
        && !text.starts_with('+');
    if number || name {
        Ok(text.to_owned())
    } else {
        Err(
            "is not a sender: write a number as +14155550123, or a name of 11 characters"
                .to_owned(),
        )
    }
}

/// A registered Korean sender, however it is spaced.
fn korean_sender(text: &str) -> Result<String, String> {
    let number: String = text.chars().filter(|c| !" -.()".contains(*c)).collect();
    if (7..=12).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(number)
    } else {
        Err(
            "is not a registered sender: write its digits as dialled in Korea, 02-1234-5678"
                .to_owned(),
        )
    }
}
