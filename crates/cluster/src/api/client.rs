//! Sends requests with a deadline, reads answers of a bounded size, and reads watches line by line.

use std::marker::PhantomData;
use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderValue, Response, StatusCode, header, request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::Client;
use kube::client::Body;
use kube::config::Config;
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio::time::timeout;

use super::failure::{Failure, REQUEST_TIMEOUT, chain, garbage};

/// The maximum size of an object: etcd allows 1.5 MB.
const MAX_OBJECT_BYTES: usize = 4 << 20;

/// The name of this client in the server's audit log.
const USER_AGENT_VALUE: &str = concat!("pleg/", env!("CARGO_PKG_VERSION"));

/// An API server, with credentials for it.
#[derive(Clone)]
pub(crate) struct ApiClient {
    client: Client,
}

/// The properties of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSpec {
    /// The permission that the request needs, as RBAC names it.
    pub(crate) permission: &'static str,
    /// The object of the request, for the error if it is not found.
    pub(crate) object: &'static str,
    /// The maximum number of bytes of the answer.
    pub(crate) max_bytes: usize,
}

impl RequestSpec {
    /// A request for a single object.
    pub(crate) const fn object(permission: &'static str, object: &'static str) -> Self {
        Self {
            permission,
            object,
            max_bytes: MAX_OBJECT_BYTES,
        }
    }
}

/// A line of a watch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WatchEvent<T> {
    /// The object exists, with this content.
    Exists(T),
    /// The object was deleted.
    Deleted(T),
    /// Nothing happened up to this version.
    Bookmark(T),
}

/// An open watch.
pub(crate) struct Watch<T> {
    body: Body,
    max_bytes: usize,
    /// Received bytes that are not returned yet.
    received: BytesMut,
    /// How many of the received bytes are known to contain no line break.
    searched: usize,
    of: PhantomData<fn() -> T>,
}

impl ApiClient {
    /// A client of the server with this configuration.
    pub(crate) fn new(mut config: Config) -> Result<Self, Failure> {
        // The caller decides about retries.
        config.default_retry = false;
        check(&mut config)?;
        let unusable = |_| Failure::Credentials("no client can be made from them".to_owned());
        let client = Client::try_from(config).map_err(unusable)?;
        Ok(Self { client })
    }

    /// Reads an object or a list.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        spec: RequestSpec,
    ) -> Result<T, Failure> {
        let request = http::Request::get(path).header(header::ACCEPT, "application/json");
        object(&self.send(request, Body::empty(), spec).await?)
    }

    /// Sends a JSON value with the content type of the request.
    pub(crate) async fn write(
        &self,
        request: request::Builder,
        body: &Value,
        spec: RequestSpec,
    ) -> Result<(), Failure> {
        let body = Body::from(body.to_string().into_bytes());
        let answer = self.send(request, body, spec).await?;
        object::<IgnoredAny>(&answer).map(drop)
    }

    async fn send(
        &self,
        request: request::Builder,
        body: Body,
        spec: RequestSpec,
    ) -> Result<Vec<u8>, Failure> {
        let request = request.header(header::USER_AGENT, USER_AGENT_VALUE);
        let request = request.body(body).map_err(garbage)?;
        // The deadline includes the body. The outer result is that of the connection.
        let answer = self.answered(async {
            let response = self.client.send(request).await?;
            Ok(async { read(checked(response, spec).await?, spec.max_bytes).await }.await)
        });
        answer.await?
    }

    /// Opens a watch.
    pub(crate) async fn watch<T>(
        &self,
        path: &str,
        spec: RequestSpec,
    ) -> Result<Watch<T>, Failure> {
        let request = http::Request::get(path).header(header::ACCEPT_ENCODING, "identity");
        let request = request.header(header::USER_AGENT, USER_AGENT_VALUE);
        let request = request.body(Body::empty()).map_err(garbage)?;
        let response = self.answered(self.client.send(request)).await?;
        Ok(Watch {
            body: checked(response, spec).await?.into_body(),
            max_bytes: spec.max_bytes,
            received: BytesMut::new(),
            searched: 0,
            of: PhantomData,
        })
    }

    /// Waits for an answer within the deadline.
    async fn answered<T>(
        &self,
        answer: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failure> {
        match timeout(REQUEST_TIMEOUT, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            // The output of a command may contain a secret.
            Ok(Err(kube::Error::Auth(_))) => {
                let why = "the file or command that provides them failed";
                Err(Failure::Credentials(why.to_owned()))
            }
            Ok(Err(error)) => Err(Failure::Unreachable(chain(&error))),
            Err(_) => Err(Failure::TimedOut),
        }
    }
}

