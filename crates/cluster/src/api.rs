//! The one door to an API server: requests with a deadline, answers with a bound, and failures
//! by what is to be done about them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use jiff::fmt::strtime;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use pleg::model::wall_time::WallTime;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::episodes::{NewEvent, Regarding};
use crate::node::{Node, Seen};
use crate::plan::{Entry, Kind};

/// An answer that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a watch goes on at the server, give or take what that chooses.
const WATCH: Duration = Duration::from_secs(3600);

/// No Node is as large: etcd takes 1.5 MB.
const LONGEST_ANSWER: usize = 4 << 20;

/// Whom the server takes us for; who only reads logs of its audit knows us by it.
const AGENT: &str = concat!("pleg/", env!("CARGO_PKG_VERSION"));

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is no way to the server, or no answer.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// It did not answer in time.
    #[error("the API server has not answered for {}s", PATIENCE.as_secs())]
    TimedOut,
    /// The credentials are missing, or are none.
    #[error("there are no usable credentials for the API server: {0}")]
    Credentials(String),
    /// 401.
    #[error("the API server does not accept the credentials (401)")]
    Unauthorized,
    /// 403, and what would be needed.
    #[error("the right to {0} is missing (403)")]
    Forbidden(&'static str),
    /// 404.
    #[error("{0} was not found (404)")]
    NotFound(&'static str),
    /// 409.
    #[error("another writer owns it (409): {0}")]
    Conflict(String),
    /// 410: the watch must begin anew.
    #[error("the watch has expired (410)")]
    Expired,
    /// 400 and 422.
    #[error("the API server refuses it ({code}): {message}", code = .0.0, message = .0.1)]
    Invalid((u16, String)),
    /// 429 and 5xx.
    #[error("the API server cannot do it now ({code})")]
    Busy {
        /// The status code.
        code: u16,
        /// When it wants to be asked again.
        retry_after: Duration,
    },
    /// The answer makes no sense.
    #[error("the API server's answer cannot be read: {0}")]
    Garbage(String),
}

impl Failure {
    /// As it is labelled in metrics.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::TimedOut => "timed_out",
            Self::Credentials(_) => "credentials",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden(_) => "forbidden",
            Self::NotFound(_) => "not_found",
            Self::Conflict(_) => "conflict",
            Self::Expired => "expired",
            Self::Invalid(_) => "invalid",
            Self::Busy { .. } => "busy",
            Self::Garbage(_) => "garbage",
        }
    }

    /// Whether other credentials may help.
    pub(crate) fn is_about_credentials(&self) -> bool {
        matches!(self, Self::Unauthorized | Self::Credentials(_))
    }
}

/// An API server, and the Node that we are.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    node: String,
}

impl Api {
    /// Reads the credentials: of a kubeconfig, or what is mounted into a pod.
    pub(crate) async fn open(kubeconfig: Option<&Path>, node: &str) -> Result<Self, Failure> {
        let config = match kubeconfig {
            Some(path) => {
                let read = Kubeconfig::read_from(path);
                let read = read.map_err(|error| unusable(&error))?;
                let options = KubeConfigOptions::default();
                let config = Config::from_custom_kubeconfig(read, &options).await;
                config.map_err(|error| unusable(&error))?
            }
            None => {
                let config = Config::incluster();
                config.map_err(|error| Failure::Credentials(chain(&error)))?
            }
        };
        let client = Client::try_from(config);
        let client = client.map_err(|_| Failure::Credentials("they make no client".to_owned()))?;
        Ok(Self {
            client,
            node: node.to_owned(),
        })
    }

    /// Writes our entry into the Node's conditions by server-side apply: nobody else's is touched,
    /// and if somebody else owns it that is a [`Failure::Conflict`].
    pub(crate) async fn apply(&self, kind: Kind, entry: &Entry) -> Result<(), Failure> {
        let conditions = json!([{
            "type": entry.kind,
            "status": entry.said.status.as_str(),
            "reason": entry.said.reason,
            "message": entry.said.message,
            "lastHeartbeatTime": seconds(entry.heartbeat),
            "lastTransitionTime": seconds(entry.transition),
        }]);
        self.apply_conditions(kind, &conditions).await
    }

    /// Takes our entry away.
    pub(crate) async fn withdraw(&self, kind: Kind) -> Result<(), Failure> {
        self.apply_conditions(kind, &json!([])).await
    }

