//! A Node as far as it matters here. All else in it, of which there may be a hundred
//! kilobytes, is skipped as it is read.

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
    /// As they are, with whatever fields: a test of the list must repeat it to the letter.
    #[serde(default)]
    taints: Option<Vec<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct NodeStatus {
    #[serde(default)]
    conditions: Option<Vec<Listed>>,
}

/// A condition that the Node has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed {
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

impl Listed {
    /// Whether it says what we wrote.
    pub(crate) fn says(&self, written: &Condition) -> bool {
        self.status == written.status.as_str()
            && self.reason.as_deref() == Some(written.reason)
            && self.message.as_deref() == Some(&*written.message)
    }
}

impl Node {
    pub(crate) fn condition(&self, kind: &str) -> Option<&Listed> {
        let mut listed = self.status.conditions.iter().flatten();
        listed.find(|it| it.kind == kind)
    }

    /// A condition of this name, whatever domain is before it.
    pub(crate) fn condition_in_any_domain(&self, name: &str) -> Option<&Listed> {
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

/// What a watch says of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    /// It is there, and so.
    There(Box<Node>),
    /// It is not there any more.
    Gone,
}
