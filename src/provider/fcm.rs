//! Firebase Cloud Messaging, HTTP v1.
//!
//! FCM knows no idempotency key and cannot be asked about a message. What softens a repeat is the
//! notification's tag: a second copy replaces the first on the device instead of ringing twice.

use async_trait::async_trait;
use url::Url;

use crate::provider::client::{Client, endpoint};
use crate::provider::redact::Redactor;
use crate::provider::{LookUp, Message, Outcome, Provider};

mod answer;
mod message;

/// Which project the messages belong to, and where FCM is.
#[derive(Debug, Clone)]
pub struct FcmSettings {
    /// An http or https URL without the `/v1`.
    pub base_url: Url,
    /// The Firebase project's id.
    pub project_id: String,
}

/// Speaks to FCM on behalf of one project.
pub struct Fcm {
    send_url: Url,
    client: Client,
}

impl Fcm {
    /// An adapter for the project of these settings. It sends no Authorization header.
    pub fn new(settings: &FcmSettings, client: Client) -> Self {
        let path = ["v1", "projects", &settings.project_id, "messages:send"];
        Self {
            send_url: endpoint(&settings.base_url, &path),
            client,
        }
    }
}

#[async_trait]
impl Provider for Fcm {
    fn name(&self) -> &'static str {
        "fcm"
    }

    async fn send(&self, message: &Message) -> Outcome {
        let body = message::SendRequest::new(message);
        let result = self
            .client
            .call(|http| http.post(self.send_url.clone()).json(&body));
        match result.await {
            Ok(reply) => answer::judge(&reply, || Redactor::for_message(message)),
            Err(failure) => failure.outcome(&Redactor::for_message(message)),
        }
    }

    async fn look_up(&self, _message: &Message) -> LookUp {
        LookUp::Unsupported
    }
}

#[cfg(test)]
mod tests;
