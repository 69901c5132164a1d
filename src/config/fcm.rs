//! The push channel: Firebase Cloud Messaging, HTTP v1.
//!
//! - `GOOGLE_APPLICATION_CREDENTIALS`: path of a service-account key; unset: push is off, unless
//!   `FCM_BASE_URL` is set, and then requests carry no authorization
//! - `FCM_PROJECT_ID`: the Firebase project; unset: the one that the key names
//! - `FCM_BASE_URL`: of FCM, without the `/v1`

use std::fs::File;
use std::io::Read as _;

use url::Url;

use super::channels::{base_url, leaves_in_the_clear};
use super::reader::{Faulty, Reader};
use super::variables;
use crate::provider::fcm::{KeyError, ServiceAccount};

/// Many times what a key has; what is larger is something else.
const MAX_KEY_FILE_BYTES: u64 = 64 * 1024;

/// Where FCM itself is: nothing is taken there without an access token.
const GOOGLES_HOST: &str = "fcm.googleapis.com";

/// The push channel's settings.
#[derive(Debug, Clone)]
pub struct FcmConfig {
    /// Without user info, query and fragment.
    pub base_url: Url,
    /// The Firebase project, as it stands in the request path.
    pub project_id: String,
    /// In whose name pushes are sent; `None`: requests carry no authorization.
    pub account: Option<ServiceAccount>,
}

impl FcmConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Faulty> {
        let base_url = reader.required(variables::FCM_BASE_URL, base_url);
        let project_id = reader.optional(variables::FCM_PROJECT_ID, project_id);
        let account = reader.optional(variables::GOOGLE_APPLICATION_CREDENTIALS, service_account);
        let (base_url, project_id, account) = (base_url?, project_id?, account?);
        if account.is_none() && !reader.is_set(variables::FCM_BASE_URL) {
            return match project_id {
                None => Ok(None),
                Some(_) => Err(reader.fault(
                    variables::GOOGLE_APPLICATION_CREDENTIALS,
                    "is not set although FCM_PROJECT_ID is: give the path of a service-account \
                     key, or unset both to turn push off",
                )),
            };
        }
        let project_id = match project_id {
            Some(project_id) => project_id,
            None => project_of(reader, account.as_ref())?,
        };
        match &account {
            Some(account) => warn_of_clear_text(reader, &base_url, account),
            None if base_url.host_str() == Some(GOOGLES_HOST) => reader.warn(
                "FCM takes no push without authorization: set GOOGLE_APPLICATION_CREDENTIALS",
            ),
            None => {}
        }
        Ok(Some(Self {
            base_url,
            project_id,
            account,
        }))
    }
}

fn project_of(reader: &mut Reader<'_>, account: Option<&ServiceAccount>) -> Result<String, Faulty> {
    let Some(account) = account else {
        return Err(reader.fault(
            variables::FCM_PROJECT_ID,
            "is not set although FCM_BASE_URL is: set it too, or unset both to turn push off",
        ));
    };
    match account.project_id().map(project_id) {
        Some(Ok(project_id)) => Ok(project_id),
        _ => Err(reader.fault(
            variables::FCM_PROJECT_ID,
            "is not set, and the key of GOOGLE_APPLICATION_CREDENTIALS names no project: copy the \
             project id from the Firebase console",
        )),
    }
}

fn warn_of_clear_text(reader: &mut Reader<'_>, base_url: &Url, account: &ServiceAccount) {
    if leaves_in_the_clear(base_url) {
        reader.warn("the access token of FCM is sent unencrypted: use an https FCM_BASE_URL");
    }
    if leaves_in_the_clear(account.token_uri()) {
        reader.warn(
            "the key of GOOGLE_APPLICATION_CREDENTIALS has a token_uri without https: the access \
             token comes unencrypted",
        );
    }
}

fn service_account(path: &str) -> Result<ServiceAccount, String> {
    const REMEDY: &str = "give the path of a service-account key, a JSON file from the Firebase \
                          console (Project settings, Service accounts)";
    if super::mask::holds_key(path) {
        return Err(format!(
            "is the key itself, not a path: save it in a file and {REMEDY}"
        ));
    }
    let text = read_key_file(path)
        .map_err(|problem| format!("is a file that cannot be used ({problem}): {REMEDY}"))?;
    ServiceAccount::parse(&text).map_err(|error| match error {
        KeyError::TokenUri => format!("{error}: download the key anew or write https://…"),
        _ => format!("{error}: {REMEDY}"),
    })
}

fn read_key_file(path: &str) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(MAX_KEY_FILE_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if u64::try_from(bytes).is_ok_and(|bytes| bytes <= MAX_KEY_FILE_BYTES) => {
            Ok(text)
        }
        Ok(_) => Err("it is larger than 64 KiB".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn project_id(text: &str) -> Result<String, String> {
    const MAX_CHARS: usize = 128;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if text.len() > MAX_CHARS || !text.chars().all(plain) {
        return Err(
            "is not a project id: copy it from the Firebase console, for example \
                    demo-project"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
