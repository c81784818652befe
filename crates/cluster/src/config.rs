//! What is written to the API, and with which credentials: the section `kubernetes` of the agent's
//! configuration.

use std::path::PathBuf;
use std::time::Duration;

use pleg_text::GoDuration;
use serde::Deserialize;

/// The default type of the condition.
const DEFAULT_CONDITION: &str = "PLEGUnhealthy";

/// The default key of the taint, which operators use for taints by hand:
/// `plegnothealthy=true:NoSchedule`.
const DEFAULT_TAINT_KEY: &str = "plegnothealthy";

/// The maximum number of writes per second of all agents together, which an API server can bear.
const MAX_WRITES_PER_SECOND: u32 = 125;

/// The maximum delay of a change, even in a large fleet.
const MAX_SPREAD: Duration = Duration::from_secs(40);

/// What is written to Kubernetes. An absent key has its default; without the section nothing is
/// written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KubernetesConfig {
    /// The Node's name; default: the environment's `NODE_NAME`, or else the host name.
    pub node_name: Option<String>,
    /// The kubeconfig with the credentials for the API server; default: the credentials that are
    /// mounted into a pod.
    pub kubeconfig: Option<PathBuf>,
    /// The type of the node condition, optionally with a domain.
    pub condition: String,
    /// Whether `ContainerRuntimeReady` is written too, unless another manager writes it.
    pub container_runtime_ready: bool,
    /// Whether events are written on the Node and on pods.
    pub events: bool,
    /// The states in which the Node is tainted; none by default.
    pub taint: Vec<TaintWhen>,
    /// The key of the taint; its value is `true` and its effect `NoSchedule`.
    pub taint_key: String,
    /// How long the node must be healthy before the taint is removed.
    pub taint_hold_off: GoDuration,
    /// The number of agents that write to this API server. Writes of all nodes are spread over a
    /// time that is proportional to this number.
    pub agents: u32,
}

/// A state in which a node is tainted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TaintWhen {
    /// No pod is observed.
    Unhealthy,
    /// A pod is not observed, or a list is overdue.
    Degraded,
    /// A guard answers in the runtime's place.
    Guarding,
}

impl Default for KubernetesConfig {
    fn default() -> Self {
        Self {
            node_name: None,
            kubeconfig: None,
            condition: DEFAULT_CONDITION.to_owned(),
            container_runtime_ready: false,
            events: true,
            taint: Vec::new(),
            taint_key: DEFAULT_TAINT_KEY.to_owned(),
            taint_hold_off: GoDuration(Duration::from_secs(60)),
            agents: 100,
        }
    }
}

impl KubernetesConfig {
    /// Checks the configuration. An error is a sentence.
    pub fn check(&self) -> Result<(), String> {
        for (key, name) in [
            ("condition", &self.condition),
            ("taintKey", &self.taint_key),
        ] {
            if !is_qualified_name(name) {
                return Err(format!(
                    "kubernetes.{key} is {name:?}: it must be a name of letters, digits, '-', '_' \
                     and '.', at most 63 long, perhaps with a domain and '/' before it"
                ));
            }
        }
        if let Some(name) = &self.node_name
            && !is_domain(name)
        {
            return Err(format!(
                "kubernetes.nodeName is {name:?}: not a valid Node name"
            ));
        }
        Ok(())
    }

    /// The time over which writes are spread if all nodes change at once.
    pub(crate) fn spread(&self) -> Duration {
        (Duration::from_secs(1) * self.agents / MAX_WRITES_PER_SECOND).min(MAX_SPREAD)
    }
}

/// Kubernetes' rule for the names of conditions, labels and taints.
fn is_qualified_name(name: &str) -> bool {
    let (domain, name) = match name.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, name),
    };
    let is_part = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    let ends = |it: char| it.is_ascii_alphanumeric();
    (1..=63).contains(&name.len())
        && name.chars().all(is_part)
        && name.starts_with(ends)
        && name.ends_with(ends)
        && domain.is_none_or(is_domain)
}

/// The rule for the names of nodes and for domains (RFC 1123).
pub(crate) fn is_domain(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_part = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
        !label.is_empty()
            && label.chars().all(is_part)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kubernetes_rules() {
        for good in ["PLEGUnhealthy", "a", "example.com/PLEG_1.x-y", "a.b/c"] {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in ["", "/x", "x/", "Example.com/x", "-x", "a b", "a/b/c", "ä"] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
        assert!(!is_qualified_name(&"x".repeat(64)));
        assert!(is_domain("node-1.example") && !is_domain("Node") && !is_domain("a/../b"));
    }

    #[test]
    fn a_change_of_five_thousand_nodes_is_spread_over_forty_seconds_and_of_one_node_over_none() {
        let of = |agents| {
            let config = KubernetesConfig {
                agents,
                ..KubernetesConfig::default()
            };
            config.spread()
        };
        assert_eq!(of(5000), Duration::from_secs(40));
        assert_eq!(of(50_000), Duration::from_secs(40));
        assert_eq!(of(1), Duration::from_millis(8));
    }
}
