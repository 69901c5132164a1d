//! How a session reaches the server: plain or over TLS, as libpq's `sslmode` means it.

use std::sync::Arc;
use std::time::Duration;

use diesel::{ConnectionError, ConnectionResult};
use diesel_async::AsyncPgConnection;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres::NoTls;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::{PostgresUrl, RootCert, SslMode};
use crate::store::StoreError;

/// Makes sessions.
#[derive(Clone)]
pub struct Connector {
    config: tokio_postgres::Config,
    tls: Option<MakeRustlsConnect>,
}

impl Connector {
    /// Reads the certificates.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when they cannot be read or are none.
    pub fn new(url: &PostgresUrl, timeout: Duration) -> Result<Self, StoreError> {
        let mut config = url.config().clone();
        config
            .connect_timeout(timeout)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(timeout.saturating_mul(2))
            .application_name("paybell");
        let tls = match url.ssl_mode {
            SslMode::Disable => None,
            mode => Some(MakeRustlsConnect::new(client_config(mode, &url.root_cert)?)),
        };
        Ok(Self { config, tls })
    }

    /// Opens a session.
    ///
    /// # Errors
    /// When the server cannot be reached, or its certificate or our password is refused.
    pub async fn connect(&self) -> ConnectionResult<AsyncPgConnection> {
        match &self.tls {
            None => {
                let (client, connection) =
                    self.config.connect(NoTls).await.map_err(connection_error)?;
                AsyncPgConnection::try_from_client_and_connection(client, connection).await
            }
            Some(tls) => {
                let (client, connection) = self
                    .config
                    .connect(tls.clone())
                    .await
                    .map_err(connection_error)?;
                AsyncPgConnection::try_from_client_and_connection(client, connection).await
            }
        }
    }
}

/// The whole chain of causes: "error connecting to server" alone helps nobody.
fn connection_error(error: tokio_postgres::Error) -> ConnectionError {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    ConnectionError::BadConnection(text)
}

fn client_config(mode: SslMode, root_cert: &RootCert) -> Result<ClientConfig, StoreError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Failed(error.to_string()))?;
    // libpq: `require` with a root certificate verifies it as `verify-ca` does.
    let verifies = matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull)
        || (mode == SslMode::Require && *root_cert != RootCert::None);
    if !verifies {
        let verifier = Arc::new(Encrypted(provider));
        return Ok(builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth());
    }
    let roots = Arc::new(roots(root_cert)?);
    if mode == SslMode::VerifyFull {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let chain = WebPkiServerVerifier::builder_with_provider(roots, provider)
        .build()
        .map_err(|error| StoreError::Failed(format!("sslrootcert: {error}")))?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName(chain)))
        .with_no_client_auth())
}

fn roots(root_cert: &RootCert) -> Result<RootCertStore, StoreError> {
    let mut store = RootCertStore::empty();
    match root_cert {
        RootCert::None => {}
        RootCert::System => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        RootCert::File(path) => {
            let unreadable = |error: &dyn std::fmt::Display| {
                StoreError::Failed(format!("sslrootcert {}: {error}", path.display()))
            };
            let certificates = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| unreadable(&error))?;
            for certificate in certificates {
                store.add(certificate).map_err(|error| unreadable(&error))?;
            }
        }
    }
    if store.is_empty() {
        return Err(StoreError::Failed(
            "sslrootcert holds no certificate: name a PEM file that does".to_owned(),
        ));
    }
    Ok(store)
}

/// `prefer` and `require`: encrypted, with whomever it is.
#[derive(Debug)]
struct Encrypted(Arc<CryptoProvider>);

impl ServerCertVerifier for Encrypted {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// `verify-ca`: the chain is checked, the name is not.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verdict =
            self.0
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verdict {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
