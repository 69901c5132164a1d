//! Firebase Cloud Messaging, HTTP v1.
//!
//! FCM knows no idempotency key and cannot be asked about a message. What softens a repeat is the
//! notification's tag: a second copy replaces the first on the device instead of ringing twice.

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::ExposeSecret;
use tokio::time::Instant;
use url::Url;

use crate::provider::client::{Client, Failure, Reply, endpoint};
use crate::provider::redact::Redactor;
use crate::provider::{LookUp, Message, Outcome, Provider};

mod answer;
mod exchange;
mod key;
mod message;
mod token;

pub use key::{KeyError, ServiceAccount};

pub(crate) use exchange::GRANT_TYPE;
pub(crate) use key::SCOPE;

use exchange::GoogleExchange;
use token::{Token, TokenError, Tokens};

/// Which project the messages belong to, where FCM is, and who asks.
#[derive(Debug, Clone)]
pub struct FcmSettings {
    /// An http or https URL without the `/v1`.
    pub base_url: Url,
    /// The Firebase project's id.
    pub project_id: String,
    /// In whose name requests are made; `None`: they carry no Authorization header.
    pub account: Option<ServiceAccount>,
}

/// Speaks to FCM on behalf of one project.
pub struct Fcm {
    send_url: Url,
    client: Arc<Client>,
    tokens: Option<Tokens>,
}

impl Fcm {
    /// An adapter for the project of these settings. It asks for an access token at the first send.
    pub fn new(settings: FcmSettings, client: Client) -> Self {
        let path = ["v1", "projects", &settings.project_id, "messages:send"];
        let client = Arc::new(client);
        let tokens = settings.account.map(|account| {
            Tokens::new(GoogleExchange {
                account,
                client: Arc::clone(&client),
            })
        });
        Self {
            send_url: endpoint(&settings.base_url, &path),
            client,
            tokens,
        }
    }

    async fn post(&self, message: &Message, token: Option<&Token>) -> Result<Reply, Failure> {
        let body = message::SendRequest::new(message);
        let call = self.client.call(|http| {
            let request = http.post(self.send_url.clone()).json(&body);
            match token {
                Some(token) => request.bearer_auth(token.secret.expose_secret()),
                None => request,
            }
        });
        call.await
    }

    /// Sends with a token, and once more with a new one when FCM does not take the first.
    async fn post_authorized(&self, message: &Message, tokens: &Tokens) -> Outcome {
        // Whatever comes before it takes from the time that a request needs.
        let latest = Instant::from_std(message.deadline) - self.client.timeout();
        let redactor = || Redactor::for_message(message);
        let token = match tokens.get(latest).await {
            Ok(token) => token,
            Err(error) => return error.outcome(&redactor()),
        };
        if Instant::now() > latest {
            return TokenError::TooLate.outcome(&redactor());
        }
        let first = self.post(message, Some(&token)).await;
        if !first.as_ref().is_ok_and(answer::refuses_token) {
            return judge(&first, message, Some(&token));
        }
        let token = match tokens.replace(&token, latest).await {
            Ok(token) => token,
            Err(TokenError::JustReplaced) => return judge(&first, message, Some(&token)),
            Err(error) => return error.outcome(&redactor()),
        };
        if Instant::now() > latest {
            return Outcome::Deferred {
                retry_after: None,
                answer: redactor().answer(
                    Some(401),
                    "access token renewed; too late to send again in this lease",
                ),
            };
        }
        judge(
            &self.post(message, Some(&token)).await,
            message,
            Some(&token),
        )
    }
}

/// What an answer, or none, means.
fn judge(result: &Result<Reply, Failure>, message: &Message, token: Option<&Token>) -> Outcome {
    let redactor = || {
        let redactor = Redactor::for_message(message);
        match token {
            Some(token) => redactor.with_secret(token.secret.expose_secret()),
            None => redactor,
        }
    };
    match result {
        Ok(reply) => answer::judge(reply, redactor),
        Err(failure) => failure.outcome(&redactor()),
    }
}

#[async_trait]
impl Provider for Fcm {
    fn name(&self) -> &'static str {
        "fcm"
    }

    async fn send(&self, message: &Message) -> Outcome {
        match &self.tokens {
            Some(tokens) => self.post_authorized(message, tokens).await,
            None => judge(&self.post(message, None).await, message, None),
        }
    }

    async fn look_up(&self, _message: &Message) -> LookUp {
        LookUp::Unsupported
    }
}

#[cfg(test)]
mod tests;
