//! The dialects of text messages that the service speaks, each at the mock.

use std::collections::BTreeMap;

use paybell::provider::mock::{Mock, RunningMock, credentials};

use super::app::{Settings, TestApp};
use super::database::Database;
use super::wire::Wire;

/// What the mock makes of each dialect, with short leases.
pub fn dialects(settings: &Settings, mock: &RunningMock) -> [(&'static str, Settings); 4] {
    let short = settings.clone().with_short_leases();
    let at_root = short.clone().with("SMS_BASE_URL", mock.base_url());
    let korean = at_root.clone().with("SMS_FROM", credentials::KOREAN_FROM);
    [
        ("http", short),
        (
            "twilio",
            at_root
                .with("SMS_PROVIDER", "twilio")
                .with("SMS_FROM", credentials::TWILIO_FROM)
                .with("TWILIO_ACCOUNT_SID", credentials::TWILIO_ACCOUNT_SID)
                .with("TWILIO_AUTH_TOKEN", credentials::TWILIO_AUTH_TOKEN),
        ),
        (
            "solapi",
            korean
                .clone()
                .with("SMS_PROVIDER", "solapi")
                .with("SOLAPI_API_KEY", credentials::SOLAPI_API_KEY)
                .with("SOLAPI_API_SECRET", credentials::SOLAPI_API_SECRET),
        ),
        (
            "sens",
            korean
                .with("SMS_PROVIDER", "sens")
                .with("SENS_SERVICE_ID", credentials::SENS_SERVICE_ID)
                .with("SENS_ACCESS_KEY", credentials::SENS_ACCESS_KEY)
                .with("SENS_SECRET_KEY", credentials::SENS_SECRET_KEY),
        ),
    ]
}

/// The settings of a service that speaks the dialect.
pub fn in_dialect(settings: &Settings, mock: &RunningMock, dialect: &str) -> Settings {
    let all = dialects(settings, mock);
    let found = all.into_iter().find(|(name, _)| *name == dialect);
    found.expect("no such dialect").1
}

/// An app that speaks the dialect.
pub async fn speaking(database: Database, dialect: &str) -> TestApp {
    speaking_with(database, dialect, |settings| settings).await
}

/// An app that speaks the dialect, with settings of its own.
pub async fn speaking_with(
    database: Database,
    dialect: &str,
    adjust: impl FnOnce(Settings) -> Settings,
) -> TestApp {
    let mock = Mock::start(([127, 0, 0, 1], 0).into()).unwrap();
    let settings = in_dialect(&Settings::new(&database, &mock), &mock, dialect);
    TestApp::start_over(database, mock, adjust(settings)).await
}

/// The same service, speaking to the mock's SMS providers over the wire.
pub fn over_wire(settings: Settings, mock: &RunningMock, wire: &Wire) -> Settings {
    let base = &settings.0["SMS_BASE_URL"];
    let base = base.replace(&mock.addr().to_string(), &wire.addr.to_string());
    settings.with("SMS_BASE_URL", base)
}

/// How many messages each recipient got. Numbers are as they are dialled in Korea, whatever the
/// dialect writes.
pub fn arrived(mock: &RunningMock) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for message in mock.messages() {
        *times.entry(national(&message.to)).or_default() += 1;
    }
    times
}

/// A Korean number as it is dialled there; anything else as it is.
pub fn national(recipient: &str) -> String {
    match recipient.strip_prefix("+82") {
        Some(rest) => format!("0{rest}"),
        None => recipient.to_owned(),
    }
}
