//! What an agent writes about its own Node, and how it watches the Node.

use std::path::Path;
use std::time::Duration;

use http::{Request, header, request};
use jiff::fmt::strtime;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use pleg::model::wall_time::WallTime;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::client::{ApiClient, RequestSpec, WatchEvent};
use super::failure::{Failure, chain, unusable};
use crate::episodes::{NewEvent, Regarding, hash};
use crate::node::{Node, NodeChange};
use crate::node_condition::{Entry, OurCondition};
use crate::summary::ANNOTATION;

/// The maximum length of a name in the API.
const MAX_NAME_BYTES: usize = 253;

/// The maximum length of the reporter of an event.
const MAX_INSTANCE_BYTES: usize = 128;

/// The maximum duration of a watch.
const MAX_WATCH_DURATION: Duration = Duration::from_secs(3600);

/// An API server, and the name of the own Node.
#[derive(Clone)]
pub(crate) struct Api {
    client: ApiClient,
    node: String,
}

impl Api {
    /// Reads the credentials of a kubeconfig, or those that are mounted into a pod.
    pub(crate) async fn open(kubeconfig: Option<&Path>, node: &str) -> Result<Self, Failure> {
        let config = match kubeconfig {
            Some(path) => {
                let read = Kubeconfig::read_from(path);
                let read = read.map_err(|error| unusable(&error))?;
                let options = KubeConfigOptions::default();
                let config = Config::from_custom_kubeconfig(read, &options).await;
                config.map_err(|error| unusable(&error))?
            }
            None => Config::incluster().map_err(|error| Failure::Credentials(chain(&error)))?,
        };
        Ok(Self {
            client: ApiClient::new(config)?,
            node: node.to_owned(),
        })
    }

