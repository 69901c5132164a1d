//! The table of every variable that the program reads.
//!
//! A [`Variable`] cannot be made elsewhere, so nothing outside this table can be read, and
//! `.env.example` is tested against it.

/// How much of a value people may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// All of it.
    Plain,
    /// Nothing.
    Secret,
    /// A URL without its credentials.
    Url,
    /// `name=key` pairs without the keys.
    Keys,
    /// All of it, unless somebody put the secret file's content in its place.
    Path,
}

/// One environment variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    name: &'static str,
    default: Option<&'static str>,
    with_twilio: Option<&'static str>,
    shown: Shown,
}

impl Variable {
    /// Its name in the environment.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Its value when it is unset or empty, with the generic gateway.
    pub fn default(self) -> Option<&'static str> {
        self.default
    }

    /// Its default with this provider of text messages. Twilio may take 26 s for an answer.
    pub(super) fn default_with(self, sms_provider: Option<&str>) -> Option<&'static str> {
        match sms_provider {
            Some("twilio") => self.with_twilio.or(self.default),
            _ => self.default,
        }
    }

    pub(super) fn shown(self) -> Shown {
        self.shown
    }
}

macro_rules! variables {
    ($($name:ident $shown:ident $($default:literal)? $(, twilio $with_twilio:literal)?;)*) => {
        $(
            pub(super) const $name: Variable = Variable {
                name: stringify!($name),
                default: variables!(@default $($default)?),
                with_twilio: variables!(@default $($with_twilio)?),
                shown: Shown::$shown,
            };
        )*

        /// Every variable, in the order in which they are listed to people.
        pub const ALL: &[Variable] = &[$($name),*];
    };
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
}

variables! {
    DATABASE_URL Url "sqlite://paybell.db";
    DATABASE_MAX_CONNECTIONS Plain "8";
    DATABASE_TIMEOUT_MS Plain "5000";

    BIND_ADDR Plain "127.0.0.1:8080";
    API_KEYS Keys;
    ALLOW_UNAUTHENTICATED Plain "false";
    ADMIN_TOKEN Secret;

    DEFAULT_REGION Plain "KR";
    DEFAULT_LOCALE Plain "ko";

    SMS_PROVIDER Plain "http";
    SMS_BASE_URL Url;
    SMS_FROM Plain;
    SMS_API_KEY Secret;
    TWILIO_ACCOUNT_SID Plain;
    TWILIO_AUTH_TOKEN Secret;
    SOLAPI_API_KEY Secret;
    SOLAPI_API_SECRET Secret;
    SENS_SERVICE_ID Plain;
    SENS_ACCESS_KEY Secret;
    SENS_SECRET_KEY Secret;

    GOOGLE_APPLICATION_CREDENTIALS Path;
    FCM_PROJECT_ID Plain;
    FCM_BASE_URL Url "https://fcm.googleapis.com";

    PROVIDER_TIMEOUT_MS Plain "10000", twilio "30000";
    PROVIDER_PROXY Url;

    OUTBOX_LEASE_SECS Plain "20", twilio "45";
    OUTBOX_POLL_INTERVAL_MS Plain "1000";
    OUTBOX_BATCH_SIZE Plain "200";
    OUTBOX_QUEUE_CAPACITY Plain "1000";
    OUTBOX_MAX_IN_FLIGHT Plain "200";
    SMS_MAX_PER_SECOND Plain;
    FCM_MAX_PER_SECOND Plain;
    OUTBOX_MAX_ATTEMPTS Plain "20";
    OUTBOX_GIVE_UP_HOURS Plain "24";
    BACKOFF_BASE_MS Plain "1000";
    BACKOFF_MAX_MS Plain "600000";
    RETENTION_HOURS Plain "168";
    RETENTION_FAILED_HOURS Plain;
    SHUTDOWN_GRACE_SECS Plain "10";

    LOG_FORMAT Plain "text";
    RUST_LOG Plain "info";
}
