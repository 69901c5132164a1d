//! The commands from a shell's point of view: exit codes, and errors that say how to mend them.

use std::net::TcpListener;
use std::path::Path;

use tempfile::TempDir;

use crate::support::command::{Ran, paybell};
use crate::support::on_both_databases;

fn folder() -> TempDir {
    TempDir::with_prefix("paybell-test-").unwrap()
}

/// Just enough to serve.
const SMS: (&str, &str) = ("SMS_BASE_URL", "http://127.0.0.1:9/sms");
const ANY_PORT: (&str, &str) = ("BIND_ADDR", "127.0.0.1:0");

/// One line that says what happened, and nothing that looks like a crash.
fn assert_fails(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    let errors: Vec<&str> = ran
        .stderr
        .lines()
        .filter(|line| line.starts_with("error: "))
        .collect();
    assert_eq!(errors.len(), 1, "{ran:?}");
    assert_eq!(ran.stderr.lines().last(), Some(errors[0]));
    for word in words {
        assert!(errors[0].contains(word), "{word} is not in {}", errors[0]);
    }
    for crash in ["panicked", "RUST_BACKTRACE", "internal error"] {
        assert!(!ran.stderr.contains(crash), "{ran:?}");
    }
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn bad_usage_is_2_and_help_is_0() {
    let folder = folder();
    for args in [
        &[][..],
        &["no-such-command"],
        &["serve", "--port", "1"],
        &["demo", "--bind", "here"],
    ] {
        let ran = paybell(folder.path(), args, &[]).await;
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{ran:?}");
    }
    for args in [&["--help"][..], &["--version"], &["demo", "--help"]] {
        let ran = paybell(folder.path(), args, &[]).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(
            ran.stderr.is_empty() && ran.stdout.contains("paybell"),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn all_faults_of_a_configuration_are_told_at_once() {
    let folder = folder();
    let env = [
        ("DATABASE_URL", "mysql://root:hidden-word@db/pay"),
        ("BIND_ADDR", "8080"),
        ("ADMIN_TOKEN", "hidden"),
        ("API_KEYS", "shop=hidden,"),
        ("SMS_BASE_URL", "ftp://user:hidden@gateway/"),
        ("OUTBOX_LEASE_SECS", "-1"),
        ("OUTBOX_POLL_INTERVAL_MS", "1e3"),
        ("RUST_LOG", "paybell=loud"),
        ("LOG_FORMAT", "xml"),
        ("DEFAULT_REGION", "Korea"),
    ];
    for command in ["serve", "check-config"] {
        let ran = paybell(folder.path(), &[command], &env).await;
        assert_eq!(ran.code, Some(2), "{ran:?}");
        for (name, _) in env {
            let told = ran
                .stderr
                .lines()
                .filter(|line| line.starts_with(&format!("error: {name}")))
                .count();
            assert_eq!(told, 1, "{name} in {}", ran.stderr);
        }
        assert_eq!(ran.stderr.lines().count(), env.len(), "{}", ran.stderr);
        assert!(
            !ran.stderr.contains("hidden") && !ran.stdout.contains("hidden"),
            "{ran:?}"
        );
    }
    assert!(files(folder.path()).is_empty(), "nothing was opened");
}

#[tokio::test]
async fn a_database_of_another_kind_is_bad_configuration() {
    let folder = folder();
    for (url, way_out) in [
        ("mysql://h/db", "postgres://"),
        ("paybell.db", "sqlite://"),
        (":memory:", "name a file"),
        ("sqlite::memory:", "name a file"),
        ("sqlite://:memory:", "name a file"),
        ("sqlite://", "names no file"),
        ("http://h/db", "postgres://"),
    ] {
        let ran = paybell(folder.path(), &["migrate"], &[("DATABASE_URL", url)]).await;
        assert_fails(&ran, 2, &["DATABASE_URL", way_out]);
    }
    for command in ["serve", "check-config"] {
        let env = [SMS, ANY_PORT, ("DATABASE_URL", "sqlite::memory:")];
        let ran = paybell(folder.path(), &[command], &env).await;
        assert_fails(&ran, 2, &["DATABASE_URL", "name a file"]);
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_had_is_a_failure_in_one_line() {
    let folder = folder();
    std::fs::write(
        folder.path().join("text.db"),
        "this is no database, ".repeat(100),
    )
    .unwrap();
    std::fs::create_dir(folder.path().join("folder.db")).unwrap();
    // A port that was free a moment ago: nobody listens there.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let nobody = format!("postgres://me:hidden-word@127.0.0.1:{port}/pay");
    for (command, url) in [
        ("migrate", nobody.as_str()),
        ("migrate", "sqlite://missing/pay.db"),
        ("migrate", "sqlite://text.db"),
        ("migrate", "sqlite://folder.db"),
        ("serve", nobody.as_str()),
        ("serve", "sqlite://text.db"),
    ] {
        let env = [
            SMS,
            ANY_PORT,
            ("DATABASE_URL", url),
            ("DATABASE_TIMEOUT_MS", "1000"),
        ];
        let ran = paybell(folder.path(), &[command], &env).await;
        let place = url.split(['@', '/']).next_back().unwrap();
        let words = ["cannot use the database", place, "DATABASE_URL"];
        assert_fails(&ran, 1, &words);
        assert!(!ran.stderr.contains("hidden-word"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_a_failure_that_names_it() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let env = [SMS, ("BIND_ADDR", address.as_str())];
    assert_fails(
        &paybell(folder.path(), &["serve"], &env).await,
        1,
        &[&address],
    );
    for args in [
        &["mock-providers", "--bind", &address][..],
        &["demo", "--exit", "--bind", &address],
    ] {
        assert_fails(&paybell(folder.path(), args, &[]).await, 1, &[&address]);
    }
}

#[tokio::test]
async fn check_config_opens_nothing_and_masks_secrets() {
    let folder = folder();
    let env = [
        SMS,
        (
            "DATABASE_URL",
            "postgres://me:hidden-word@192.0.2.1:5432/pay",
        ),
        ("ADMIN_TOKEN", "hidden-hidden-hidden"),
        ("API_KEYS", "shop=hidden"),
        ("SMS_API_KEY", "hidden"),
    ];
    let ran = paybell(folder.path(), &["check-config"], &env).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.ends_with("The configuration is valid.\n") && ran.stderr.is_empty(),
        "{ran:?}"
    );
    assert!(
        ran.stdout.contains("192.0.2.1") && ran.stdout.contains("shop"),
        "{ran:?}"
    );
    assert!(!ran.stdout.contains("hidden"), "{ran:?}");
    paybell(folder.path(), &["check-config"], &[SMS]).await;
    assert!(files(folder.path()).is_empty(), "no database was made");
}

#[tokio::test]
async fn the_example_is_a_working_configuration() {
    let folder = folder();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join(".env.example");
    std::fs::copy(example, folder.path().join(".env")).unwrap();
    let ran = paybell(folder.path(), &["check-config"], &[]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.stdout.contains("warning"), "{ran:?}");
}

#[tokio::test]
async fn the_environment_wins_over_the_file() {
    let folder = folder();
    let file = "BIND_ADDR=127.0.0.1:1111\nDEFAULT_LOCALE=en\nSMS_BASE_URL=http://127.0.0.1:9/sms\nADMIN_TOKEN=short\n";
    std::fs::write(folder.path().join(".env"), file).unwrap();
    let env = [("BIND_ADDR", "127.0.0.1:2222"), ("ADMIN_TOKEN", "")];
    let ran = paybell(folder.path(), &["check-config"], &env).await;
    // An empty value means unset, and still hides the file's.
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.contains("127.0.0.1:2222") && !ran.stdout.contains("1111"),
        "{ran:?}"
    );
    let locale = ran
        .stdout
        .lines()
        .find(|line| line.contains("DEFAULT_LOCALE"))
        .unwrap();
    assert!(locale.contains("en"), "{locale}");
}

on_both_databases! {
    async fn migrate_prints_what_it_applied_and_may_be_repeated(database: Database) {
        let folder = folder();
        let env = [("DATABASE_URL", database.url())];
        let first = paybell(folder.path(), &["migrate"], &env).await;
        assert_eq!(first.code, Some(0), "{first:?}");
        assert!(!first.stdout.is_empty() && first.stdout.lines().all(|line| line.starts_with("applied ")), "{first:?}");
        let second = paybell(folder.path(), &["migrate"], &env).await;
        assert_eq!((second.code, second.stdout.as_str()), (Some(0), "the schema is up to date\n"));
        assert_eq!(database.number("SELECT count(*) FROM payments").await, 0);
    }
}

#[tokio::test]
async fn the_demo_tells_its_story_in_order_and_ends_with_0() {
    let folder = folder();
    // It reads neither the file nor these.
    std::fs::write(folder.path().join(".env"), "this is no line\n").unwrap();
    let env = [("DATABASE_URL", "mysql://x"), ("BIND_ADDR", "x")];
    let ran = paybell(
        folder.path(),
        &["demo", "--exit", "--bind", "127.0.0.1:0"],
        &env,
    )
    .await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let times: Vec<f64> = ran
        .stdout
        .lines()
        .filter_map(|line| line.split_once(" s  ")?.0.trim().parse().ok())
        .collect();
    assert!(times.len() >= 11 && times.is_sorted(), "{}", ran.stdout);
    let unlucky: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| line.contains("*****0002"))
        .collect();
    let [posted, one, two, sent] = unlucky[..] else {
        panic!("{}", ran.stdout)
    };
    assert!(
        posted.contains("POST /payments unlucky-1") && posted.contains("201"),
        "{posted}"
    );
    for failure in [one, two] {
        assert!(
            failure.contains("failed: Service Unavailable; next try in"),
            "{failure}"
        );
    }
    assert!(
        sent.contains("SENT") && sent.contains("after 2 failed tries"),
        "{sent}"
    );
    assert!(
        ran.stdout.ends_with("All 5 notifications are SENT.\n"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("5550002"), "{}", ran.stdout);
    assert_eq!(files(folder.path()), [".env"], "it leaves nothing behind");
}

/// The points at which a fault harness kills the process are in no other build.
#[test]
fn a_build_holds_fail_points_only_if_it_was_asked_for_them() {
    let name = b"paybell-dies-at/accepted";
    let binary = std::fs::read(env!("CARGO_BIN_EXE_paybell")).unwrap();
    let held = binary.windows(name.len()).any(|bytes| bytes == name);
    assert_eq!(held, cfg!(feature = "fail-points"));
}
