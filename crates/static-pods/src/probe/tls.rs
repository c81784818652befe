//! TLS for HTTPS probes. As in the kubelet, certificates are not verified: a probe connects to an
//! address that no certificate contains, and sends only what the manifest contains.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Encrypts a connection.
pub(super) async fn wrap(stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, String> {
    let connector = TlsConnector::from(config()?);
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| format!("{host} is not a name of a host: {error}"))?;
    let stream = connector.connect(name, stream).await;
    stream.map_err(|error| format!("no TLS: {error}"))
}

fn config() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CONFIG.get_or_init(new_config).clone()
}

fn new_config() -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(default_provider());
    let schemes = provider.signature_verification_algorithms;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("no TLS: {error}"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified(schemes.supported_schemes())))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Accepts any certificate.
#[derive(Debug)]
struct Unverified(Vec<SignatureScheme>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}
