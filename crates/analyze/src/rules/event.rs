//! Rules on events of Kubernetes: those that support a cause, and those that only show a failure.

use causes::finding::Confidence;
use serde::Deserialize;

use super::texts::Texts;

/// A rule for events.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventRule {
    /// The reason is one of these; empty for any reason.
    #[serde(default)]
    pub(super) reasons: Vec<String>,
    /// The row contains one of these, too; empty for any row.
    #[serde(default)]
    pub(super) any: Texts,
    #[serde(default)]
    pub(super) without: Texts,
    /// The event must report that something was not done in time.
    #[serde(default)]
    timed_out: bool,
    /// The minimum number of times: a single event may be usual.
    #[serde(default = "super::one")]
    times: u64,
    /// How sure the rule is; `None` for a rule that supports no cause.
    pub(crate) confidence: Option<Confidence>,
    /// What the event shows, in a sentence without a full stop; `{reason}` stands for the reason.
    says: String,
    pub(crate) headline: Option<String>,
    /// The rule does not count if other events show this excuse.
    pub(crate) unless: Option<Excuse>,
}

pub(crate) struct Event<'a> {
    pub(crate) reason: &'a str,
    pub(crate) text: &'a str,
    pub(crate) times: u64,
    /// Whether the event reports that something was not done in time.
    pub(crate) timed_out: bool,
    pub(crate) line: u64,
}

/// Why an event is no fault of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Excuse {
    /// A Secret or ConfigMap that a pod is to mount does not exist.
    MissingObject,
    /// Without the image of its container, a sandbox ends at once.
    MissingImage,
    /// On a node without memory, everything is slow.
    OutOfMemory,
    /// The runtime has answered that a name is reserved, so it is not unresponsive.
    NameReserved,
}

impl EventRule {
    pub(crate) fn holds(&self, event: &Event<'_>) -> bool {
        let text = event.text.as_bytes();
        (self.reasons.is_empty() || self.reasons.iter().any(|known| known == event.reason))
            && (event.timed_out || !self.timed_out)
            && event.times >= self.times
            && self.any.allow(text)
            && !self.without.are_in(text)
    }

    pub(crate) fn says(&self, reason: &str) -> String {
        self.says.replace("{reason}", reason)
    }
}
