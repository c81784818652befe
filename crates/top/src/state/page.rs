//! What has the reader's attention: a table, a page over the tables, or a prompt.

use pleg::model::id::PodUid;

/// A table of the node's screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Panel {
    /// The pods.
    #[default]
    Pods,
    /// The outstanding calls.
    Outstanding,
    /// The events.
    Events,
    /// The doctor's findings.
    Findings,
}

impl Panel {
    /// All tables, from top to bottom.
    pub const ALL: [Self; 4] = [Self::Pods, Self::Outstanding, Self::Events, Self::Findings];

    /// The table this many tables further down. The first table follows the last one.
    pub fn step(self, step: isize) -> Self {
        let count = Self::ALL.len() as isize;
        Self::ALL[(self as isize + step).rem_euclid(count) as usize]
    }
}

/// A page over the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The topic.
    pub topic: Topic,
    /// The number of lines by which the page is scrolled.
    pub scroll: usize,
}

/// The topic of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The history of a pod. It contains the name, because the pod may be
    /// removed while the page is open.
    Pod {
        /// The UID of the pod.
        uid: PodUid,
        /// The namespace and name of the pod.
        name: String,
    },
    /// A finding of the doctor, by its position in the list of findings.
    Finding(usize),
    /// The keys.
    Help,
}

/// An open prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A filter.
    Filter(String),
    /// A time of a recording.
    Time {
        /// The typed text.
        typed: String,
        /// What is wrong with the previously typed text.
        error: Option<String>,
    },
}

impl Prompt {
    /// The typed text.
    pub fn typed_mut(&mut self) -> &mut String {
        match self {
            Self::Filter(typed) | Self::Time { typed, .. } => typed,
        }
    }
}
