//! The dialects' own settings.

use super::*;

const TWILIO: [(&str, &str); 5] = [
    ("SMS_PROVIDER", "twilio"),
    ("SMS_BASE_URL", ""),
    ("SMS_FROM", "+15005550006"),
    ("TWILIO_ACCOUNT_SID", "AC00000000000000000000000000000001"),
    ("TWILIO_AUTH_TOKEN", "hidden"),
];
const SOLAPI: [(&str, &str); 5] = [
    ("SMS_PROVIDER", "solapi"),
    ("SMS_BASE_URL", ""),
    ("SMS_FROM", "02-1234-5678"),
    ("SOLAPI_API_KEY", "hidden"),
    ("SOLAPI_API_SECRET", "hidden"),
];
const SENS: [(&str, &str); 6] = [
    ("SMS_PROVIDER", "sens"),
    ("SMS_BASE_URL", ""),
    ("SMS_FROM", "02-1234-5678"),
    ("SENS_SERVICE_ID", "ncp:sms:kr:1:svc"),
    ("SENS_ACCESS_KEY", "hidden"),
    ("SENS_SECRET_KEY", "hidden"),
];

#[test]
fn each_dialect_is_read_whole() {
    let Some(SmsConfig::Twilio(settings)) = read(&TWILIO).sms else {
        panic!("no Twilio");
    };
    assert_eq!(settings.base_url.as_str(), "https://api.twilio.com/");
    assert_eq!(settings.from, "+15005550006");
    let Some(SmsConfig::Solapi(settings)) = read(&SOLAPI).sms else {
        panic!("no Solapi");
    };
    assert_eq!(settings.base_url.as_str(), "https://api.solapi.com/");
    assert_eq!(settings.from, "0212345678");
    let Some(SmsConfig::Sens(settings)) = read(&SENS).sms else {
        panic!("no SENS");
    };
    assert_eq!(settings.base_url.as_str(), "https://sens.apigw.ntruss.com/");
    assert_eq!(settings.from, "0212345678");
}

#[test]
fn what_is_missing_is_named_and_no_secret_is_shown() {
    for settings in [&TWILIO[..], &SOLAPI, &SENS] {
        let config = read(settings);
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
        let shown = format!("{config:?} {}", config.summary());
        assert!(!shown.contains("hidden"), "{shown}");
        for (missing, _) in settings.iter().skip(2) {
            let mut changed = settings.to_vec();
            changed.push((missing, ""));
            let faults = faults(&changed);
            assert_eq!(faults, format!("{missing} is not set"));
        }
    }
}

#[test]
fn wrong_values_are_named() {
    for (settings, name, value, hint) in [
        (&TWILIO[..], "TWILIO_ACCOUNT_SID", "SK123", "Twilio console"),
        (&TWILIO, "SMS_FROM", "+82", "+14155550123"),
        (&TWILIO, "SMS_FROM", "a-very-long-name", "+14155550123"),
        (&SOLAPI, "SMS_FROM", "+82212345678", "02-1234-5678"),
        (&SENS, "SENS_SERVICE_ID", "a/b", "ncp:sms:kr"),
    ] {
        let mut changed = settings.to_vec();
        changed.push((name, value));
        let faults = faults(&changed);
        assert!(faults.starts_with(&format!("{name}={value} ")), "{faults}");
        assert!(faults.contains(hint), "{faults}");
    }
}

#[test]
fn twilio_is_given_more_time() {
    let config = read(&TWILIO);
    assert_eq!(config.outbox.provider_timeout, Duration::from_secs(30));
    assert_eq!(config.outbox.lease, Duration::from_secs(45));
    let summary = config.summary().to_string();
    assert!(summary.contains("30000 (default)"), "{summary}");
    let mut own = TWILIO.to_vec();
    own.push(("PROVIDER_TIMEOUT_MS", "1000"));
    assert_eq!(read(&own).outbox.provider_timeout, Duration::from_secs(1));
    assert_eq!(read(&SENS).outbox.lease, Duration::from_secs(20));
}

#[test]
fn settings_of_another_dialect_are_warned_of() {
    let warnings = read(&[("SOLAPI_API_KEY", "hidden")]).warnings;
    assert_eq!(
        warnings,
        ["SOLAPI_API_KEY has no effect with this SMS_PROVIDER"]
    );
}
