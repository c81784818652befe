//! What the reader looks at: a table, a page over the tables, a prompt.

use pleg::model::id::PodUid;

/// A table of the node's screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Panel {
    /// The pods.
    #[default]
    Pods,
    /// The calls that are outstanding.
    Outstanding,
    /// What happened.
    Events,
    /// What the doctor found.
    Findings,
}

impl Panel {
    /// All tables, from top to bottom.
    pub const ALL: [Self; 4] = [Self::Pods, Self::Outstanding, Self::Events, Self::Findings];

    /// The table that is so many further down.
    pub fn step(self, step: isize) -> Self {
        let count = Self::ALL.len() as isize;
        let place = Self::ALL.iter().position(|it| *it == self).unwrap_or(0);
        Self::ALL[(place as isize + step).rem_euclid(count) as usize]
    }
}

/// A page that lies over the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What it is about.
    pub topic: Topic,
    /// By how many lines it is scrolled.
    pub scroll: usize,
}

/// What a page is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A pod's story. The name is for when the pod has gone.
    Pod {
        /// Which pod.
        uid: PodUid,
        /// Its namespace and name.
        name: String,
    },
    /// A finding of the doctor, by its place.
    Finding(usize),
    /// The keys.
    Help,
}

/// What is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A filter, as it is so far.
    Filter(String),
    /// A time of a recording.
    Time {
        /// As it is so far.
        typed: String,
        /// What is wrong with what was typed before.
        error: Option<String>,
    },
}

impl Prompt {
    /// What was typed so far.
    pub fn typed_mut(&mut self) -> &mut String {
        match self {
            Self::Filter(typed) | Self::Time { typed, .. } => typed,
        }
    }
}
