#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::*;

const EXAMPLE: &str = include_str!("../../.env.example");

/// A working set-up with changes.
fn env(changes: &[(&str, &str)]) -> Env {
    let base = [("SMS_BASE_URL", "http://127.0.0.1:9090/sms")];
    base.iter().chain(changes).copied().collect()
}

fn read(changes: &[(&str, &str)]) -> Config {
    Config::from_env(&env(changes)).unwrap_or_else(|faults| panic!("{faults}"))
}

fn faults(changes: &[(&str, &str)]) -> String {
    Config::from_env(&env(changes)).unwrap_err().to_string()
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = read(&[]);
    assert_eq!(config.database.url.to_string(), "sqlite://paybell.db");
    assert_eq!(config.database.max_connections, 8);
    assert_eq!(config.database.timeout, Duration::from_secs(5));
    assert_eq!(config.http.bind.to_string(), "127.0.0.1:8080");
    assert!(config.http.api_keys.is_empty() && config.http.admin_token.is_none());
    assert_eq!(config.messages.region.code(), "KR");
    assert_eq!(config.messages.locale.as_str(), "ko");
    assert!(config.fcm.is_none() && config.proxy.is_none());
    let outbox = config.outbox;
    assert_eq!(outbox.lease, Duration::from_secs(20));
    assert_eq!(outbox.poll_interval, Duration::from_secs(1));
    assert_eq!(
        (
            outbox.batch_size,
            outbox.queue_capacity,
            outbox.max_in_flight
        ),
        (200, 1000, 200)
    );
    assert_eq!(outbox.max_attempts, 20);
    assert_eq!(outbox.give_up, Duration::from_secs(24 * 3600));
    assert_eq!(outbox.backoff_base, Duration::from_secs(1));
    assert_eq!(outbox.backoff_max, Duration::from_secs(600));
    assert_eq!(outbox.provider_timeout, Duration::from_secs(10));
    assert_eq!(outbox.retention, Duration::from_secs(168 * 3600));
    assert_eq!(outbox.retention_failed, None);
    assert_eq!(outbox.shutdown_grace, Duration::from_secs(10));
    assert_eq!(
        (config.log.format, config.log.filter.as_str()),
        (LogFormat::Text, "info")
    );
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn an_empty_value_is_unset() {
    let config = read(&[
        ("DATABASE_TIMEOUT_MS", ""),
        ("ADMIN_TOKEN", " "),
        ("API_KEYS", ""),
    ]);
    assert_eq!(config.database.timeout, Duration::from_secs(5));
    assert!(config.http.admin_token.is_none() && config.http.api_keys.is_empty());
}

/// Every variable's own fault, with the value and a way out, in one line that names it.
#[test]
fn every_fault_names_variable_value_and_remedy() {
    for (name, value, hint) in [
        ("DATABASE_URL", "mysql://h/db", "sqlite://FILE"),
        ("DATABASE_MAX_CONNECTIONS", "0", "from 1 to 1000"),
        (
            "DATABASE_TIMEOUT_MS",
            "5s",
            "milliseconds from 100 to 60000",
        ),
        ("BIND_ADDR", "localhost:8080", "127.0.0.1:8080"),
        ("ALLOW_UNAUTHENTICATED", "yes", "true nor false"),
        ("DEFAULT_REGION", "XX", "ISO 3166"),
        ("DEFAULT_REGION", "KOR", "ISO 3166"),
        ("DEFAULT_LOCALE", "fr", "use ko or en"),
        ("SMS_PROVIDER", "pigeon", "use http, twilio, solapi or sens"),
        (
            "SMS_BASE_URL",
            "127.0.0.1:9090",
            "write for example https://",
        ),
        ("SMS_BASE_URL", "ftp://h/", "neither an http nor an https"),
        ("SMS_BASE_URL", "http://h/#x", "fragment"),
        ("FCM_PROJECT_ID", "a/b", "Firebase console"),
        (
            "GOOGLE_APPLICATION_CREDENTIALS",
            "/no/such/key.json",
            "(No such file or directory (os error 2)): give the path",
        ),
        (
            "PROVIDER_PROXY",
            "socks5://h:1080",
            "neither an http nor an https",
        ),
        ("PROVIDER_PROXY", "http://h:1/path", "http://HOST:PORT"),
        ("PROVIDER_TIMEOUT_MS", "99", "from 100 to 120000"),
        ("OUTBOX_LEASE_SECS", "-1", "from 5 to 3600"),
        ("OUTBOX_POLL_INTERVAL_MS", "0", "from 50 to 60000"),
        ("OUTBOX_BATCH_SIZE", "1001", "from 1 to 1000"),
        (
            "OUTBOX_QUEUE_CAPACITY",
            "99999999999999999999",
            "from 1 to 100000",
        ),
        ("OUTBOX_MAX_IN_FLIGHT", "1e3", "from 1 to 10000"),
        ("OUTBOX_MAX_ATTEMPTS", "1.5", "from 1 to 1000"),
        ("OUTBOX_GIVE_UP_HOURS", "0", "hours from 1 to 8760"),
        ("BACKOFF_BASE_MS", "0", "from 1 to 3600000"),
        ("BACKOFF_MAX_MS", "999", "less than BACKOFF_BASE_MS=1000"),
        ("RETENTION_HOURS", "0", "from 1 to 87600"),
        ("RETENTION_FAILED_HOURS", "never", "from 1 to 87600"),
        ("SHUTDOWN_GRACE_SECS", "2", "seconds from 3 to 600"),
        ("LOG_FORMAT", "xml", "text or json"),
        ("RUST_LOG", "paybell=loud", "paybell=debug"),
    ] {
        let faults = faults(&[(name, value)]);
        assert_eq!(faults.lines().count(), 1, "{faults}");
        assert!(faults.starts_with(&format!("{name}={value} ")), "{faults}");
        assert!(faults.contains(hint), "{faults}");
    }
}

#[test]
fn all_faults_come_at_once_and_secrets_in_none_of_them() {
    let changes = [
        ("DATABASE_URL", "postgres://u:hidden@h/db?sslmode=verify-ca"),
        ("API_KEYS", "shop=hidden,,"),
        ("ADMIN_TOKEN", "hidden"),
        ("SMS_BASE_URL", "https://u:hidden@h/"),
        ("SMS_API_KEY", "hidden key"),
        ("FCM_BASE_URL", "https://h/?key=hidden"),
        ("PROVIDER_PROXY", "socks5://u:hidden@h"),
        ("OUTBOX_LEASE_SECS", "x"),
    ];
    let errors = Config::from_env(&env(&changes)).unwrap_err();
    let text = errors.to_string();
    for (name, _) in changes {
        assert_eq!(
            text.lines().filter(|line| line.starts_with(name)).count(),
            1,
            "{name}: {text}"
        );
    }
    assert_eq!(errors.faults().len(), changes.len());
    assert!(
        !text.contains("hidden") && !format!("{errors:?}").contains("hidden"),
        "{text}"
    );
    let summary = Summary::of(&env(&changes)).to_string();
    assert!(!summary.contains("hidden"), "{summary}");
}

#[test]
fn debug_output_holds_no_secret() {
    let config = read(&[
        ("DATABASE_URL", "postgres://u:hidden@h/db"),
        ("API_KEYS", "shop=hidden"),
        ("ADMIN_TOKEN", "hidden-hidden-hidden"),
        ("SMS_API_KEY", "hidden"),
        ("PROVIDER_PROXY", "http://u:hidden@h:3128"),
    ]);
    let debug = format!("{config:?} {}", config.summary());
    assert!(!debug.contains("hidden"), "{debug}");
    assert_eq!(config.proxy.unwrap().url().password(), Some("hidden"));
}

#[test]
fn a_server_on_the_network_needs_keys_and_its_own_admin_token() {
    for bind in [
        "0.0.0.0:80",
        "[::]:80",
        "192.0.2.1:80",
        "[::ffff:192.0.2.1]:80",
    ] {
        assert!(
            faults(&[("BIND_ADDR", bind)]).starts_with("API_KEYS is not set while"),
            "{bind}"
        );
        let open = read(&[("BIND_ADDR", bind), ("ALLOW_UNAUTHENTICATED", "true")]);
        assert!(
            open.warnings.concat().contains("anybody"),
            "{:?}",
            open.warnings
        );
        let keys = ("API_KEYS", "shop=k1,shop=k2");
        assert_eq!(read(&[("BIND_ADDR", bind), keys]).http.api_keys.len(), 2);
        let sample = faults(&[
            ("BIND_ADDR", bind),
            keys,
            ("ADMIN_TOKEN", SAMPLE_ADMIN_TOKEN),
        ]);
        assert!(sample.contains("sample value"), "{sample}");
    }
    for bind in [
        "127.0.0.1:80",
        "127.9.9.9:80",
        "[::1]:80",
        "[::ffff:127.0.0.1]:80",
    ] {
        read(&[("BIND_ADDR", bind), ("ADMIN_TOKEN", SAMPLE_ADMIN_TOKEN)]);
    }
    assert!(faults(&[("ADMIN_TOKEN", "fifteen-chars-x")]).contains("at least 16"));
    let token = read(&[("ADMIN_TOKEN", "sixteen-chars-xy")])
        .http
        .admin_token
        .unwrap();
    assert_eq!(token.expose_secret(), "sixteen-chars-xy");
}

#[test]
fn a_lease_outlasts_a_request_and_a_look_up() {
    read(&[("OUTBOX_LEASE_SECS", "14")]);
    let short = faults(&[("OUTBOX_LEASE_SECS", "13")]);
    assert!(
        short.contains("PROVIDER_TIMEOUT_MS=10000") && short.contains("raise it to 14"),
        "{short}"
    );
    let long = faults(&[("PROVIDER_TIMEOUT_MS", "16001")]);
    assert!(
        long.starts_with("OUTBOX_LEASE_SECS=20 ") && long.contains("raise it to 21"),
        "{long}"
    );
}

#[test]
fn channels_are_on_when_complete_and_one_must_be() {
    let none = Config::from_env(&Env::default()).unwrap_err().to_string();
    assert!(none.contains("no other channel is on"), "{none}");
    let half = faults(&[("FCM_PROJECT_ID", "demo-project")]);
    assert!(
        half.starts_with("GOOGLE_APPLICATION_CREDENTIALS is not set although"),
        "{half}"
    );
    let half = faults(&[("FCM_BASE_URL", "http://h")]);
    assert!(
        half.starts_with("FCM_PROJECT_ID is not set although"),
        "{half}"
    );
    let push = [
        ("SMS_BASE_URL", ""),
        ("SMS_FROM", "0212345678"),
        ("FCM_BASE_URL", "http://127.0.0.1:9090"),
        ("FCM_PROJECT_ID", "demo-project"),
    ];
    let config = read(&push);
    assert!(config.sms.is_none());
    assert_eq!(config.fcm.unwrap().project_id, "demo-project");
    assert!(
        config.warnings.concat().contains("SMS is off"),
        "{:?}",
        config.warnings
    );
}

mod sms;

#[test]
fn probable_mistakes_are_warned_of() {
    let warnings = |changes: &[(&str, &str)]| read(changes).warnings.join("\n");
    assert!(warnings(&[("OUTBOX_LEASE_SEC", "30")]).starts_with("OUTBOX_LEASE_SEC is not"));
    assert!(warnings(&[("SMS_MAX_PER_MINUTE", "5")]).contains("has no effect"));
    let clear = [
        ("SMS_BASE_URL", "http://gateway.example"),
        ("SMS_API_KEY", "k"),
    ];
    assert!(warnings(&clear).contains("unencrypted"));
    assert_eq!(warnings(&[("SMS_API_KEY", "k"), ("PATH", "/bin")]), "");
    let shared = [
        ("ADMIN_TOKEN", "sixteen-chars-xy"),
        ("API_KEYS", "a=sixteen-chars-xy"),
    ];
    assert!(warnings(&shared).contains("can administer"));
}

/// Name to (whether the line is active, value).
fn example_lines() -> BTreeMap<&'static str, (bool, &'static str)> {
    let lines = EXAMPLE.lines().filter_map(|line| {
        let active = !line.starts_with('#');
        let (name, value) = line.trim_start_matches('#').split_once('=')?;
        let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        is_name.then_some((name, (active, value)))
    });
    let all: Vec<_> = lines.collect();
    let map: BTreeMap<_, _> = all.iter().copied().collect();
    assert_eq!(
        all.len(),
        map.len(),
        "a variable stands twice in .env.example"
    );
    map
}

