//! Push with a service account: the mock gives and checks access tokens.

use paybell::provider::mock::{Mock, RunningMock};
use tempfile::NamedTempFile;

use super::app::Settings;
use super::database::Database;

/// A mock whose FCM takes no request without a token of its token endpoint.
pub fn mock_with_tokens() -> RunningMock {
    let any_port = ([127, 0, 0, 1], 0).into();
    Mock::default().with_google_auth().run(any_port).unwrap()
}

/// The key that the mock gives to anybody, in a file.
pub fn key_file(mock: &RunningMock) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), mock.service_account()).unwrap();
    file
}

/// A service that signs its requests with the key.
pub fn with_key(database: &Database, mock: &RunningMock, key: &NamedTempFile) -> Settings {
    Settings::new(database, mock)
        .with("FCM_PROJECT_ID", "")
        .with("GOOGLE_APPLICATION_CREDENTIALS", key.path().display())
}
