//! `postgres://` URLs with libpq's TLS settings.
//!
//! tokio-postgres reads neither `verify-ca`, `verify-full` nor `sslrootcert`, so the TLS parameters
//! are taken off the URL first and the rest is left to it. Their meaning is libpq's: see "SSL
//! Support" in PostgreSQL's manual, <https://www.postgresql.org/docs/current/libpq-ssl.html>.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_postgres::config::Host;

/// How far a connection to PostgreSQL is protected; libpq's names and meanings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server can; the default.
    Prefer,
    /// Encrypted, to whoever answers.
    Require,
    /// Encrypted, and the server's certificate comes from a trusted authority.
    VerifyCa,
    /// Like [`SslMode::VerifyCa`], and the certificate names the host.
    VerifyFull,
}

impl SslMode {
    const ALL: [Self; 5] = [
        Self::Disable,
        Self::Prefer,
        Self::Require,
        Self::VerifyCa,
        Self::VerifyFull,
    ];

    /// The name used in URLs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    /// What tokio-postgres must ask the server for; checking the certificate is the connector's.
    fn on_the_wire(self) -> tokio_postgres::config::SslMode {
        match self {
            Self::Disable => tokio_postgres::config::SslMode::Disable,
            Self::Prefer => tokio_postgres::config::SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => {
                tokio_postgres::config::SslMode::Require
            }
        }
    }
}

impl FromStr for SslMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mode = Self::ALL.into_iter().find(|mode| mode.as_str() == name);
        mode.ok_or_else(|| {
            let name = super::mask::one_line(name);
            format!("has sslmode={name}: use disable, prefer, require, verify-ca or verify-full")
        })
    }
}

/// Which authorities may vouch for the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootCert {
    /// Nobody is asked to.
    None,
    /// The operating system's.
    System,
    /// Those in this PEM file, which held at least one usable certificate when it was checked.
    File(PathBuf),
}

/// A checked `postgres://` URL. Neither `Debug` nor `Display` shows the password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    config: Box<tokio_postgres::Config>,
    /// Protection of the connection; already stricter than written where libpq would be.
    pub ssl_mode: SslMode,
    /// Trusted authorities.
    pub root_cert: RootCert,
}

impl PostgresUrl {
    /// What to connect with: everything but the certificate check, which [`Self::ssl_mode`] and
    /// [`Self::root_cert`] decide.
    pub fn config(&self) -> &tokio_postgres::Config {
        &self.config
    }

    /// # Errors
    /// What is wrong with the URL and how to mend it, without any part that may be secret.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let (rest, tls) = split_off_tls(url)?;
        let mut config = tokio_postgres::Config::from_str(&rest).map_err(|e| not_a_url(&e))?;
        require_host(&config)?;
        let (ssl_mode, root_cert) = tls.resolve()?;
        config.ssl_mode(on_the_wire(&config, ssl_mode));
        Ok(Self {
            config: Box::new(config),
            ssl_mode,
            root_cert,
        })
    }
}

/// libpq ignores TLS on Unix sockets, whatever the mode.
fn on_the_wire(config: &tokio_postgres::Config, mode: SslMode) -> tokio_postgres::config::SslMode {
    let hosts = config.get_hosts();
    let local = !hosts.is_empty() && hosts.iter().all(|host| matches!(host, Host::Unix(_)));
    if local {
        SslMode::Disable.on_the_wire()
    } else {
        mode.on_the_wire()
    }
}

fn require_host(config: &tokio_postgres::Config) -> Result<(), String> {
    let hosts = config.get_hosts();
    let nameless = |host: &Host| matches!(host, Host::Tcp(name) if name.is_empty());
    if hosts.iter().any(nameless) || (hosts.is_empty() && config.get_hostaddrs().is_empty()) {
        return Err("names no host: write postgres://USER:PASSWORD@HOST:PORT/DATABASE".to_owned());
    }
    Ok(())
}

/// tokio-postgres names the option at fault, never its value.
fn not_a_url(error: &tokio_postgres::Error) -> String {
    let cause = error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string);
    format!(
        "cannot be used: {cause}; write postgres://USER:PASSWORD@HOST:PORT/DATABASE and \
         percent-encode special characters"
    )
}

/// The TLS parameters as written.
#[derive(Default)]
struct TlsParameters {
    mode: Option<String>,
    root_cert: Option<String>,
}

