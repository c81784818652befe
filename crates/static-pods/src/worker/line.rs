//! The lines that people read: one for each decision, with its reason.

use std::sync::Arc;

use pleg::model::id::PodRef;
use pleg::model::wall_time::WallTime;
use serde::Serialize;
use tokio::sync::mpsc;

/// So many lines wait for a reader; more are lost, which is better than memory without end.
const MAX_WAITING: usize = 4096;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// What it is about.
    pub kind: Kind,
    /// When.
    pub time: WallTime,
    /// Of which pod, if it is one.
    pub pod: Option<PodRef>,
    /// Of which of its containers, if it is one.
    pub container: Option<Arc<str>>,
    /// What is done or has happened, in a word.
    pub action: &'static str,
    /// Why, in a sentence.
    pub why: String,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// Something is done to a pod now.
    Step,
    /// Something is not done to a pod yet.
    Wait,
    /// A probe has changed what is known of a container.
    Probe,
    /// The pod as a whole has changed.
    Pod,
    /// Something is wrong with a manifest or the folder, or not any more.
    Manifest,
}

/// Where lines go.
#[derive(Clone, Debug)]
pub struct Lines(mpsc::Sender<Line>);

impl Lines {
    /// Where lines go, and where they come out.
    pub fn new() -> (Self, mpsc::Receiver<Line>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self(sender), receiver)
    }

    pub(crate) fn tell(&self, line: Line) {
        if let Err(mpsc::error::TrySendError::Full(line)) = self.0.try_send(line) {
            tracing::warn!(action = line.action, pod = ?line.pod, "a line was lost: nobody reads");
        }
    }
}
