//! Processes behind the runtime's answers, read from the files of `/proc` that never wait
//! for the process itself.

use serde::{Deserialize, Serialize};

use crate::finding::PodName;

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its name (`comm`), of which the kernel keeps 15 bytes.
    pub name: String,
    /// The kernel's letter for its state: R, S, D, T, Z.
    pub state: String,
    /// The kernel's function that it waits in, where that may be read.
    pub wait: Option<String>,
    /// How long it has existed.
    pub age_seconds: f64,
}

impl Process {
    /// Whether somebody stopped it (SIGSTOP, a debugger).
    pub fn is_stopped(&self) -> bool {
        matches!(self.state.as_str(), "T" | "t")
    }

    /// Whether it waits in the kernel for something that no signal ends.
    pub fn is_uninterruptible(&self) -> bool {
        self.state == "D"
    }

    /// What it does, as a person would say it.
    pub fn doing(&self) -> String {
        let doing = match self.state.as_str() {
            "R" => "runs",
            "S" | "I" => "sleeps",
            "D" => "waits in the kernel and cannot be killed (state D)",
            "T" => "is stopped (state T)",
            "t" => "is held by a debugger (state t)",
            "Z" => "has ended and was not waited for (state Z)",
            _ => "is in an unknown state",
        };
        match &self.wait {
            Some(wait) => format!("{doing}, in {wait}"),
            None => doing.to_owned(),
        }
    }
}

/// A shim, which stands between the runtime and the containers of one pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Shim {
    /// The shim itself.
    pub process: Process,
    /// Whether it was stopped each time that it was looked at.
    pub stopped: bool,
    /// Its threads that wait in the kernel uninterruptibly, by where.
    pub stuck_in: Vec<String>,
    /// The containers and sandboxes that it serves.
    pub ids: Vec<String>,
    /// The pod that these are of.
    pub pod: Option<PodName>,
    /// Its children that are `runc`, with their children.
    pub runc: Vec<Process>,
}

/// A CNI plug-in under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plugin {
    /// The plug-in.
    pub process: Process,
    /// The youngest process that it waits for, if it started one.
    pub waits_for: Option<Process>,
}

/// What the kubelet says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletHealth {
    /// The HTTP status; `None` where it took the connection and does not answer.
    pub code: Option<u16>,
    /// The checks that fail.
    pub failed: Vec<String>,
}

/// What a runtime's goroutines tell, which it was asked for by a signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stacks {
    /// How many there are.
    pub goroutines: u64,
    /// The function of the one that is probably in everybody's way.
    pub holder: Option<String>,
    /// Why it is taken for that.
    pub why: Option<String>,
}
