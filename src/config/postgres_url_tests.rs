#![expect(clippy::unwrap_used, reason = "a test may panic")]

use super::*;

fn modes(url: &str) -> (SslMode, RootCert) {
    let parsed = PostgresUrl::parse(url).unwrap_or_else(|problem| panic!("{url}: {problem}"));
    (parsed.ssl_mode, parsed.root_cert)
}

fn problem(url: &str) -> String {
    PostgresUrl::parse(url).unwrap_err()
}

/// A folder with a file `ca.pem` that holds one certificate.
fn authority() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    let certified = rcgen::generate_simple_self_signed(vec!["db.example".to_owned()]).unwrap();
    std::fs::write(&path, certified.cert.pem()).unwrap();
    (folder, path)
}

#[test]
fn modes_mean_what_libpq_says() {
    let (_folder, ca) = authority();
    let file = || RootCert::File(ca.clone());
    let ca = ca.display();
    for (query, expected) in [
        (String::new(), (SslMode::Prefer, RootCert::None)),
        (
            "?sslmode=disable".to_owned(),
            (SslMode::Disable, RootCert::None),
        ),
        (
            "?sslmode=prefer".to_owned(),
            (SslMode::Prefer, RootCert::None),
        ),
        (
            "?sslmode=require".to_owned(),
            (SslMode::Require, RootCert::None),
        ),
        (
            format!("?sslmode=require&sslrootcert={ca}"),
            (SslMode::VerifyCa, file()),
        ),
        (
            format!("?sslmode=verify-ca&sslrootcert={ca}"),
            (SslMode::VerifyCa, file()),
        ),
        (
            format!("?sslrootcert={ca}&sslmode=verify-full"),
            (SslMode::VerifyFull, file()),
        ),
        (
            "?sslmode=verify-full&sslrootcert=system".to_owned(),
            (SslMode::VerifyFull, RootCert::System),
        ),
        (
            "?sslrootcert=system".to_owned(),
            (SslMode::VerifyFull, RootCert::System),
        ),
    ] {
        assert_eq!(
            modes(&format!("postgres://u@h/db{query}")),
            expected,
            "{query}"
        );
    }
}

#[test]
fn the_wire_mode_follows_and_unix_sockets_stay_plain() {
    use tokio_postgres::config::SslMode as Wire;
    for (url, expected) in [
        ("postgres://u@h/db", Wire::Prefer),
        ("postgres://u@h/db?sslmode=disable", Wire::Disable),
        ("postgres://u@h/db?sslrootcert=system", Wire::Require),
        (
            "postgres://u@%2Frun%2Fpostgresql/db?sslmode=require",
            Wire::Disable,
        ),
    ] {
        assert_eq!(
            PostgresUrl::parse(url).unwrap().config().get_ssl_mode(),
            expected,
            "{url}"
        );
    }
}

#[test]
fn what_cannot_be_verified_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate here").unwrap();
    let broken = folder.path().join("broken.pem");
    std::fs::write(
        &broken,
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    for (query, hint) in [
        ("sslmode=verify-ca".to_owned(), "add sslrootcert=FILE"),
        ("sslmode=verify-full".to_owned(), "add sslrootcert=FILE"),
        (
            "sslmode=verify-ca&sslrootcert=system".to_owned(),
            "use sslmode=verify-full",
        ),
        (
            "sslmode=require&sslrootcert=system".to_owned(),
            "use sslmode=verify-full",
        ),
        ("sslmode=allow".to_owned(), "use disable, prefer"),
        ("sslmode=".to_owned(), "use disable, prefer"),
        ("sslrootcert=".to_owned(), "give a file or system"),
        (
            "sslmode=require&sslmode=disable".to_owned(),
            "gives sslmode twice",
        ),
        (
            "sslrootcert=/nonexistent/ca.pem".to_owned(),
            "cannot be read",
        ),
        (
            format!("sslrootcert={}", empty.display()),
            "holds no certificate",
        ),
        (
            format!("sslrootcert={}", broken.display()),
            "cannot be used",
        ),
    ] {
        let problem = problem(&format!("postgres://u:hidden@h/db?{query}"));
        assert!(problem.contains(hint), "{query}: {problem}");
        assert!(!problem.contains("hidden"), "{problem}");
    }
}

#[test]
fn unknown_parameters_are_named_and_known_ones_kept() {
    assert!(problem("postgres://u@h/db?sslcert=x").contains("sslcert"));
    assert!(problem("postgres://u@h/db?poolsize=3").contains("poolsize"));
    let url = "postgres://u@h/db?application_name=a%20b&sslmode=require&connect_timeout=3";
    let parsed = PostgresUrl::parse(url).unwrap();
    assert_eq!(parsed.config().get_application_name(), Some("a b"));
    assert!(parsed.config().get_connect_timeout().is_some());
}

#[test]
fn passwords_keep_their_special_characters_and_are_never_shown() {
    let parsed =
        PostgresUrl::parse("postgres://u:p%3Fw%40x%2Fy&sslmode=z#+@h:6432/db?sslmode=disable")
            .unwrap();
    assert_eq!(
        parsed.config().get_password(),
        Some(&b"p?w@x/y&sslmode=z#+"[..])
    );
    assert_eq!(
        parsed.to_string(),
        "postgres://u:********@h:6432/db?sslmode=disable"
    );
    assert!(!format!("{parsed:?}").contains("sslmode=z"));
}

#[test]
fn an_ambiguous_password_is_refused_unseen() {
    for url in [
        "postgres://u:first@hidden@h/db",
        "postgres://u:first/hidden@h/db",
        "postgres://u:first?hidden=1@h/db",
        "postgres://u:first@b?hidden=1@h/db",
        "postgres://h/db?application_name=hidden@b",
    ] {
        let problem = problem(url);
        assert!(
            problem.contains("%40") && !problem.contains("hidden"),
            "{url}: {problem}"
        );
    }
}

#[test]
fn a_host_is_needed() {
    for url in [
        "postgres://",
        "postgres:///db",
        "postgres://u:p@/db",
        "postgres://:5432/db",
    ] {
        assert!(problem(url).contains("names no host"), "{url}");
    }
    assert!(problem("postgres://h:port/db").contains("port"));
}

#[test]
fn display_names_every_host() {
    let parsed = PostgresUrl::parse("postgresql://u@a:1,[::1]:2/db").unwrap();
    assert_eq!(
        parsed.to_string(),
        "postgres://u@a:1,[::1]:2/db?sslmode=prefer"
    );
}