impl<T: DeserializeOwned> Watch<T> {
    /// The next line; `None` once the server has ended the watch. If the future is dropped, no line
    /// is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<WatchEvent<T>>, Failure> {
        loop {
            while let Some(line) = self.line() {
                if let Some(event) = parse_event(&line)? {
                    return Ok(Some(event));
                }
            }
            if self.received.len() > self.max_bytes {
                return Err(Failure::Garbage("a line of a watch is too long".to_owned()));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failure::Unreachable(chain(&error))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.received.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    fn line(&mut self) -> Option<BytesMut> {
        let new = &self.received[self.searched..];
        let Some(end) = new.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.received.len();
            return None;
        };
        let line = self.received.split_to(self.searched + end + 1);
        self.searched = 0;
        Some(line)
    }
}

/// Refuses values that would make the client panic, and secrets that would be logged.
fn check(config: &mut Config) -> Result<(), Failure> {
    let wrong = |what: &str| Err(Failure::Credentials(what.to_owned()));
    let authority = config.cluster_url.authority();
    if authority.is_some_and(|authority| authority.as_str().contains('@')) {
        return wrong("the server's address has a user name in it");
    }
    let user = &mut config.auth_info;
    if let Some(token) = &user.token {
        // A token that was written by an editor ends with a line break.
        let token = token.expose_secret().trim().to_owned();
        if HeaderValue::from_str(&token).is_err() {
            return wrong("the token contains invalid characters");
        }
        user.token = Some(token.into());
    }
    let groups = user.impersonate_groups.iter().flatten();
    let mut names = user.impersonate.iter().chain(groups);
    if names.any(|name| HeaderValue::from_str(name).is_err()) {
        return wrong("the name of an impersonated user or group contains invalid characters");
    }
    Ok(())
}

/// Parses an object: a proxy may answer 200 with something else.
fn object<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Failure> {
    match answer.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(answer).map_err(garbage),
        _ => Err(Failure::Garbage("it is not a JSON object".to_owned())),
    }
}

fn parse_event<T: DeserializeOwned>(line: &[u8]) -> Result<Option<WatchEvent<T>>, Failure> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(rename = "type")]
        kind: String,
        object: Value,
    }
    let Line { kind, object } = serde_json::from_slice(line).map_err(garbage)?;
    if kind == "ERROR" {
        let code = object["code"].as_u64().unwrap_or_default();
        return Err(match u16::try_from(code) {
            Ok(410) => Failure::Expired,
            code => Failure::Busy {
                code: code.unwrap_or_default(),
                retry_after: Duration::ZERO,
            },
        });
    }
    let object = || serde_json::from_value(object).map_err(garbage);
    Ok(match kind.as_str() {
        "ADDED" | "MODIFIED" => Some(WatchEvent::Exists(object()?)),
        "DELETED" => Some(WatchEvent::Deleted(object()?)),
        "BOOKMARK" => Some(WatchEvent::Bookmark(object()?)),
        _ => None,
    })
}

/// The answer, unless it is a failure.
async fn checked(response: Response<Body>, spec: RequestSpec) -> Result<Response<Body>, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|it| it.to_str().ok()?.parse().ok());
    let retry_after = Duration::from_secs(retry_after.unwrap_or_default());
    let message = async {
        let body = timeout(REQUEST_TIMEOUT, read(response, MAX_OBJECT_BYTES));
        let body = body.await.ok()?.ok()?;
        let status_object: Value = serde_json::from_slice(&body).ok()?;
        Some(status_object["message"].as_str()?.to_owned())
    };
    let code = status.as_u16();
    Err(match status {
        StatusCode::UNAUTHORIZED => Failure::Unauthorized,
        StatusCode::FORBIDDEN => {
            Failure::Forbidden(spec.permission, message.await.unwrap_or_default())
        }
        StatusCode::NOT_FOUND => Failure::NotFound(spec.object),
        StatusCode::CONFLICT => Failure::Conflict(message.await.unwrap_or_default()),
        StatusCode::GONE => Failure::Expired,
        StatusCode::TOO_MANY_REQUESTS => Failure::Busy { code, retry_after },
        _ if status.is_server_error() => Failure::Busy { code, retry_after },
        _ => Failure::Invalid(code, message.await.unwrap_or_default()),
    })
}

/// Reads the whole body.
async fn read(response: Response<Body>, max_bytes: usize) -> Result<Vec<u8>, Failure> {
    let body = Limited::new(response.into_body(), max_bytes);
    match body.collect().await {
        Ok(body) => Ok(body.to_bytes().to_vec()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Failure::Garbage("it is too large".to_owned()))
        }
        Err(error) => Err(Failure::Unreachable(chain(error.as_ref()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(server: &str, token: &str) -> Config {
        let mut config = Config::new(server.parse().unwrap());
        config.auth_info.token = Some(token.to_owned().into());
        config
    }

    #[tokio::test]
    async fn invalid_credentials_are_refused_without_quoting_them() {
        let open = |server, token| ApiClient::new(config(server, token)).err();
        assert_eq!(open("http://127.0.0.1:1", "secret\n"), None);
        for (server, token) in [
            ("http://127.0.0.1:1", "sec\nret"),
            ("http://user:secret@127.0.0.1:1", "t"),
        ] {
            let failure = open(server, token).unwrap();
            assert!(failure.is_about_credentials());
            assert!(!failure.to_string().contains("sec"), "{failure}");
        }
        let mut acting = config("http://127.0.0.1:1", "t");
        acting.auth_info.impersonate = Some("a\nb".to_owned());
        assert!(ApiClient::new(acting).is_err());
    }
}
