//! A provider, its token endpoint and the proxy before it in one, that repeats what it is sent.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::http::{Method, StatusCode};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, dev::ServerHandle, web};
use serde_json::{Value, json};

use super::caller::PHONE;
use super::search;
use crate::support::wait::until;

/// What it grants.
pub const ACCESS_TOKEN: &str = "ya29.access-token-of-the-service-account";
/// What another message said, which is in every list.
pub const ANOTHERS: [&str; 2] = ["words-of-another", "55559876"];

/// How many different repetitions there are.
pub const VARIETY: usize = PIECES * SPELLINGS;
const PIECES: usize = 4;
const SPELLINGS: usize = 4;

/// How it answers; 0 of a look-up is a list that nobody can read.
pub struct Echo {
    pub address: String,
    pub send: AtomicU16,
    pub look_up: AtomicU16,
    pub token: AtomicU16,
    sent: AtomicUsize,
    looked_up: AtomicUsize,
    credentials: Mutex<Vec<String>>,
    stop: Mutex<Option<ServerHandle>>,
}

impl Echo {
    /// Accepts everything at first.
    pub fn start() -> Arc<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let echo = Arc::new(Self {
            address: listener.local_addr().unwrap().to_string(),
            send: AtomicU16::new(200),
            look_up: AtomicU16::new(404),
            token: AtomicU16::new(200),
            sent: AtomicUsize::new(0),
            looked_up: AtomicUsize::new(0),
            credentials: Mutex::default(),
            stop: Mutex::default(),
        });
        let data = web::Data::from(Arc::clone(&echo));
        let app = move || {
            App::new()
                .app_data(data.clone())
                .default_service(web::to(answer))
        };
        let server = HttpServer::new(app).workers(1).disable_signals();
        let server = server.listen(listener).unwrap().run();
        *echo.stop.lock().unwrap() = Some(server.handle());
        tokio::spawn(server);
        echo
    }

    /// Every credential that came in a header: keys, passwords, signatures.
    pub fn credentials(&self) -> Vec<String> {
        self.credentials.lock().unwrap().clone()
    }

    /// Answers look-ups so until `times` more were asked.
    pub async fn while_asked(&self, look_up: u16, times: usize) {
        self.look_up.store(look_up, Ordering::SeqCst);
        let enough = self.looked_up.load(Ordering::SeqCst) + times;
        until("it is asked", Duration::from_secs(60), async || {
            (self.looked_up.load(Ordering::SeqCst) >= enough).then_some(())
        })
        .await;
    }

    pub async fn stop(&self) {
        let server = self.stop.lock().unwrap().take();
        server.unwrap().stop(false).await;
    }

    /// The credentials of a request; remembers them.
    fn learn(&self, request: &HttpRequest) -> String {
        let values: Vec<&str> = request
            .headers()
            .iter()
            .filter(|(name, _)| {
                name.as_str().contains("auth") || name.as_str().starts_with("x-ncp")
            })
            .map(|(_, value)| value.to_str().unwrap())
            .collect();
        // Not the times, which the log has as well.
        let words = values.iter().flat_map(|value| value.split([' ', ',', '=']));
        let words = words.filter(|word| word.len() >= 16 && !word.contains(':'));
        let mut known = self.credentials.lock().unwrap();
        for word in words {
            if !known.iter().any(|known| known == word) {
                known.push(word.to_owned());
            }
        }
        values.join(" ")
    }
}

async fn answer(echo: web::Data<Echo>, request: HttpRequest, body: String) -> HttpResponse {
    let credentials = echo.learn(&request);
    let uri = request.uri().to_string();
    if uri.ends_with("/token") {
        return token(echo.token.load(Ordering::SeqCst), &body);
    }
    if request.method() == Method::GET {
        let n = echo.looked_up.fetch_add(1, Ordering::SeqCst);
        let words = spelled(n, &format!("{uri} {credentials}"));
        return look_up(echo.look_up.load(Ordering::SeqCst), &words);
    }
    let n = echo.sent.fetch_add(1, Ordering::SeqCst);
    let piece = match n % PIECES {
        0 => credentials,
        1 => body,
        2 => leaves(&body).join(" | "),
        _ => phones(),
    };
    send(
        n,
        echo.send.load(Ordering::SeqCst),
        &spelled(n / PIECES, &piece),
    )
}

fn token(status: u16, body: &str) -> HttpResponse {
    let body = match status {
        200 => json!({ "access_token": ACCESS_TOKEN, "expires_in": 3600 }),
        _ => json!({ "error": "invalid_grant", "error_description": format!("refused: {body}") }),
    };
    HttpResponse::build(StatusCode::from_u16(status).unwrap()).json(body)
}

fn look_up(status: u16, words: &str) -> HttpResponse {
    match status {
        0 => HttpResponse::Ok().json(json!({
            "messages": { "0": { "to": "+821055559876", "body": ANOTHERS[0] } },
            "messageList": ANOTHERS[0],
        })),
        // In the dialects that have lists, an empty one.
        404 => HttpResponse::NotFound().json(json!({})),
        200 => HttpResponse::Ok().json(json!({ "messages": [], "messageList": {} })),
        _ => refusal(status, words),
    }
}

fn send(n: usize, status: u16, words: &str) -> HttpResponse {
    match status {
        200 => HttpResponse::Ok().json(json!({
            "message_id": format!("m-{n}"), "sid": format!("SM{n}"),
            "requestId": format!("r-{n}"), "statusCode": "202",
            "messageList": [{ "messageId": format!("M{n}"), "statusCode": "2000" }],
            "name": format!("projects/p/messages/{n}"),
            "message": words,
        })),
        // Not the dialect's own words: from whatever stands before the provider.
        502 => HttpResponse::BadGateway().body(format!("refused: {words}")),
        _ => refusal(status, words),
    }
}

/// A refusal in the words of every dialect.
fn refusal(status: u16, words: &str) -> HttpResponse {
    let words = format!("refused: {words}");
    let name = match status {
        401 => "UNAUTHENTICATED",
        _ => "INVALID_ARGUMENT",
    };
    HttpResponse::build(StatusCode::from_u16(status).unwrap()).json(json!({
        "message": words, "errorCode": "ValidationError", "errorMessage": words,
        "error": { "message": words, "status": name },
    }))
}

/// The n-th way of writing a text.
fn spelled(n: usize, text: &str) -> String {
    match n % SPELLINGS {
        0 => text.to_owned(),
        1 => search::percent(text),
        2 => search::json(text),
        _ => text
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_string()
                } else {
                    format!("&#{};", u32::from(c))
                }
            })
            .collect(),
    }
}

/// The values of a JSON body or a form.
fn leaves(body: &str) -> Vec<String> {
    fn gather(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
            Value::Object(fields) => fields.values().for_each(|field| gather(field, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    match serde_json::from_str(body) {
        Ok(json) => gather(&json, &mut found),
        Err(_) => found.extend(
            url::form_urlencoded::parse(body.as_bytes()).map(|(_, value)| value.into_owned()),
        ),
    }
    found
}

fn phones() -> String {
    format!("{PHONE}, +821086429753; 821086429753, 01086429753, (+82) 10-8642-9753, 010.8642.9753")
}
