//! Whether the API server of the kubelet's kubeconfig answers: one request without credentials, to a path
//! that everybody may read.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use http::header::{DATE, HOST};
use http::{Request, Uri};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use jiff::fmt::rfc2822;
use pleg::model::wall_time::WallTime;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Host;
use super::kubeconfig::Kubeconfig;
use crate::facts::host::{ApiAnswer, ApiServer, ClockDifference};
use crate::facts::{Fact, Missing};

/// A kubelet gives up a renewal of its lease after ten seconds; a healthy server answers within
/// milliseconds.
const LIMIT: Duration = Duration::from_secs(4);
const HTTPS: u16 = 443;

pub(super) fn ask(host: &Host) -> Fact<ApiServer> {
    match server(host) {
        Ok(server) => Fact::known(server, "the API server of the kubelet's kubeconfig"),
        Err(why) => Fact::missing(why, "the API server of the kubelet's kubeconfig"),
    }
}

fn server(host: &Host) -> Result<ApiServer, Missing> {
    let cluster = Kubeconfig::read(host)?.cluster()?;
    let uri: Uri = cluster
        .server
        .parse()
        .map_err(|_| Missing::from("the API server's address cannot be parsed"))?;
    let tls = tls(&cluster.authority(host)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let asked = runtime.block_on(async { timeout(LIMIT, date(&uri, tls)).await });
    // A name that is being resolved is not waited for.
    runtime.shutdown_background();
    let (answer, clock) = match asked {
        Ok(Ok(there)) => {
            let clock = there.map(|there| ClockDifference::between(WallTime::now(), there));
            (ApiAnswer::Answered, clock)
        }
        Ok(Err(error)) => (failed(error.as_ref()), None),
        Err(_) => {
            let why = format!("no answer within {LIMIT:?}");
            (ApiAnswer::Unreachable(why), None)
        }
    };
    Ok(ApiServer {
        address: pleg_text::redacted(cluster.server),
        answer,
        clock,
    })
}

fn tls(authority: &[u8]) -> Result<ClientConfig, Missing> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(authority).flatten();
    roots.add_parsable_certificates(certificates);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Missing::from(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// The server's own time, if it answers; whatever its status says.
async fn date(uri: &Uri, tls: ClientConfig) -> Result<Option<WallTime>, Box<dyn Error>> {
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
    let request = Request::get("/livez").header(HOST, host);
    let request = request.body(Empty::<Bytes>::new())?;
    // It ends with the runtime.
    tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let date = response.headers().get(DATE);
    let date = date.and_then(|date| rfc2822::parse(date.to_str().ok()?).ok());
    Ok(date.map(|date| WallTime::from(date.timestamp())))
}

/// By the type of the error.
fn failed(error: &(dyn Error + 'static)) -> ApiAnswer {
    let io = error.downcast_ref::<io::Error>();
    let inner = io.and_then(io::Error::get_ref);
    if let Some(tls) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return match tls {
            rustls::Error::InvalidCertificate(_) => ApiAnswer::CertificateRejected(tls.to_string()),
            _ => ApiAnswer::Failed(tls.to_string()),
        };
    }
    match io.map(io::Error::kind) {
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
