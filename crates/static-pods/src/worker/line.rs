//! The output of `pleg run`: one line for each step, wait and change, with its reason.

use std::sync::Arc;

use pleg::model::id::PodRef;
use pleg::model::wall_time::WallTime;
use serde::Serialize;
use tokio::sync::mpsc;

/// How many lines are queued for a slow reader. Further lines are dropped, so that memory is
/// bounded.
const MAX_QUEUED_LINES: usize = 4096;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// What the line is about.
    pub kind: Kind,
    /// When it happened.
    pub time: WallTime,
    /// The pod, if the line concerns one.
    pub pod: Option<PodRef>,
    /// The container, if the line concerns one.
    pub container: Option<Arc<str>>,
    /// What is done or has happened, as one word for programs.
    pub action: &'static str,
    /// Why, as a sentence.
    pub why: String,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A step that changes a pod.
    Step,
    /// A step that is delayed.
    Wait,
    /// A change of a probe's result.
    Probe,
    /// A change of the pod as a whole.
    Pod,
    /// A change of a manifest or of the folder, or a problem with it.
    Manifest,
}

/// The sender of the lines.
#[derive(Clone, Debug)]
pub struct Lines(mpsc::Sender<Line>);

impl Lines {
    /// A sender and its receiver.
    pub fn new() -> (Self, mpsc::Receiver<Line>) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_LINES);
        (Self(sender), receiver)
    }

    pub(crate) fn send(&self, line: Line) {
        if let Err(mpsc::error::TrySendError::Full(line)) = self.0.try_send(line) {
            tracing::warn!(
                action = line.action, pod = ?line.pod,
                "a line was dropped because the output is not read"
            );
        }
    }
}
