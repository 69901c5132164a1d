//! Whatever a provider says, and however it spells it, keys and persons are not in it any more.
//!
//! Twilio's account SID and SENS's service id are no secrets: they name an account, as a user name
//! does, and an operator sees in `check-config` which one it is. Providers' words are shown to more
//! people than the configuration, and there they are hidden like the keys.

use std::sync::atomic::Ordering::SeqCst;

use futures_util::future::join_all;
use paybell::provider::client::plain_http;
use paybell::provider::mock::{Mock, credentials};
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::NamedTempFile;

use super::caller::{Caller, IDEMPOTENCY_KEY, PERSONAL, PHONE, TOKEN, WORDS, settings};
use super::echo::{ACCESS_TOKEN, ANOTHERS, Echo, VARIETY};
use super::search::Search;
use crate::support::app::{Settings, notification, payment};
use crate::support::database::Database;
use crate::support::dialect::dialects;
use crate::support::on_both_databases;

const PROXY_USER: &str = "user-of-the-proxy";
const PROXY_PASSWORD: &str = "pass@word/of-the-proxy";
/// Lines shorter than what counts as a quotation, and a sign that Korean carriers cannot print.
const BODY: &str = "words-of-the-body\n홍길동님께\n₩15,000 결제";

/// A dialect, and what must not come back from it.
struct Dialect {
    name: &'static str,
    secrets: &'static [&'static str],
    /// Where it searches a list for a message.
    lists: bool,
}

const DIALECTS: [Dialect; 5] = [
    Dialect {
        name: "http",
        secrets: &[],
        lists: false,
    },
    Dialect {
        name: "twilio",
        secrets: &[
            credentials::TWILIO_AUTH_TOKEN,
            credentials::TWILIO_ACCOUNT_SID,
        ],
        lists: true,
    },
    Dialect {
        name: "solapi",
        secrets: &[credentials::SOLAPI_API_KEY, credentials::SOLAPI_API_SECRET],
        lists: true,
    },
    Dialect {
        name: "sens",
        secrets: &[
            credentials::SENS_ACCESS_KEY,
            credentials::SENS_SECRET_KEY,
            credentials::SENS_SERVICE_ID,
        ],
        lists: true,
    },
    // The header of every JSON Web Token begins so.
    Dialect {
        name: "fcm",
        secrets: &[ACCESS_TOKEN, "eyJhbGciOi"],
        lists: false,
    },
];

struct Run {
    dialect: &'static Dialect,
    echo: std::sync::Arc<Echo>,
    caller: Caller,
    search: Search,
    ids: Vec<String>,
}

impl Run {
    async fn start(database: &Database, name: &str) -> Self {
        let dialect = DIALECTS
            .iter()
            .find(|dialect| dialect.name == name)
            .unwrap();
        let echo = Echo::start();
        let mock = Mock::default()
            .with_google_auth()
            .run(([127, 0, 0, 1], 0).into())
            .unwrap();
        let (key, pem) = key_file(mock.base_url().as_ref()).await;
        let usual = settings(database, &mock).with("FCM_PROJECT_ID", "");
        let settings = match dialects(&usual, &mock)
            .into_iter()
            .find(|(found, _)| *found == name)
        {
            Some((_, settings)) => settings,
            None => usual,
        };
        let caller = Caller::start(
            &behind_proxy(settings, &echo)
                .with("GOOGLE_APPLICATION_CREDENTIALS", key.path().display()),
        )
        .await;
        let secrets = dialect.secrets.iter().map(|secret| (*secret).to_owned());
        let proxy = [PROXY_USER, PROXY_PASSWORD].map(str::to_owned);
        let all = secrets.chain(proxy).chain(PERSONAL.map(str::to_owned));
        let search = Search::new(all.chain(pem).chain(ANOTHERS.map(str::to_owned)));
        Self {
            dialect,
            echo,
            caller,
            search,
            ids: Vec::new(),
        }
    }

    async fn pay(&mut self, n: usize) -> String {
        let body = match self.dialect.name {
            "fcm" => {
                json!({ "channel": "fcm", "to": TOKEN, "title": "words-of-the-title", "body": BODY,
                             "data": { "k": "words-of-the-data" } })
            }
            _ => {
                json!({ "channel": "sms", "to": PHONE, "title": "words-of-the-title", "body": BODY })
            }
        };
        let body = payment("order", &json!([body]));
        let key = format!("{IDEMPOTENCY_KEY}-{n}");
        let id = notification(&self.caller.pay(&body, &key).await, 0);
        self.ids.push(id.clone());
        id
    }

    /// Refused for good, in every piece and every spelling.
    async fn rejected(&mut self) {
        self.echo.send.store(400, SeqCst);
        for n in 0..VARIETY {
            self.pay(n).await;
        }
        let all = self
            .ids
            .iter()
            .map(|id| self.caller.row(id, |row| row["status"] == "FAILED"));
        for row in join_all(all).await {
            let told = row["last_error"].as_str().unwrap();
            assert!(told.contains("refused:") && told.contains("***"), "{told}");
        }
    }

