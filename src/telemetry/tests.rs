#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::*;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What `act` logs.
fn log_of(filter: &str, format: LogFormat, act: impl FnOnce()) -> String {
    let captured = Captured::default();
    let writer = captured.clone();
    let config = LogConfig {
        format,
        filter: filter.to_owned(),
    };
    let subscriber = subscriber(&config, move || writer.clone(), false).unwrap();
    {
        // Bridges `log` records, as `init` does.
        let _guard = subscriber.set_default();
        act();
    }
    let bytes = captured.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn say_everything() {
    tracing::debug!(target: "paybell::outbox", "own event");
    tracing::trace!(target: "paybell", "own trace");
    log::debug!(target: "paybell::store", "own record");
    tracing::info!(target: "hyper", "foreign event at info");
    log::info!(target: "tokio_postgres", "foreign record at info");
    tracing::debug!(target: "hyper::proto", "leaked event");
    tracing::trace!(target: "paybell_lookalike", "leaked lookalike");
    log::debug!(target: "tokio_postgres::query", "leaked values [48, 49, 48]");
    log::trace!(target: "tokio_postgres", "leaked trace");
    let _span = tracing::debug_span!(target: "h2", "leaked_span", key = 1).entered();
    tracing::info!(target: "paybell", "last");
}

#[test]
fn dependencies_never_log_below_info_whatever_the_filter() {
    for filter in [
        "trace",
        "debug,paybell=trace",
        "info,tokio_postgres=debug,hyper=trace,paybell=trace",
        "tokio_postgres::query=trace,hyper=info,paybell=trace,tokio_postgres=trace,h2=trace",
    ] {
        let log = log_of(filter, LogFormat::Text, say_everything);
        assert!(!log.contains("leaked"), "{filter}: {log}");
        for expected in [
            "own event",
            "own record",
            "event at info",
            "record at info",
            "last",
        ] {
            assert!(
                log.contains(expected),
                "{filter}: {expected} is missing in {log}"
            );
        }
    }
}

#[test]
fn the_filter_rules_below_the_cap() {
    let log = log_of("info", LogFormat::Text, say_everything);
    assert!(
        !log.contains("own event") && log.contains("record at info"),
        "{log}"
    );
    let log = log_of("warn,paybell=info", LogFormat::Text, say_everything);
    assert!(!log.contains("at info") && log.contains("last"), "{log}");
}

#[test]
fn a_json_line_has_time_level_target_message_and_span_fields() {
    let log = log_of("info", LogFormat::Json, || {
        let _span = tracing::info_span!(target: "paybell", "deliver", outbox.id = "o-1").entered();
        tracing::warn!(target: "paybell::outbox", attempt = 2, "tried\nagain");
        log::info!(target: "tokio_postgres", "a record");
    });
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    let timestamp = lines[0]["timestamp"].as_str().unwrap();
    assert!(timestamp.ends_with('Z'), "{timestamp}");
    chrono::DateTime::parse_from_rfc3339(timestamp).unwrap();
    assert_eq!(lines[0]["level"], "WARN");
    assert_eq!(lines[0]["target"], "paybell::outbox");
    assert_eq!(lines[0]["message"], "tried\nagain");
    assert_eq!(lines[0]["attempt"], 2);
    assert_eq!(lines[0]["spans"][0]["name"], "deliver");
    assert_eq!(lines[0]["spans"][0]["outbox.id"], "o-1");
    assert_eq!(lines[1]["target"], "tokio_postgres");
    assert_eq!(lines[1]["message"], "a record");
}

#[test]
fn a_bad_filter_is_an_error() {
    let config = LogConfig {
        format: LogFormat::Text,
        filter: "paybell=loud".to_owned(),
    };
    assert!(subscriber(&config, io::sink, false).is_err());
}

#[test]
fn panic_messages_lose_the_data_in_them() {
    for (message, expected) in [
        (
            "attempt to add with overflow",
            "attempt to add with overflow",
        ),
        (
            "byte index 1 is not a char boundary; it is inside '안' (bytes 0..3) of `안녕`",
            "byte index # is not a char boundary; it is inside …",
        ),
        (
            "called `Result::unwrap()` on an `Err` value: Bad(\"01012345678\")",
            "called …",
        ),
        ("cannot send to 01012345678", "cannot send to ###########"),
        ("first\nsecond", "first …"),
    ] {
        assert_eq!(without_data(message), expected);
    }
}