    /// Writes our entry into the Node's conditions by server-side apply, with its summary in an
    /// annotation. Nothing else is changed. If another manager owns the entry, this returns
    /// [`Failure::Conflict`].
    pub(crate) async fn apply(&self, which: OurCondition, entry: &Entry) -> Result<(), Failure> {
        let mut metadata = json!({"name": self.node});
        if let Some(summary) = &entry.content.summary {
            let summary = serde_json::to_string(summary).expect("a summary has only text keys");
            metadata["annotations"] = json!({ANNOTATION: summary});
        }
        let conditions = json!([{
            "type": entry.kind,
            "status": entry.content.status.as_str(),
            "reason": entry.content.reason,
            "message": entry.content.message,
            "lastHeartbeatTime": seconds(entry.heartbeat),
            "lastTransitionTime": seconds(entry.transition),
        }]);
        let body = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": metadata,
            "status": {"conditions": conditions},
        });
        let content_type = "application/apply-patch+yaml";
        self.write_status(which, content_type, &body).await
    }

    /// Removes our entry of this type and its annotation.
    ///
    /// It uses a patch that names them, not an empty apply: a kubelet that has just registered its
    /// Node owns nothing of the status, and a server then removes all of the status with the last
    /// applied entry (observed with Kubernetes 1.36).
    pub(crate) async fn remove_condition(
        &self,
        which: OurCondition,
        kind: &str,
    ) -> Result<(), Failure> {
        let mut body = json!({"status": {"conditions": [{"type": kind, "$patch": "delete"}]}});
        if which == OurCondition::PlegUnhealthy {
            body["metadata"] = json!({"annotations": {ANNOTATION: null}});
        }
        let content_type = "application/strategic-merge-patch+json";
        self.write_status(which, content_type, &body).await
    }

    async fn write_status(
        &self,
        which: OurCondition,
        content_type: &'static str,
        body: &Value,
    ) -> Result<(), Failure> {
        let manager = which.manager();
        let path = format!("/api/v1/nodes/{}/status?fieldManager={manager}", self.node);
        let spec = RequestSpec::object("patch nodes/status", "the Node");
        let request = patch_request(path, content_type);
        self.client.write(request, body, spec).await
    }

    /// Changes the Node by a JSON Patch.
    pub(crate) async fn patch(&self, patch: &Value) -> Result<(), Failure> {
        let path = format!("/api/v1/nodes/{}?fieldManager=pleg", self.node);
        let spec = RequestSpec::object("patch nodes", "the Node");
        let request = patch_request(path, "application/json-patch+json");
        self.client.write(request, patch, spec).await
    }

    /// Creates an event, or writes the series of a recurring one.
    pub(crate) async fn record(&self, event: &NewEvent, node_uid: &str) -> Result<(), Failure> {
        let event = self.event(event, node_uid);
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        if let Some(series) = &event.series {
            let name = event.metadata.name.as_deref().unwrap_or_default();
            let spec = RequestSpec::object("patch events.k8s.io", "the event");
            let request = patch_request(format!("{path}/{name}"), "application/merge-patch+json");
            let body = json!({"series": series});
            match self.client.write(request, &body, spec).await {
                // The first event has expired, or was never created.
                Err(Failure::NotFound(_)) => {}
                ended => return ended,
            }
        }
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let body = serde_json::to_value(&event).expect("an event has only text keys");
        let spec = RequestSpec::object("create events.k8s.io", "the namespace");
        self.client.write(request, &body, spec).await
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
                    // For a static pod this is the hash of its configuration, by which kubectl
                    // finds the events of its mirror pod.
                    uid: Some(pod.uid.to_string()),
                    field_path: container
                        .as_ref()
                        .map(|name| format!("spec.containers{{{name}}}")),
                    ..ObjectReference::default()
                };
                (pod, Some(self.node_reference(node_uid)))
            }
        };
        // Events of objects without a namespace are in this one.
        let namespace = regarding.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| "default".to_owned());
        let name = regarding.name.clone().unwrap_or_default();
        let nanos = event.time.as_unix_nanos();
        // Equal events have equal fingerprints: a write whose answer was lost is repeated, and the
        // server then answers that the event exists.
        let fingerprint = hash(&(event.reason, &event.note)) as u16;
        let kind = match event.is_warning {
            true => "Warning",
            false => "Normal",
        };
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(&name, nanos, fingerprint)),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(event.time.timestamp())),
            type_: Some(kind.to_owned()),
            reason: Some(event.reason.to_owned()),
            action: Some("Relist".to_owned()),
            note: Some(event.note.clone()),
            regarding: Some(regarding),
            related,
            reporting_controller: Some("pleg.dev/agent".to_owned()),
            reporting_instance: Some(cut(&self.node, MAX_INSTANCE_BYTES).to_owned()),
            series: event.series.map(|(count, last)| EventSeries {
                count: i32::try_from(count).unwrap_or(i32::MAX),
                last_observed_time: MicroTime(last.timestamp()),
            }),
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

    /// Watches the own Node until the server ends the watch or the receiver is dropped.
    pub(crate) async fn watch(
        &self,
        updates: &mpsc::Sender<Result<NodeChange, Failure>>,
    ) -> Result<(), Failure> {
        // The duration is random: the watches of a fleet, which are opened together when a server
        // starts, must not be reopened together.
        let timeout =
            fastrand::u64(MAX_WATCH_DURATION.as_secs() / 2..=MAX_WATCH_DURATION.as_secs());
        let path = format!(
            "/api/v1/nodes?watch=true&fieldSelector=metadata.name%3D{}&timeoutSeconds={timeout}",
            self.node,
        );
        let spec = RequestSpec::object("watch nodes", "the Node");
        let mut watch = self.client.watch::<Node>(&path, spec).await?;
        while let Some(watched) = watch.next().await? {
            let (name, change) = match watched {
                WatchEvent::Exists(node) => (
                    node.metadata.name.clone(),
                    NodeChange::Exists(Box::new(node)),
                ),
                WatchEvent::Deleted(node) => (node.metadata.name, NodeChange::Deleted),
                WatchEvent::Bookmark(_) => continue,
            };
            if name == self.node && updates.send(Ok(change)).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// The form in which a server returns only the metadata of an object.
const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// A patch with this content type. Only metadata is requested as the answer, which is not used: a Node
/// may have a hundred kilobytes.
fn patch_request(path: String, content_type: &str) -> request::Builder {
    Request::patch(path)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::ACCEPT, METADATA_ONLY)
}

/// The name of an event in the form that all recorders of Kubernetes use, within the maximum length.
fn event_name(name: &str, nanos: i64, fingerprint: u16) -> String {
    let unique = format!("{nanos:x}{fingerprint:04x}");
    let name = cut(name, MAX_NAME_BYTES - 1 - unique.len());
    format!("{}.{unique}", name.trim_end_matches(['.', '-']))
}

fn cut(name: &str, max_bytes: usize) -> &str {
    name.get(..max_bytes).unwrap_or(name)
}

/// The form of metav1.Time: whole seconds.
fn seconds(time: WallTime) -> String {
    strtime::format("%Y-%m-%dT%H:%M:%SZ", time.timestamp()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_names_make_valid_events() {
        for name in ["a".repeat(253), format!("{}.b", "a".repeat(231))] {
            let event = event_name(&name, 1_795_377_600_000_000_000, 7);
            assert!(event.len() <= 253, "{event}");
            assert!(!event.contains(".."), "{event}");
        }
        assert_eq!(event_name("web", 1, 0xab), "web.100ab");
        assert_eq!(cut(&"n".repeat(200), MAX_INSTANCE_BYTES).len(), 128);
    }
}
