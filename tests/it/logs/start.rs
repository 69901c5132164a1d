//! A start that fails says what is wrong, and nothing of what is secret.

use tempfile::TempDir;

use super::search::Search;
use crate::support::command::paybell;

const SECRET: &str = "S3cret-of-this-service";
const KEY: &str = include_str!("../../../src/provider/mock/test_key.pem");

/// Commands that read the configuration; the last one ends only if it cannot start.
const COMMANDS: [&str; 3] = ["check-config", "migrate", "serve"];

fn search() -> Search {
    let lines = KEY
        .lines()
        .filter(|line| line.len() == 64 && !line.contains(' '));
    let pieces = lines.map(|line| line[..24].to_owned());
    Search::new(pieces.chain([SECRET.to_owned()]))
}

/// Every command fails, and none tells.
async fn assert_untold(env: &[(&str, &str)], why: &str) {
    let folder = TempDir::with_prefix("paybell-test-").unwrap();
    let usual = [
        ("SMS_BASE_URL", "http://127.0.0.1:9/sms"),
        ("RUST_LOG", "trace"),
    ];
    let others = usual
        .iter()
        .filter(|(name, _)| env.iter().all(|(set, _)| set != name));
    let env: Vec<(&str, &str)> = others.chain(env).copied().collect();
    for command in COMMANDS {
        let ran = paybell(folder.path(), &[command], &env).await;
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            told.contains(why) || ran.code == Some(0),
            "{command}: {ran:?}"
        );
        search().assert_not_in(&told, command);
        assert!(command != "serve" || ran.code != Some(0), "{ran:?}");
    }
}

#[tokio::test]
async fn a_bad_proxy_is_not_quoted() {
    for proxy in [
        "socks5://user:SECRET@proxy:1080",
        "http://user:SECRET@proxy:3128/path",
        "http://user:SECRET@proxy:port",
        "user:SECRET@proxy:3128",
        "http://SECRET@:3128",
        "http://user:SECRET",
    ] {
        let proxy = proxy.replace("SECRET", SECRET);
        assert_untold(&[("PROVIDER_PROXY", &proxy)], "PROVIDER_PROXY").await;
    }
}

#[tokio::test]
async fn a_bad_database_url_is_not_quoted() {
    for url in [
        "postgres://user:SECRET@127.0.0.1:port/db",
        "postgres://user:SECRET@127.0.0.1/db?sslmode=never",
        "postgres://user:SECRET@/x@y/db?a",
        "mysql://user:SECRET@127.0.0.1/db",
        "user:SECRET@127.0.0.1/db",
        "postgres://127.0.0.1/db?user=u&password=SECRET&x=y",
    ] {
        let url = url.replace("SECRET", SECRET);
        assert_untold(&[("DATABASE_URL", &url)], "DATABASE_URL").await;
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_costs_no_password() {
    let url = format!("postgres://user:{SECRET}@127.0.0.1:9/db?sslmode=disable");
    let soon = ("DATABASE_TIMEOUT_MS", "500");
    assert_untold(&[("DATABASE_URL", &url), soon], "database").await;
}

#[tokio::test]
async fn a_bad_key_file_is_not_quoted() {
    let folder = TempDir::with_prefix("paybell-test-").unwrap();
    let path = folder.path().join("key.json");
    let path = path.to_str().unwrap();
    let (head, pem) = KEY.split_at(KEY.find("-----BEGIN").unwrap());
    assert!(!head.is_empty());
    let json = |pem: &str| {
        let fields = serde_json::json!({
            "type": "service_account", "project_id": "shop", "private_key_id": SECRET,
            "private_key": pem, "client_email": "sender@shop.iam.gserviceaccount.com",
        });
        fields.to_string()
    };
    let whole = json(pem);
    for content in [
        pem.to_owned(),
        whole[..whole.len() - 2].to_owned(),
        whole.replace("service_account", SECRET),
        whole.replace("client_email", "client_mail"),
        json(&pem[..pem.len() / 2]),
        json(&pem.replace('A', "B")),
        json(&pem.replace("-----BEGIN", "BEGIN")),
        whole.replace(
            "\"project_id\":\"shop\"",
            &format!("\"project_id\":[\"{SECRET}\"]"),
        ),
    ] {
        std::fs::write(path, content).unwrap();
        let key = ("GOOGLE_APPLICATION_CREDENTIALS", path);
        assert_untold(&[key], "GOOGLE_APPLICATION_CREDENTIALS").await;
    }
}

/// A good configuration with a secret in every place, as an operator sees it.
#[tokio::test]
async fn check_config_shows_no_secret() {
    let folder = TempDir::with_prefix("paybell-test-").unwrap();
    let with_secret = |text: &str| text.replace("SECRET", SECRET);
    let (database, proxy, keys) = (
        with_secret("postgres://user:SECRET@127.0.0.1/db?sslmode=disable"),
        with_secret("http://user:SECRET@proxy:3128"),
        with_secret("shop=SECRET"),
    );
    let secrets = [
        "ADMIN_TOKEN",
        "SMS_API_KEY",
        "TWILIO_AUTH_TOKEN",
        "SOLAPI_API_KEY",
        "SOLAPI_API_SECRET",
        "SENS_ACCESS_KEY",
        "SENS_SECRET_KEY",
    ];
    for (provider, from) in [
        ("http", "02-1234-5678"),
        ("twilio", "+15005550006"),
        ("solapi", "0212345678"),
        ("sens", "0212345678"),
    ] {
        let mut env = vec![
            ("DATABASE_URL", &*database),
            ("PROVIDER_PROXY", &*proxy),
            ("API_KEYS", &*keys),
            ("SMS_PROVIDER", provider),
            ("SMS_FROM", from),
            ("SMS_BASE_URL", "http://127.0.0.1:9/sms"),
            ("TWILIO_ACCOUNT_SID", "AC00000000000000000000000000000001"),
            ("SENS_SERVICE_ID", "ncp:sms:kr:1:name"),
        ];
        env.extend(secrets.map(|name| (name, SECRET)));
        let ran = paybell(folder.path(), &["check-config"], &env).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.contains("********"), "{ran:?}");
        search().assert_not_in(&format!("{}{}", ran.stdout, ran.stderr), provider);
    }
}
