//! Whether the API server of the kubelet's kubeconfig answers, and accepts the kubelet's client certificate.
//! One request is made, which only reads: for the lease that the kubelet renews or, without a certificate,
//! for a path that any client may read.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use http::header::{DATE, HOST};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use pleg::model::wall_time::WallTime;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Host;
use super::kubeconfig::{Credentials, Kubeconfig};
use crate::facts::host::{ApiAnswer, ApiServer, ClientCertificate, ClockDifference, Lease};
use crate::facts::{Fact, Missing};
use crate::limits::{API_SERVER, MAX_LEASE_BYTES};

const HTTPS: u16 = 443;

/// What the kubelet needs to report to its API server, according to its kubeconfig.
pub(super) struct Reporting {
    pub(super) client_certificate: Fact<ClientCertificate>,
    pub(super) api_server: Fact<ApiServer>,
}

impl Reporting {
    pub(super) fn missing(why: &Missing) -> Self {
        Self {
            client_certificate: Fact::missing(why, "the kubelet's client certificate"),
            api_server: Fact::missing(why, "the API server of the kubelet's kubeconfig"),
        }
    }
}

pub(super) fn ask(host: &Host) -> Reporting {
    let config = match Kubeconfig::read(host) {
        Ok(config) => config,
        Err(why) => return Reporting::missing(&why),
    };
    let missing = Reporting::missing(&Missing::NotAsked);
    let credentials = config.credentials(host);
    let client_certificate = match &credentials {
        Ok(credentials) => {
            let certificate = credentials.certificate();
            let certificate = certificate.ok_or("the file contains no certificate");
            Fact::of(certificate, &credentials.source)
        }
        Err(why) => Fact::missing(why, missing.client_certificate.source()),
    };
    let node = client_certificate.value().and_then(|it| it.node.clone());
    let identity = credentials.and_then(|credentials| {
        let node = node.ok_or("the client certificate names no node")?;
        Ok((credentials, node))
    });
    Reporting {
        client_certificate,
        api_server: Fact::of(server(host, &config, identity), missing.api_server.source()),
    }
}

/// The kubelet's client certificate with its key, and the node that it names; or why there is none.
type Identity = Result<(Credentials, String), Missing>;

fn server(host: &Host, config: &Kubeconfig, identity: Identity) -> Result<ApiServer, Missing> {
    let cluster = config.cluster()?;
    let uri = cluster.server.parse::<Uri>();
    let uri = uri.map_err(|_| Missing::from("the API server's address cannot be parsed"))?;
    let authority = cluster.authority(host)?;
    let credentials = identity.as_ref().ok().map(|(credentials, _)| credentials);
    let (tls, node) = match tls(&authority, credentials) {
        Ok(tls) => (tls, identity.map(|(_, node)| node)),
        // The key is invalid, or does not belong to the certificate.
        Err(why) if credentials.is_some() => (tls(&authority, None)?, Err(why)),
        Err(why) => return Err(why),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let response = runtime.block_on(async {
        let request = request(&uri, tls, node.as_deref().ok());
        timeout(API_SERVER, request).await
    });
    // This does not wait for a name resolution that has not ended.
    runtime.shutdown_background();
    let mut date = None;
    let (answer, lease) = match response {
        Ok(Ok(response)) => {
            date = response.date;
            (ApiAnswer::Answered, Ok(response.lease))
        }
        Ok(Err(error)) => match rejected(error.as_ref()).filter(|_| node.is_ok()) {
            Some(why) => (ApiAnswer::Answered, Ok(Lease::CertificateRejected(why))),
            None => (failed(error.as_ref()), Err(Missing::NotAsked)),
        },
        Err(_) => {
            let why = format!("no answer within {API_SERVER:?}");
            (ApiAnswer::Unreachable(why), Err(Missing::NotAsked))
        }
    };
    Ok(ApiServer {
        address: pleg_text::redact(&cluster.server).into_owned(),
        answer,
        clock: date.map(|there| ClockDifference::between(WallTime::now(), there)),
        lease: Fact::of(node.and(lease), "the lease of this node"),
    })
}

fn tls(authority: &str, credentials: Option<&Credentials>) -> Result<ClientConfig, Missing> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(authority.as_bytes()).flatten();
    roots.add_parsable_certificates(certificates);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let missing = |error: rustls::Error| Missing::from(error.to_string());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(missing)?
        .with_root_certificates(roots);
    let Some(credentials) = credentials else {
        return Ok(config.with_no_client_auth());
    };
    let chain = CertificateDer::pem_slice_iter(credentials.certificates.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes());
    // The parser's error may quote the file.
    let key = key.map_err(|_| Missing::from("the key of the client certificate cannot be read"))?;
    let config = config.with_client_auth_cert(chain.flatten().collect(), key);
    config.map_err(missing)
}