impl TlsParameters {
    fn resolve(&self) -> Result<(SslMode, RootCert), String> {
        let mode = self.mode.as_deref().map(SslMode::from_str).transpose()?;
        match (mode, self.root_cert.as_deref()) {
            (_, Some("")) => Err("has an empty sslrootcert: give a file or system".to_owned()),
            (None | Some(SslMode::VerifyFull), Some("system")) => {
                Ok((SslMode::VerifyFull, RootCert::System))
            }
            // As in libpq: anybody may get a certificate of a public authority.
            (Some(mode), Some("system")) => Err(format!(
                "has sslrootcert=system, which sslmode={} is too weak for: use \
                 sslmode=verify-full",
                mode.as_str()
            )),
            (mode, Some(path)) => {
                let path = PathBuf::from(path);
                check_pem(&path)?;
                // As in libpq: `require` with an authority at hand checks it.
                let mode = match mode.unwrap_or(SslMode::Prefer) {
                    SslMode::Require => SslMode::VerifyCa,
                    mode => mode,
                };
                Ok((mode, RootCert::File(path)))
            }
            (Some(mode @ (SslMode::VerifyCa | SslMode::VerifyFull)), None) => Err(format!(
                "has sslmode={} but no authority to check by: add sslrootcert=FILE (PEM), or \
                 sslrootcert=system with verify-full",
                mode.as_str()
            )),
            (mode, None) => Ok((mode.unwrap_or(SslMode::Prefer), RootCert::None)),
        }
    }
}

/// Splits a URL into what tokio-postgres reads and the TLS parameters.
fn split_off_tls(url: &str) -> Result<(String, TlsParameters), String> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    require_one_reading(rest)?;
    let (host_and_path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut tls = TlsParameters::default();
    let mut others = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = decode(pair);
        let slot = match name.as_str() {
            "sslmode" => &mut tls.mode,
            "sslrootcert" => &mut tls.root_cert,
            _ => {
                others.push(pair);
                continue;
            }
        };
        if slot.replace(value).is_some() {
            return Err(format!("gives {name} twice: keep one"));
        }
    }
    let separator = if others.is_empty() { "" } else { "?" };
    let others = others.join("&");
    Ok((
        format!("{scheme}://{host_and_path}{separator}{others}"),
        tls,
    ))
}

/// Refuses what libpq and tokio-postgres would split at different places: part of a password could
/// end up as a host or a parameter, and be shown.
fn require_one_reading(rest: &str) -> Result<(), String> {
    let Some((credentials, after)) = rest.split_once('@') else {
        return Ok(());
    };
    if credentials.contains(['/', '?']) || after.contains('@') {
        return Err(
            "can be read in two ways: percent-encode / ? and @ in the password and in \
                    parameters, as %2F, %3F and %40"
                .to_owned(),
        );
    }
    Ok(())
}

/// Percent-decodes one `name=value`; a plus sign is a plus sign, as in libpq.
fn decode(pair: &str) -> (String, String) {
    url::form_urlencoded::parse(pair.replace('+', "%2B").as_bytes())
        .next()
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .unwrap_or_default()
}

fn check_pem(path: &Path) -> Result<(), String> {
    let problem = |what: &str| {
        let path = super::mask::one_line(&path.display().to_string());
        format!("has sslrootcert={path}, {what}: give a readable PEM file with a CA certificate")
    };
    let pem =
        std::fs::read(path).map_err(|error| problem(&format!("which cannot be read ({error})")))?;
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        certificate
            .ok()
            .and_then(|certificate| store.add(certificate).ok())
            .ok_or_else(|| problem("which holds a certificate that cannot be used"))?;
    }
    if store.is_empty() {
        return Err(problem("which holds no certificate"));
    }
    Ok(())
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            let password = if self.config.get_password().is_some() {
                ":********"
            } else {
                ""
            };
            write!(f, "{user}{password}@")?;
        }
        f.write_str(&hosts(&self.config))?;
        if let Some(database) = self.config.get_dbname() {
            write!(f, "/{database}")?;
        }
        write!(f, "?sslmode={}", self.ssl_mode.as_str())?;
        match &self.root_cert {
            RootCert::None => Ok(()),
            RootCert::System => f.write_str("&sslrootcert=system"),
            RootCert::File(path) => write!(f, "&sslrootcert={}", path.display()),
        }
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

fn hosts(config: &tokio_postgres::Config) -> String {
    let names: Vec<String> = if config.get_hosts().is_empty() {
        config
            .get_hostaddrs()
            .iter()
            .map(ToString::to_string)
            .collect()
    } else {
        config.get_hosts().iter().map(host_name).collect()
    };
    let ports = config.get_ports();
    let with_port = names.into_iter().enumerate().map(|(index, name)| {
        // One port serves all hosts that have none of their own.
        let port = ports.get(index).or(ports.first());
        port.map_or_else(|| name.clone(), |port| format!("{name}:{port}"))
    });
    with_port.collect::<Vec<_>>().join(",")
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

#[cfg(test)]
#[path = "postgres_url_tests.rs"]
mod tests;
