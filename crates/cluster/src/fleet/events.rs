//! The events of a node and of the stuck pods on it, newest first.

use pleg::model::wall_time::WallTime;
use serde::{Deserialize, Serialize};

use super::{Fleet, NodeView, path};
use crate::api::{Failure, RequestSpec};
use crate::config::is_domain;

/// The maximum number of events of one object.
const MAX_EVENTS: &str = "100";

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetEvent {
    /// When the event last happened.
    pub time: Option<WallTime>,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason in CamelCase.
    pub reason: String,
    /// The object: `node/NAME` or `pod/NAMESPACE/NAME`.
    pub regarding: String,
    /// The note.
    pub note: String,
    /// The reporter.
    pub reported_by: String,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Event>,
}

/// The part of an event of `events.k8s.io/v1` that is used.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    event_time: Option<WallTime>,
    series: Option<Series>,
    deprecated_last_timestamp: Option<WallTime>,
    deprecated_source: Source,
    #[serde(rename = "type")]
    kind: Option<String>,
    reason: Option<String>,
    note: Option<String>,
    reporting_controller: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    last_observed_time: WallTime,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Source {
    component: Option<String>,
}

impl Fleet {
    /// The events of this node and of the pods of its culprits.
    pub async fn events(&self, view: &NodeView) -> Result<Vec<FleetEvent>, Failure> {
        // Events of objects without a namespace are in this one.
        let node = [("Node", "default", view.node.as_str())];
        let pods = view.culprits.iter().filter_map(|culprit| {
            let (namespace, name) = (culprit.namespace.as_deref()?, culprit.pod.as_deref()?);
            // Any other name is invalid in Kubernetes, and would change the path.
            (is_domain(namespace) && is_domain(name)).then_some(("Pod", namespace, name))
        });
        let mut about: Vec<_> = node.into_iter().chain(pods).collect();
        about.dedup();
        let mut events = Vec::new();
        for (kind, namespace, name) in about {
            let selector = format!("regarding.kind={kind},regarding.name={name}");
            let query = [
                ("fieldSelector", Some(selector.as_str())),
                ("limit", Some(MAX_EVENTS)),
            ];
            let of = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
            let spec = RequestSpec::object("list events.k8s.io", "the list of events");
            let page: Page = self.client.get(&path(&of, &query), spec).await?;
            let regarding = match kind {
                "Node" => format!("node/{name}"),
                _ => format!("pod/{namespace}/{name}"),
            };
            let items = page.items.into_iter();
            events.extend(items.map(|event| event.into_fleet_event(regarding.clone())));
        }
        events.sort_by_key(|event| std::cmp::Reverse(event.time));
        Ok(events)
    }
}

impl Event {
    fn into_fleet_event(self, regarding: String) -> FleetEvent {
        let observed = self.series.map(|series| series.last_observed_time);
        let last = self.deprecated_last_timestamp;
        let reported_by = self.reporting_controller.filter(|it| !it.is_empty());
        FleetEvent {
            time: observed.or(self.event_time).or(last),
            kind: self.kind.unwrap_or_default(),
            reason: self.reason.unwrap_or_default(),
            regarding,
            note: self.note.unwrap_or_default(),
            reported_by: reported_by
                .or(self.deprecated_source.component)
                .unwrap_or_default(),
        }
    }
}