    /// Unknown and asked about in vain, and sent in the end; fewer failures than open the lane.
    async fn unknown(&mut self) {
        self.echo.send.store(502, SeqCst);
        let id = self.pay(VARIETY).await;
        if self.dialect.name == "fcm" {
            // It cannot be asked, and is sent again.
            let unknown = |row: &Value| row["history"].to_string().contains("unknown");
            self.caller.row(&id, unknown).await;
        } else {
            self.echo.while_asked(500, 4).await;
            self.echo.while_asked(401, 1).await;
        }
        if self.dialect.lists {
            self.echo.while_asked(0, 1).await;
        }
        let nothing = if self.dialect.lists { 200 } else { 404 };
        self.echo.look_up.store(nothing, SeqCst);
        self.echo.send.store(200, SeqCst);
        self.caller.row(&id, |row| row["status"] == "SENT").await;
    }

    /// Not taken at first because of our set-up.
    async fn misconfigured(&mut self) {
        self.echo.send.store(401, SeqCst);
        let id = self.pay(VARIETY + 1).await;
        self.caller
            .row(&id, |row| row["last_error"].is_string())
            .await;
        self.echo.send.store(200, SeqCst);
        self.caller.row(&id, |row| row["status"] == "SENT").await;
    }

    /// Nothing of it is anywhere.
    async fn assert_untold(self) {
        let learnt = Search::new(self.echo.credentials());
        let words = Search::new(WORDS);
        let pages = [
            "/admin/outbox",
            "/admin/outbox/stats",
            "/health/ready",
            "/metrics",
        ];
        for page in pages {
            let answer = self.caller.admin(page).await;
            assert_eq!(answer.status, 200, "{page}");
            for search in [&self.search, &learnt, &words] {
                search.assert_not_in(answer.text(), page);
            }
        }
        for id in &self.ids {
            let mut row = self
                .caller
                .admin(&format!("/admin/outbox/{id}"))
                .await
                .json();
            // The texts that are to be sent, which an operator may read.
            row.as_object_mut().unwrap().remove("payload").unwrap();
            for search in [&self.search, &learnt, &words] {
                search.assert_not_in(&row.to_string(), "a row");
            }
        }
        let log = self.caller.ended().await.join("\n");
        assert!(
            log.contains("refused:"),
            "the providers' words are in the log, masked"
        );
        for search in [&self.search, &learnt, &words] {
            search.assert_not_in(&log, "the log");
        }
        self.echo.stop().await;
    }
}

/// The provider's names are the proxy's to resolve.
fn behind_proxy(settings: Settings, echo: &Echo) -> Settings {
    let proxy = format!(
        "http://{PROXY_USER}:pass%40word%2Fof-the-proxy@{}",
        echo.address
    );
    settings
        .with("SMS_BASE_URL", "http://sms.provider.test")
        .with("FCM_BASE_URL", "http://fcm.provider.test")
        .with("PROVIDER_PROXY", proxy)
}

/// The mock's key with a token endpoint behind the proxy, and the lines of its private key.
async fn key_file(mock: &str) -> (NamedTempFile, Vec<String>) {
    let http = plain_http(Duration::from_secs(30)).unwrap();
    let answer = http
        .get(format!("{mock}mock/service-account"))
        .send()
        .await
        .unwrap();
    let mut key: Value = answer.json().await.unwrap();
    key["token_uri"] = json!("http://google.provider.test/token");
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), key.to_string()).unwrap();
    let pem = key["private_key"].as_str().unwrap();
    let lines = pem
        .lines()
        .filter(|line| line.len() == 64 && !line.contains(' '));
    let pieces: Vec<String> = lines.map(|line| line[..24].to_owned()).collect();
    assert!(pieces.len() > 20);
    (file, pieces)
}

async fn nothing_is_told(database: Database, dialect: &str) {
    let mut run = Run::start(&database, dialect).await;
    if dialect == "fcm" {
        // No token for the first one; it is told why, without what was signed.
        run.echo.token.store(400, SeqCst);
        let id = run.pay(1_000).await;
        let row = run
            .caller
            .row(&id, |row| row["last_error"].is_string())
            .await;
        let told = row["last_error"].as_str().unwrap();
        assert!(
            told.contains("invalid_grant: refused: ") && told.contains("***"),
            "{told}"
        );
        run.echo.token.store(200, SeqCst);
        run.caller.row(&id, |row| row["status"] == "SENT").await;
        run.ids.clear();
    }
    run.rejected().await;
    run.unknown().await;
    run.misconfigured().await;
    run.assert_untold().await;
}

on_both_databases! {
    async fn nothing_is_told_by_the_generic_gateway(database: Database) {
        nothing_is_told(database, "http").await;
    }
}

on_both_databases! {
    async fn nothing_is_told_by_twilio(database: Database) {
        nothing_is_told(database, "twilio").await;
    }
}

on_both_databases! {
    async fn nothing_is_told_by_solapi(database: Database) {
        nothing_is_told(database, "solapi").await;
    }
}

on_both_databases! {
    async fn nothing_is_told_by_sens(database: Database) {
        nothing_is_told(database, "sens").await;
    }
}

on_both_databases! {
    async fn nothing_is_told_by_fcm_and_google(database: Database) {
        nothing_is_told(database, "fcm").await;
    }
}
