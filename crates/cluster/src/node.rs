//! The part of a Node that is used. The rest, which may be a hundred kilobytes long, is skipped while
//! reading.

use std::collections::BTreeMap;

use pleg::model::wall_time::WallTime;
use serde::Deserialize;
use serde_json::Value;

use crate::condition::Condition;

/// A Node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Node {
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) resource_version: String,
    #[serde(default)]
    pub(crate) annotations: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Spec {
    /// The taints with all their fields: the `test` operation of a JSON Patch must repeat the list exactly.
    #[serde(default)]
    taints: Option<Vec<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct NodeStatus {
    #[serde(default)]
    conditions: Option<Vec<NodeCondition>>,
}

/// A condition of the Node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeCondition {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) message: Option<String>,
    #[serde(default)]
    pub(crate) last_heartbeat_time: Option<WallTime>,
    #[serde(default)]
    pub(crate) last_transition_time: Option<WallTime>,
}

impl NodeCondition {
    /// Whether the condition has the content that we wrote.
    pub(crate) fn has_content(&self, written: &Condition) -> bool {
        self.status == written.status.as_str()
            && self.reason.as_deref() == Some(written.reason)
            && self.message.as_deref() == Some(&*written.message)
    }
}

impl Node {
    pub(crate) fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        let mut listed = self.status.conditions.iter().flatten();
        listed.find(|it| it.kind == kind)
    }

    /// A condition of this name, with any domain.
    pub(crate) fn condition_in_any_domain(&self, name: &str) -> Option<&NodeCondition> {
        let mut listed = self.status.conditions.iter().flatten();
        listed.find(|it| it.kind.rsplit('/').next() == Some(name))
    }

    pub(crate) fn taints(&self) -> Option<&[Value]> {
        self.spec.taints.as_deref()
    }

    pub(crate) fn annotations(&self) -> Option<&BTreeMap<String, String>> {
        self.metadata.annotations.as_ref()
    }
}

/// A change that a watch reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeChange {
    /// The Node exists, with this content.
    Exists(Box<Node>),
    /// The Node was deleted.
    Deleted,
}
