//! `/proc/PID/status`.

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::Seen;
use crate::proof::Proof;

/// Who the lines are about, as far as they have told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessStatus {
    who: Who,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Who {
    #[default]
    Other,
    Shim,
    Daemon,
    Init,
    /// It is in state D while it is frozen, too.
    RuncInit,
}

impl ProcessStatus {
    /// `Name:\tcontainerd-shim`: with a tab, which `kubectl describe` has not.
    pub(super) fn begins(line: &str) -> Option<Self> {
        // `kubectl describe` of 2017 had several tabs.
        let name = line.strip_prefix("Name:\t")?;
        if name.starts_with(['\t', ' ']) {
            return None;
        }
        let name = name.trim();
        let who = match name {
            "containerd" | "dockerd" | "crio" | "cri-dockerd" => Who::Daemon,
            "systemd" => Who::Init,
            _ if name.starts_with("runc:[") => Who::RuncInit,
            _ if name.starts_with("containerd-shim") || name == "conmon" => Who::Shim,
            _ => Who::Other,
        };
        Some(Self { who })
    }

    /// Reads a line.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        if let Some(name) = text.strip_prefix("Name:") {
            if let Some(status) = Self::begins(&format!("Name:\t{}", name.trim())) {
                *self = status;
            }
            return;
        }
        let Some(state) = text.strip_prefix("State:") else {
            return;
        };
        let state = state.trim();
        let culprit = Culprit {
            process: self.name(),
            ..Culprit::default()
        };
        let is_stopped = state.starts_with("T ") || state.starts_with("t ");
        let (cause, confidence) = match self.who {
            Who::Shim if is_stopped => (Cause::ShimUnresponsive, Confidence::High),
            Who::Daemon if is_stopped => (Cause::RuntimeUnresponsive, Confidence::High),
            Who::RuncInit if state.starts_with("D ") => {
                let says =
                    "runc init is frozen, or blocked in the kernel: /proc/PID/stack tells which";
                return seen.trouble(line, says);
            }
            _ if state.starts_with("D ") => (Cause::StorageUnresponsive, Confidence::Low),
            _ => return,
        };
        let says = format!("a process is in state {state}");
        seen.proof(Proof::new(cause, confidence, line, says).of(culprit));
    }

    fn name(self) -> Option<String> {
        match self.who {
            Who::Shim => Some("containerd-shim".to_owned()),
            Who::Init => Some("systemd".to_owned()),
            Who::Daemon | Who::RuncInit | Who::Other => None,
        }
    }
}
