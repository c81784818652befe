//! HTTP probes.
//!
//! As in the kubelet, each request has its own connection, no proxy is used, and certificates are
//! not verified. Up to ten redirects are followed. A redirect to another host is not followed, and
//! counts as a success. `Location` may be a URL, `//host/path`, an absolute path, a relative path or
//! a query. `..` in a relative path is not resolved.

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, HOST, LOCATION, USER_AGENT};
use hyper::http::uri::Authority;
use hyper::rt::{Read, Write};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use super::path::request_target;
use super::{tcp, tls};
use crate::spec::Scheme;

/// The largest number of redirects that are followed, as in the kubelet.
const MAX_REDIRECTS: usize = 10;

/// The number of bytes of a response that are read. A response that breaks off earlier is a failure.
const MAX_BODY_BYTES: usize = 10 * 1024;

const PROBE_USER_AGENT: &str = concat!("pleg-probe/", env!("CARGO_PKG_VERSION"));

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) scheme: Scheme,
    /// A name or an address; IPv6 with or without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// The path with the query. It begins with `/` and is not escaped.
    pub(super) path: String,
}

/// Sends the request and follows redirects. An error is the reason for the failure.
pub(super) async fn get(mut target: Target, headers: &[(String, String)]) -> Result<(), String> {
    for _ in 0..=MAX_REDIRECTS {
        let response = send(&target, headers).await?;
        let status = response.status().as_u16();
        let location = response.headers().get(LOCATION).cloned();
        match (status, location) {
            (301 | 302 | 303 | 307 | 308, Some(location)) => {
                let location = location.to_str().map_err(|_| "the redirect is not text")?;
                let next = target.resolve(location)?;
                if next.bare_host() != target.bare_host() {
                    return Ok(());
                }
                target = next;
            }
            (200..=399, _) => return read(response).await,
            _ => return Err(format!("HTTP status {status}")),
        }
    }
    Err(format!("more than {MAX_REDIRECTS} redirects"))
}

async fn send(target: &Target, headers: &[(String, String)]) -> Result<Response<Incoming>, String> {
    let request = request(target, headers)?;
    let stream = tcp::open(&target.host, target.port).await?;
    match target.scheme {
        Scheme::Http => exchange(TokioIo::new(stream), request).await,
        Scheme::Https => {
            let stream = tls::wrap(stream, target.bare_host()).await?;
            exchange(TokioIo::new(stream), request).await
        }
    }
}

async fn exchange<T: Read + Write + Unpin + Send + 'static>(
    stream: T,
    request: Request<Empty<Bytes>>,
) -> Result<Response<Incoming>, String> {
    let (mut sender, connection) = http1::handshake(stream).await.map_err(no_answer)?;
    // This task ends with the response, or when the request is dropped.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(no_answer)
}

fn request(target: &Target, headers: &[(String, String)]) -> Result<Request<Empty<Bytes>>, String> {
    let is_given = |name: &str| headers.iter().any(|(it, _)| it.eq_ignore_ascii_case(name));
    let mut request = Request::get(request_target(&target.path)).header(CONNECTION, "close");
    for (name, value) in [
        (HOST, target.authority()),
        (USER_AGENT, PROBE_USER_AGENT.to_owned()),
        (ACCEPT, "*/*".to_owned()),
    ] {
        if !is_given(name.as_str()) {
            request = request.header(name, value);
        }
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Empty::new());
    request.map_err(|error| format!("the request is invalid: {error}"))
}

async fn read(response: Response<Incoming>) -> Result<(), String> {
    let mut body = response.into_body();
    let mut length = 0;
    while length < MAX_BODY_BYTES {
        match body.frame().await {
            None => break,
            Some(Ok(frame)) => length += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(error)) => return Err(no_answer(error)),
        }
    }
    Ok(())
}

fn no_answer(error: hyper::Error) -> String {
    format!("no answer: {error}")
}

impl Target {
    fn bare_host(&self) -> &str {
        tcp::bare(&self.host)
    }

    fn authority(&self) -> String {
        let host = self.bare_host();
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        match (self.scheme, self.port) {
            (Scheme::Http, 80) | (Scheme::Https, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// The target to which the `Location` in a response from this target leads.
    fn resolve(&self, location: &str) -> Result<Self, String> {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        // The fragment is not sent.
        let location = location.split('#').next().unwrap_or_default();
        let (path, _) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let absolute = if location.contains("://") {
            location.to_owned()
        } else if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else {
            let rest = if location.starts_with('/') {
                location.to_owned()
            } else if location.is_empty() || location.starts_with('?') {
                format!("{path}{location}")
            } else {
                let (folder, _) = path.rsplit_once('/').unwrap_or_default();
                format!("{folder}/{location}")
            };
            return Ok(Self {
                path: rest,
                ..self.clone()
            });
        };
        let bad = || format!("the redirect to {location:?} is not a URL");
        let (scheme, rest) = absolute.split_once("://").ok_or_else(bad)?;
        let (scheme, port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            _ => return Err(bad()),
        };
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let authority: Authority = host.parse().map_err(|_| bad())?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            scheme,
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(port),
            path: format!("{slash}{path}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, port: u16, path: &str) -> Target {
        Target {
            scheme: Scheme::Http,
            host: host.into(),
            port,
            path: path.into(),
        }
    }

    #[test]
    fn each_form_of_a_location_is_resolved() {
        let from = target("10.0.0.1", 8080, "/a/b?c=d");
        let resolved = |location: &str| from.resolve(location).unwrap();
        assert_eq!(resolved("/x?y"), target("10.0.0.1", 8080, "/x?y"));
        assert_eq!(resolved("x#part"), target("10.0.0.1", 8080, "/a/x"));
        assert_eq!(resolved("?y"), target("10.0.0.1", 8080, "/a/b?y"));
        assert_eq!(resolved("http://other/x"), target("other", 80, "/x"));
        assert_eq!(resolved("//10.0.0.1:81"), target("10.0.0.1", 81, "/"));
        assert_eq!(resolved("http://other/a b"), target("other", 80, "/a b"));
        assert_eq!(resolved("http://other?a b"), target("other", 80, "/?a b"));
        assert!(from.resolve("ftp://other/x").is_err());
        assert!(from.resolve("http://").is_err());
    }

    #[test]
    fn the_host_header_has_brackets_where_needed_and_no_default_port() {
        assert_eq!(target("fd00::1", 8080, "/").authority(), "[fd00::1]:8080");
        assert_eq!(target("[fd00::1]", 80, "/").authority(), "[fd00::1]");
        assert_eq!(target("web", 80, "/").authority(), "web");
    }
}
