//! The system bus, and systemd on it.

use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// What the system bus, and systemd on it, answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BusFacts {
    /// Whether the system bus can be reached.
    pub reach: Fact<Reach>,
    /// The owner of `org.freedesktop.systemd1`; `None` if it has no owner.
    pub owner: Fact<Option<String>>,
    /// What systemd answered to a ping over the bus.
    pub ping: Fact<Ping>,
    /// The serial numbers of two answers, if there were two.
    pub serial: Fact<Serial>,
    /// What systemd answered over its private socket, which has its own serial numbers.
    pub private: Fact<Ping>,
    /// The version that the running systemd reports.
    pub systemd: Fact<String>,
    /// The services that systemd has loaded and that run a kubelet or a runtime.
    pub services: Fact<Vec<Service>>,
}

/// A service, as systemd sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    /// Its unit: `kubelet.service`.
    pub unit: String,
    /// systemd's SubState: `running`, `auto-restart`.
    pub state: String,
    /// Its main process, if it has one now.
    pub main_pid: Option<u32>,
    /// How often systemd has restarted it automatically; versions before 235 do not count this. A manual
    /// restart, or `systemctl reset-failed`, resets the count.
    pub restarts: Option<u32>,
}

impl Service {
    /// Whether its unit has a name that distributions use for the kubelet.
    pub fn is_kubelet(&self) -> bool {
        KUBELET_UNITS.contains(&self.unit.as_str())
    }
}

/// Unit names of the kubelet in various distributions.
pub const KUBELET_UNITS: [&str; 11] = [
    "kubelet.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
    "snap.microk8s.daemon-kubelite.service",
    "snap.kubelet.daemon.service",
    "origin-node.service",
    "atomic-openshift-node.service",
];

/// Unit names of runtimes.
pub const RUNTIME_UNITS: [&str; 5] = [
    "containerd.service",
    "docker.service",
    "crio.service",
    "cri-docker.service",
    "snap.microk8s.daemon-containerd.service",
];

/// Whether the bus can be reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Reach {
    /// The bus accepted the connection.
    Connected,
    /// There is no socket.
    NoSocket,
    /// No process listens on the socket.
    Refused,
    /// The bus rejected the connection.
    Rejected {
        /// The error's name.
        error: String,
        /// The error message.
        message: String,
    },
    /// The bus did not accept the connection within this time.
    Silent {
        /// The time limit, in seconds.
        seconds: f64,
    },
}

/// The result of a call that the D-Bus library in systemd answers before systemd's own code receives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Ping {
    /// There was a reply, possibly an error.
    Answered {
        /// The serial number of the reply: how many messages have been sent.
        serial: u32,
        /// How long the reply took, in seconds.
        seconds: f64,
    },
    /// There was no reply within this time.
    Silent {
        /// The time limit, in seconds.
        seconds: f64,
    },
}

/// How the serial numbers grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Serial {
    /// The serial number of the first answer.
    pub first: u32,
    /// The serial number of the later answer.
    pub later: u32,
    /// The time between the two answers.
    pub seconds: f64,
}
