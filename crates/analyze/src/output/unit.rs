//! `systemctl status`.

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::{Seen, counts};
use crate::proof::Proof;

/// The unit that the lines are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Unit {
    /// Not told yet, or of no interest.
    #[default]
    Other,
    Kubelet,
    Containerd,
    Docker,
    Crio,
    CriDockerd,
}

impl Unit {
    /// The unit of `● docker.service - Docker Application Container Engine`.
    pub(super) fn begins(text: &str) -> Option<Self> {
        let rest = text.trim_start_matches(['●', '○', '×', '*', '↻', 'â', '—', ' ']);
        let (name, _) = rest
            .split_once(".service - ")
            .or_else(|| rest.split_once(".service ● "))?;
        (!name.contains(' ')).then(|| match name.rsplit('.').next().unwrap_or(name) {
            "kubelet" | "daemon-kubelet" | "daemon-kubelite" => Self::Kubelet,
            "containerd" | "daemon-containerd" => Self::Containerd,
            "docker" => Self::Docker,
            "crio" | "cri-o" => Self::Crio,
            "cri-docker" | "cri-dockerd" => Self::CriDockerd,
            _ => Self::Other,
        })
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Self::Other => None,
            Self::Kubelet => Some("kubelet.service"),
            Self::Containerd => Some("containerd.service"),
            Self::Docker => Some("docker.service"),
            Self::Crio => Some("crio.service"),
            Self::CriDockerd => Some("cri-docker.service"),
        }
    }
}

/// Reads a line of the page of a unit.
pub(super) fn read(unit: &Unit, text: &str, line: u64, seen: &mut Seen) {
    if let Some((units, _)) = text.split_once(" loaded") {
        return counts::read_units(units.trim_start_matches("Units: "), line, seen);
    }
    let Some(name) = unit.name() else {
        return;
    };
    let culprit = || Culprit {
        unit: Some(name.to_owned()),
        ..Culprit::default()
    };
    if let Some(state) = text.strip_prefix("Active: ") {
        if matches!(unit, Unit::Containerd | Unit::Crio) && state.starts_with("active (running)") {
            seen.runs_other_runtime = true;
        }
        let word = state.split(" since").next().unwrap_or(state);
        let is_down = [
            "failed",
            "inactive",
            "activating (auto-restart)",
            "deactivating",
        ];
        if !is_down.iter().any(|down| state.starts_with(down)) {
            return;
        }
        let says = format!("{name} is {word}");
        let cause = match unit {
            Unit::Kubelet => Cause::KubeletNotRunning,
            _ => Cause::RuntimeUnresponsive,
        };
        let headline = format!("the unit {name} is {word}");
        let proof = Proof::new(cause, Confidence::High, line, says).headed(headline);
        seen.proof(proof.of(culprit()));
    }
    // Tasks: 4915 (limit: 4915)
    if let Some((tasks, limit)) = text
        .strip_prefix("Tasks: ")
        .and_then(|rest| rest.split_once(" (limit: "))
    {
        let number = |text: &str| text.trim_end_matches(')').parse::<u64>().ok();
        if let (Some(tasks), Some(limit)) = (number(tasks), number(limit))
            && tasks >= limit.saturating_sub(limit / 50)
        {
            let says = format!("{name} has {tasks} of at most {limit} tasks");
            let proof = Proof::new(Cause::PidsExhausted, Confidence::High, line, says);
            seen.proof(proof.of(culprit()));
        }
    }
}