struct Response {
    /// The server's own time.
    date: Option<WallTime>,
    lease: Lease,
}

/// Requests the lease of `node` or, without a node, `/livez`.
async fn request(
    uri: &Uri,
    tls: ClientConfig,
    node: Option<&str>,
) -> Result<Response, Box<dyn Error>> {
    let host = uri.host().unwrap_or_default();
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(HTTPS);
    let stream = TcpStream::connect((name, port)).await?;
    let name = ServerName::try_from(name.to_owned())?;
    let stream = TlsConnector::from(Arc::new(tls))
        .connect(name, stream)
        .await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let path = match node {
        Some(node) => {
            format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}")
        }
        None => "/livez".to_owned(),
    };
    let below = uri.path().trim_end_matches('/');
    let request = Request::get(format!("{below}{path}")).header(HOST, host);
    let request = request.body(Empty::<Bytes>::new())?;
    // This task ends with the tokio runtime.
    tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let date = response.headers().get(DATE);
    let date = date.and_then(|date| rfc2822::parse(date.to_str().ok()?).ok());
    Ok(Response {
        date: date.map(|date| WallTime::from(date.timestamp())),
        lease: match response.status() {
            StatusCode::OK if node.is_some() => renewed(response.into_body()).await,
            StatusCode::UNAUTHORIZED => Lease::Unauthorized,
            StatusCode::FORBIDDEN => Lease::Forbidden,
            status => Lease::Other(status.as_u16()),
        },
    })
}

async fn renewed(body: Incoming) -> Lease {
    let body = Limited::new(body, MAX_LEASE_BYTES).collect().await;
    let lease = body.ok().and_then(|body| {
        let lease: Value = serde_json::from_slice(&body.to_bytes()).ok()?;
        lease["spec"]["renewTime"]
            .as_str()?
            .parse::<Timestamp>()
            .ok()
    });
    match lease {
        Some(time) => Lease::Renewed {
            seconds_ago: WallTime::now().since(WallTime::from(time)).as_secs(),
        },
        None => Lease::Other(StatusCode::OK.as_u16()),
    }
}

/// The TLS error that an error is or contains.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let of_io = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(tls) = of_io.or_else(|| error.downcast_ref()) {
            return Some(tls);
        }
        next = error.source();
    }
    None
}

/// The alert by which the server has rejected the client's certificate, if it has.
fn rejected(error: &(dyn Error + 'static)) -> Option<String> {
    match tls_error(error)? {
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied),
        ) => Some(format!("{alert:?}")),
        _ => None,
    }
}

/// Why there was no response.
fn failed(error: &(dyn Error + 'static)) -> ApiAnswer {
    if let Some(tls) = tls_error(error) {
        return match tls {
            rustls::Error::InvalidCertificate(_) => ApiAnswer::CertificateRejected(tls.to_string()),
            _ => ApiAnswer::Failed(tls.to_string()),
        };
    }
    match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(ErrorKind::ConnectionRefused) => ApiAnswer::Refused,
        Some(
            ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown,
        ) => ApiAnswer::Unreachable(error.to_string()),
        _ => ApiAnswer::Failed(pleg_text::redacted(error.to_string())),
    }
}
