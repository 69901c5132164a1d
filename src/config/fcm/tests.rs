#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::config::{Config, ConfigErrors, Env};

const KEY: &str = include_str!("../../provider/mock/test_key.pem");

fn key_file(changes: &[(&str, Value)]) -> String {
    let mut file = json!({
        "type": "service_account",
        "project_id": "shop",
        "private_key": KEY,
        "client_email": "sender@shop.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
    });
    for (name, value) in changes {
        file[*name] = value.clone();
    }
    file.to_string()
}

/// Reads push alone, with the key in a file of its own.
fn with_key(key: impl AsRef<[u8]>, others: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.json");
    std::fs::write(&path, key).unwrap();
    at(&path, others)
}

fn at(path: &Path, others: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let path = path.to_str().unwrap();
    let key = [("GOOGLE_APPLICATION_CREDENTIALS", path)];
    let env: Env = key.iter().chain(others).copied().collect();
    Config::from_env(&env)
}

#[test]
fn a_key_alone_turns_push_on() {
    let config = with_key(key_file(&[]), &[]).unwrap();
    let fcm = config.fcm.unwrap();
    assert_eq!(fcm.base_url.as_str(), "https://fcm.googleapis.com/");
    assert_eq!(fcm.project_id, "shop");
    assert!(fcm.account.is_some());
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn the_variables_win_over_the_key() {
    let others = [
        ("FCM_PROJECT_ID", "other"),
        ("FCM_BASE_URL", "http://127.0.0.1:9090"),
    ];
    let fcm = with_key(key_file(&[]), &others).unwrap().fcm.unwrap();
    assert_eq!(fcm.base_url.as_str(), "http://127.0.0.1:9090/");
    assert_eq!(fcm.project_id, "other");
}

#[test]
fn without_a_key_push_is_on_only_where_a_server_is_named() {
    let read = |pairs: &[(&str, &str)]| {
        let sms = [("SMS_BASE_URL", "http://127.0.0.1:9090/sms")];
        let env: Env = sms.iter().chain(pairs).copied().collect();
        Config::from_env(&env)
    };
    assert!(read(&[]).unwrap().fcm.is_none());
    let url = ("FCM_BASE_URL", "http://127.0.0.1:9090");
    let project = ("FCM_PROJECT_ID", "shop");
    let fcm = read(&[url, project]).unwrap().fcm.unwrap();
    assert!(fcm.account.is_none());
    let google = ("FCM_BASE_URL", "https://fcm.googleapis.com");
    let warnings = read(&[google, project]).unwrap().warnings.join("\n");
    assert!(warnings.contains("takes no push without"), "{warnings}");
    for (pairs, expected) in [
        ([url], "FCM_PROJECT_ID is not set although FCM_BASE_URL is"),
        (
            [project],
            "GOOGLE_APPLICATION_CREDENTIALS is not set although FCM_PROJECT_ID is",
        ),
    ] {
        let faults = read(&pairs).unwrap_err().to_string();
        assert!(faults.starts_with(expected), "{faults}");
        assert_eq!(faults.lines().count(), 1, "{faults}");
    }
}

#[test]
fn a_key_without_a_usable_project_needs_the_variable() {
    for project in [json!(null), json!(""), json!("a/b")] {
        let key = key_file(&[("project_id", project)]);
        let faults = with_key(&key, &[]).unwrap_err().to_string();
        assert!(
            faults.starts_with("FCM_PROJECT_ID is not set, and the key"),
            "{faults}"
        );
        with_key(&key, &[("FCM_PROJECT_ID", "shop")]).unwrap();
    }
}

#[test]
fn every_bad_key_is_one_fault_with_its_path_and_a_remedy() {
    let secret = &KEY[KEY.find("-----\n").unwrap() + 6..][..40];
    let table: [(Vec<u8>, &str); 9] = [
        (Vec::new(), "not the JSON"),
        (b"\xff\xfe".to_vec(), "UTF-8"),
        (vec![b' '; 70_000], "larger than 64 KiB"),
        (b"not json".to_vec(), "not the JSON"),
        (
            b"{}".to_vec(),
            "lacks type and client_email and private_key",
        ),
        (
            key_file(&[("type", json!("authorized_user"))]).into(),
            "another kind",
        ),
        (
            key_file(&[("private_key", json!(secret))]).into(),
            "not a PEM block",
        ),
        (
            key_file(&[("token_uri", json!("x"))]).into(),
            "http or https URL",
        ),
        (KEY.into(), "not the JSON"),
    ];
    for (key, expected) in table {
        let error = with_key(key, &[]).unwrap_err();
        let text = error.to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.starts_with("GOOGLE_APPLICATION_CREDENTIALS=/"),
            "{text}"
        );
        assert!(
            text.contains("key.json ") && text.contains(expected),
            "{text}"
        );
        assert!(
            text.contains("give the path") || text.contains("download"),
            "{text}"
        );
        assert!(!format!("{text}{error:?}").contains(secret), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let text = at(folder.path(), &[]).unwrap_err().to_string();
    assert!(text.contains("cannot be used"), "{text}");
}

#[test]
fn a_key_in_place_of_its_path_is_not_shown() {
    let secret = &KEY[KEY.find("-----\n").unwrap() + 6..][..40];
    for value in [key_file(&[]), KEY.to_owned()] {
        let error = at(Path::new(&value), &[]).unwrap_err();
        let text = error.to_string();
        let expected = "GOOGLE_APPLICATION_CREDENTIALS=******** is the key itself, not a path";
        assert!(text.starts_with(expected), "{text}");
        let env: Env = [("GOOGLE_APPLICATION_CREDENTIALS", value)]
            .into_iter()
            .collect();
        let summary = crate::config::Summary::of(&env).to_string();
        assert!(
            !format!("{text}{error:?}{summary}").contains(secret),
            "{text}"
        );
    }
}

#[test]
fn an_encoded_key_in_place_of_its_path_is_not_shown() {
    let (_, body) = KEY.split_once("KEY-----\n").unwrap();
    let body = body.split_once("-----").unwrap().0.replace('\n', "");
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    for value in [encoded(&key_file(&[])), encoded(KEY), body] {
        let error = at(Path::new(&value), &[]).unwrap_err().to_string();
        assert!(error.contains("=******** is the key itself"), "{error}");
        let variable = ("GOOGLE_APPLICATION_CREDENTIALS", value.as_str());
        let env: Env = [variable].into_iter().collect();
        let summary = crate::config::Summary::of(&env).to_string();
        assert!(!summary.contains(&value[..16]), "{summary}");
    }
}

#[test]
fn what_is_shown_of_a_key_is_its_path() {
    let config = with_key(key_file(&[]), &[]).unwrap();
    let summary = config.summary().to_string();
    let line = |line: &&str| line.starts_with("GOOGLE_APPLICATION_CREDENTIALS");
    let line = summary.lines().find(line).unwrap();
    assert!(line.ends_with("/key.json"), "{line}");
    let shown = format!("{summary}{config:?}");
    assert!(
        !shown.contains("PRIVATE KEY") && !shown.contains("gserviceaccount"),
        "{shown}"
    );
}

#[test]
fn tokens_in_the_clear_are_warned_of() {
    let key = key_file(&[("token_uri", json!("http://tokens.example/token"))]);
    let others = [("FCM_BASE_URL", "http://push.example")];
    let warnings = with_key(key, &others).unwrap().warnings.join("\n");
    assert!(warnings.contains("use an https FCM_BASE_URL"), "{warnings}");
    assert!(warnings.contains("token_uri without https"), "{warnings}");
}
