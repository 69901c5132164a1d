//! The accounts that the mock knows. They are no secrets: nothing real takes them.

/// Account of the Twilio dialect.
pub const TWILIO_ACCOUNT_SID: &str = "AC00000000000000000000000000000001";
/// Password of it.
pub const TWILIO_AUTH_TOKEN: &str = "mock-twilio-auth-token-000000001";
/// The only sender that the Twilio dialect takes: the number that Twilio keeps for tests.
pub const TWILIO_FROM: &str = "+15005550006";

/// Account of the Solapi dialect.
pub const SOLAPI_API_KEY: &str = "NCSMOCKSOLAPIKEY";
/// Signs its requests.
pub const SOLAPI_API_SECRET: &str = "MOCKSOLAPIAPISECRET0000000000001";

/// Service of the SENS dialect.
pub const SENS_SERVICE_ID: &str = "ncp:sms:kr:000000000001:paybell";
/// Account of it.
pub const SENS_ACCESS_KEY: &str = "MOCKSENSACCESSKEY001";
/// Signs its requests.
pub const SENS_SECRET_KEY: &str = "MOCKSENSSECRETKEY000000000000000000000001";

/// The only sender that is registered with the Korean dialects.
pub const KOREAN_FROM: &str = "0212345678";
