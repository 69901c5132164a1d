//! Answers read whole, and requests byte by byte.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// An answer with its whole body.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    /// Sends a request and reads its answer to the end.
    pub async fn to(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.expect("no answer");
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await.expect("half an answer").into(),
        }
    }

    /// The value of a header that is there once; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().map_or("", |value| value.to_str().unwrap());
        assert!(values.next().is_none(), "{name} is there twice");
        value
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is not UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {} {}", self.status, self.text()))
    }

    /// Checks that it is the problem `id` with everything that RFC 9457 and the clients want;
    /// returns its body.
    pub fn problem(&self, status: u16, id: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.header("cache-control"), "no-store");
        let problem = self.json();
        assert_eq!(problem["type"], format!("urn:paybell:problem:{id}"));
        assert_eq!(problem["status"], status);
        for field in ["title", "detail"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()));
        }
        problem
    }

    /// The pointers of its `errors`.
    pub fn pointers(&self) -> Vec<String> {
        let problem = self.json();
        let errors = problem["errors"].as_array().cloned().unwrap_or_default();
        errors
            .iter()
            .map(|error| {
                assert!(
                    error["detail"]
                        .as_str()
                        .is_some_and(|text| !text.is_empty())
                );
                error["pointer"].as_str().unwrap().to_owned()
            })
            .collect()
    }
}

/// A connection to the server at `base` (`http://ADDRESS`).
pub async fn connect(base: &str) -> TcpStream {
    let address = base.strip_prefix("http://").unwrap();
    TcpStream::connect(address).await.unwrap()
}

/// Sends raw bytes; everything that was answered until the server closed the connection.
pub async fn talk(base: &str, bytes: &[u8]) -> String {
    let mut stream = connect(base).await;
    stream.write_all(bytes).await.unwrap();
    rest(&mut stream).await
}

/// Everything that is still answered until the server closes the connection.
pub async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    timeout(Duration::from_secs(30), stream.read_to_end(&mut answer))
        .await
        .expect("the connection stays open")
        .expect("the connection was reset");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status in the first line of a raw answer; 0 when there is none.
pub fn status(raw: &str) -> u16 {
    let status = raw.split(' ').nth(1);
    status.and_then(|status| status.parse().ok()).unwrap_or(0)
}
