//! PostgreSQL over TLS, against a server with a certificate of its own.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use testbed::postgres::Cluster;

use crate::support::books::open_url;

/// An authority: its certificate as PEM, and what it signs with.
fn authority(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    (pem, Issuer::new(params, key))
}

/// A server that takes nothing but TLS, with a certificate for `localhost`.
fn server(issuer: &Issuer<'static, KeyPair>) -> Cluster {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    Cluster::start(
        "ssl = on\nfsync = off\n",
        "hostssl all all 127.0.0.1/32 trust",
        &[
            ("server.crt", &certificate.pem()),
            ("server.key", &key.serialize_pem()),
        ],
    )
    .unwrap()
}

fn root_file(folder: &TempDir, name: &str, pem: &str) -> String {
    let file = folder.path().join(name);
    std::fs::write(&file, pem).unwrap();
    file.display().to_string()
}

/// Connects, and says why not; a session that stands is really encrypted.
async fn connect(server: &Cluster, host: &str, parameters: &str) -> Result<(), String> {
    let url = format!(
        "postgres://postgres@{host}:{}/postgres?{parameters}",
        server.port
    );
    let store = open_url(&url).await.map_err(|fault| fault.to_string())?;
    store.ping().await.map_err(|fault| fault.to_string())?;
    let encrypted = server
        .ask(
            "SELECT count(*) || ' ' || bool_and(ssl) FROM pg_stat_ssl \
         JOIN pg_stat_activity USING (pid) WHERE application_name = 'paybell'",
        )
        .unwrap();
    assert_eq!(encrypted, "1 true", "{parameters}");
    store.migrate().await.map_err(|fault| fault.to_string())?;
    drop(store);
    // The session is gone before the next case counts.
    crate::support::wait::until(
        "no session",
        std::time::Duration::from_secs(5),
        async || {
            let sessions =
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'paybell'";
            (server.ask(sessions).unwrap() == "0").then_some(())
        },
    )
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sslmode_means_what_libpq_means_by_it_on_postgres() {
    let folder = TempDir::new().unwrap();
    let (root, issuer) = authority("the right one");
    let (other_root, _) = authority("another");
    let server = server(&issuer);
    let right = root_file(&folder, "right.pem", &root);
    let wrong = root_file(&folder, "wrong.pem", &other_root);
    let (named, unnamed) = ("localhost", "127.0.0.1");
    for (host, parameters) in [
        (unnamed, "sslmode=prefer".to_owned()),
        (unnamed, "sslmode=require".to_owned()),
        (unnamed, format!("sslmode=require&sslrootcert={right}")),
        (named, format!("sslmode=verify-ca&sslrootcert={right}")),
        (unnamed, format!("sslmode=verify-ca&sslrootcert={right}")),
        (named, format!("sslmode=verify-full&sslrootcert={right}")),
    ] {
        let connected = connect(&server, host, &parameters).await;
        assert_eq!(connected, Ok(()), "{host}, {parameters}");
    }
    let stranger = "invalid peer certificate: UnknownIssuer";
    for (host, parameters, why) in [
        (unnamed, "sslmode=disable".to_owned(), "no encryption"),
        (
            unnamed,
            format!("sslmode=require&sslrootcert={wrong}"),
            stranger,
        ),
        (
            named,
            format!("sslmode=verify-ca&sslrootcert={wrong}"),
            stranger,
        ),
        (
            named,
            format!("sslmode=verify-full&sslrootcert={wrong}"),
            stranger,
        ),
        (
            unnamed,
            format!("sslmode=verify-full&sslrootcert={right}"),
            "certificate not valid for name",
        ),
    ] {
        let refused = connect(&server, host, &parameters).await.unwrap_err();
        assert!(refused.contains(why), "{host}, {parameters}: {refused}");
    }
}

/// A server without TLS is not talked to in the clear, unless that was allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn require_refuses_a_server_without_tls_on_postgres() {
    let database = crate::support::database::Database::postgres().await;
    let with = |mode: &str| format!("{}?sslmode={mode}", database.url());
    for mode in ["prefer", "disable"] {
        let store = open_url(&with(mode)).await.unwrap();
        store.ping().await.expect(mode);
    }
    let store = open_url(&with("require")).await.unwrap();
    let refused = store.ping().await.unwrap_err().to_string();
    assert!(refused.contains("TLS"), "{refused}");
}