    async fn apply_conditions(&self, kind: Kind, conditions: &Value) -> Result<(), Failure> {
        // One owner for each condition: what one owner applies is all that it owns.
        let owner = match kind {
            Kind::RuntimeReady => "pleg-container-runtime",
            Kind::Condition | Kind::Taint | Kind::Event => "pleg",
        };
        let body = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.node},
            "status": {"conditions": conditions},
        });
        let path = format!("/api/v1/nodes/{}/status?fieldManager={owner}", self.node);
        let request = Request::patch(path)
            .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
            // Nothing of the answer is read: a Node may have a hundred kilobytes.
            .header(header::ACCEPT, METADATA_ONLY);
        self.send(request, &body, "patch nodes/status", "the Node")
            .await
            .map(drop)
    }

    /// Changes the Node by a JSON Patch; gives it as it is then.
    pub(crate) async fn patch(&self, patch: &Value) -> Result<Option<Node>, Failure> {
        let path = format!("/api/v1/nodes/{}?fieldManager=pleg", self.node);
        let request =
            Request::patch(path).header(header::CONTENT_TYPE, "application/json-patch+json");
        let answer = self.send(request, patch, "patch nodes", "the Node").await?;
        let node: Option<Node> = serde_json::from_slice(&answer).ok();
        Ok(node.filter(|node| node.metadata.name == self.node))
    }

    /// Creates an event.
    pub(crate) async fn create(&self, event: &NewEvent, node_uid: &str) -> Result<(), Failure> {
        let event = self.event(event, node_uid);
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let body = serde_json::to_value(&event).expect("an event has only text keys");
        self.send(request, &body, "create events.k8s.io", "the namespace")
            .await
            .map(drop)
    }

    fn event(&self, event: &NewEvent, node_uid: &str) -> Event {
        let (regarding, related) = match &event.regarding {
            Regarding::Node => (self.node_reference(node_uid), None),
            Regarding::Pod(pod, container) => {
                let pod = ObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    namespace: Some(pod.namespace.to_string()),
                    name: Some(pod.name.to_string()),
                    // Of a static pod this is its configuration's hash, by which kubectl looks
                    // for the events of its mirror.
                    uid: Some(pod.uid.to_string()),
                    field_path: container
                        .as_ref()
                        .map(|name| format!("spec.containers{{{name}}}")),
                    ..ObjectReference::default()
                };
                (pod, Some(self.node_reference(node_uid)))
            }
        };
        // Events of what has no namespace are in this one.
        let namespace = regarding.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| "default".to_owned());
        let name = regarding.name.clone().unwrap_or_default();
        let nanos = event.time.as_unix_nanos();
        Event {
            metadata: ObjectMeta {
                // As all recorders name theirs.
                name: Some(format!("{name}.{nanos:x}{:04x}", fastrand::u16(..))),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(event.time.timestamp())),
            type_: Some(
                if event.is_warning {
                    "Warning"
                } else {
                    "Normal"
                }
                .to_owned(),
            ),
            reason: Some(event.reason.to_owned()),
            action: Some("Relist".to_owned()),
            note: Some(event.note.clone()),
            regarding: Some(regarding),
            related,
            reporting_controller: Some("pleg.dev/agent".to_owned()),
            reporting_instance: Some(self.node.clone()),
            ..Event::default()
        }
    }

    fn node_reference(&self, uid: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(self.node.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }
    }

    /// Watches the own Node until the server ends that, or nobody listens any more.
    pub(crate) async fn watch(
        &self,
        sights: &mpsc::Sender<Result<Seen, Failure>>,
    ) -> Result<(), Failure> {
        let path = format!(
            "/api/v1/nodes?watch=true&fieldSelector=metadata.name%3D{}&timeoutSeconds={}",
            self.node,
            WATCH.as_secs(),
        );
        let request = Request::get(path).header(header::ACCEPT_ENCODING, "identity");
        let request = request.header(header::USER_AGENT, AGENT);
        let request = request.body(Body::empty()).map_err(garbage)?;
        let response = self.answered(self.client.send(request)).await?;
        let response = good(response, "watch nodes", "the Node").await?;
        let mut body = response.into_body();
        let mut line = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Failure::Unreachable(chain(&error)))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            for part in data.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(part);
                if line.len() > LONGEST_ANSWER {
                    return Err(Failure::Garbage("a line of a watch has no end".to_owned()));
                }
                if line.ends_with(b"\n") {
                    if let Some(node) = self.watched(&line)?
                        && sights.send(Ok(node)).await.is_err()
                    {
                        return Ok(());
                    }
                    line.clear();
                }
            }
        }
        Ok(())
    }

    fn watched(&self, line: &[u8]) -> Result<Option<Seen>, Failure> {
        #[derive(Deserialize)]
        struct Watched {
            #[serde(rename = "type")]
            kind: String,
            object: Value,
        }
        let watched: Watched = serde_json::from_slice(line).map_err(garbage)?;
        if watched.kind == "ERROR" {
            let code = watched.object["code"].as_u64().unwrap_or_default();
            return Err(match u16::try_from(code) {
                Ok(410) => Failure::Expired,
                code => Failure::Busy {
                    code: code.unwrap_or_default(),
                    retry_after: Duration::ZERO,
                },
            });
        }
        let node: Node = serde_json::from_value(watched.object).map_err(garbage)?;
        Ok(match watched.kind.as_str() {
            _ if node.metadata.name != self.node => None,
            "ADDED" | "MODIFIED" => Some(Seen::There(Box::new(node))),
            "DELETED" => Some(Seen::Gone),
            _ => None,
        })
    }

    async fn send(
        &self,
        request: http::request::Builder,
        body: &Value,
        right: &'static str,
        what: &'static str,
    ) -> Result<Vec<u8>, Failure> {
        let body = Body::from(body.to_string().into_bytes());
        let request = request.header(header::USER_AGENT, AGENT).body(body);
        let request = request.map_err(garbage)?;
        let answer = self.answered(async {
            let response = self.client.send(request).await?;
            Ok(async { read(good(response, right, what).await?).await }.await)
        });
        let answer = answer.await??;
        // What stands between may say 200 too.
        let is_object = serde_json::from_slice::<Object>(&answer).is_ok();
        if !is_object {
            return Err(Failure::Garbage("it is no object".to_owned()));
        }
        Ok(answer)
    }

    /// What comes in time.
    async fn answered<T>(
        &self,
        answer: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failure> {
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            // What a command has printed may be a secret.
            Ok(Err(kube::Error::Auth(_))) => {
                let why = "the file or the command that should give them does not";
                Err(Failure::Credentials(why.to_owned()))
            }
            Ok(Err(error)) => Err(Failure::Unreachable(chain(&error))),
            Err(_) => Err(Failure::TimedOut),
        }
    }
}