#[test]
fn the_example_names_every_variable_with_its_default() {
    let example = example_lines();
    let read: Vec<_> = variables::ALL
        .iter()
        .map(|variable| variable.name())
        .collect();
    let mut written: Vec<_> = example.keys().copied().collect();
    let mut expected = read.clone();
    written.sort_unstable();
    expected.sort_unstable();
    assert_eq!(written, expected);
    let own = [
        "ADMIN_TOKEN",
        "SMS_BASE_URL",
        "FCM_BASE_URL",
        "FCM_PROJECT_ID",
    ];
    for variable in variables::ALL {
        let (active, value) = example[variable.name()];
        assert_eq!(
            active,
            own.contains(&variable.name()),
            "{}",
            variable.name()
        );
        if !active {
            assert_eq!(
                value,
                variable.default().unwrap_or_default(),
                "{}",
                variable.name()
            );
        }
    }
    assert_eq!(example["ADMIN_TOKEN"].1, SAMPLE_ADMIN_TOKEN);
}

#[test]
fn the_example_works_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".env");
    std::fs::write(&path, EXAMPLE).unwrap();
    let config = Config::from_env(&Env::default().with_dotenv(&path)).unwrap();
    assert!(config.sms.is_some() && config.fcm.is_some() && config.warnings.is_empty());
    // And with every commented line taken in.
    let all: Env = example_lines()
        .into_iter()
        .map(|(name, (_, value))| (name, value))
        .collect();
    Config::from_env(&all).unwrap();
}

#[test]
fn the_summary_lists_every_variable_aligned() {
    let summary = read(&[("API_KEYS", "shop=k1,k2"), ("DATABASE_TIMEOUT_MS", "700")])
        .summary()
        .to_string();
    assert_eq!(summary.lines().count(), variables::ALL.len());
    let line = |name: &str| summary.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("API_KEYS").ends_with("  shop=********,default=********"));
    assert!(line("DATABASE_TIMEOUT_MS").ends_with("  700"));
    assert!(line("BIND_ADDR").ends_with("  127.0.0.1:8080 (default)"));
    assert!(line("SMS_FROM").ends_with("  (not set)"));
    let column = line("API_KEYS").find("shop");
    assert_eq!(line("BIND_ADDR").find("127"), column);
}