/// Any object.
type Object = BTreeMap<String, IgnoredAny>;

/// What a server makes of any object that it is asked for.
const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The answer, unless it tells a failure.
async fn good(
    response: Response<Body>,
    right: &'static str,
    what: &'static str,
) -> Result<Response<Body>, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|it| it.to_str().ok()?.parse().ok());
    let retry_after = Duration::from_secs(retry_after.unwrap_or_default());
    let message = async {
        let body = timeout(PATIENCE, read(response)).await.ok()?.ok()?;
        let told: Value = serde_json::from_slice(&body).ok()?;
        Some(told["message"].as_str()?.to_owned())
    };
    let code = status.as_u16();
    Err(match status {
        StatusCode::UNAUTHORIZED => Failure::Unauthorized,
        StatusCode::FORBIDDEN => Failure::Forbidden(right),
        StatusCode::NOT_FOUND => Failure::NotFound(what),
        StatusCode::CONFLICT => Failure::Conflict(message.await.unwrap_or_default()),
        StatusCode::GONE => Failure::Expired,
        StatusCode::TOO_MANY_REQUESTS => Failure::Busy { code, retry_after },
        _ if status.is_server_error() => Failure::Busy { code, retry_after },
        _ => Failure::Invalid((code, message.await.unwrap_or_default())),
    })
}

/// The whole body.
async fn read(response: Response<Body>) -> Result<Vec<u8>, Failure> {
    let body = Limited::new(response.into_body(), LONGEST_ANSWER);
    match body.collect().await {
        Ok(body) => Ok(body.to_bytes().to_vec()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Failure::Garbage("it has no end".to_owned()))
        }
        Err(error) => Err(Failure::Unreachable(chain(error.as_ref()))),
    }
}

/// Why a kubeconfig cannot be used, without a word of what is in it: that would be in a log.
fn unusable(error: &KubeconfigError) -> Failure {
    Failure::Credentials(match error {
        KubeconfigError::ReadConfig(error, path) => {
            format!("cannot read {}: {error}", path.display())
        }
        KubeconfigError::CurrentContextNotSet
        | KubeconfigError::LoadContext(_)
        | KubeconfigError::LoadClusterOfContext(_)
        | KubeconfigError::MissingClusterUrl => error.to_string(),
        KubeconfigError::Parse(_) => "the file is no kubeconfig".to_owned(),
        _ => "something that the kubeconfig names cannot be read".to_owned(),
    })
}

fn garbage(error: impl std::error::Error) -> Failure {
    Failure::Garbage(error.to_string())
}

/// An error with its causes: only the last one tells what happened.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    escape::sentence(&text).into_owned()
}

/// As metav1.Time has it: whole seconds.
fn seconds(time: WallTime) -> String {
    strtime::format("%Y-%m-%dT%H:%M:%SZ", time.timestamp()).unwrap_or_default()
}
