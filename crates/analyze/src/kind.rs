//! What an input is, by its content.
//!
//! ```
//! use analyze::kind::{Kind, Writer};
//!
//! let kind = Writer::of_ident(b"k3s-agent").map(Writer::kind);
//! assert_eq!(kind, Some(Kind::KubeletLog));
//! assert_eq!(Kind::KubeletLog.as_str(), "kubelet-log");
//! ```

use serde::{Deserialize, Serialize};

/// The kinds that are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the words say it")]
pub enum Kind {
    KubeletLog,
    RuntimeLog,
    SystemdLog,
    KernelLog,
    KernelStack,
    GoroutineDump,
    GoroutineProfile,
    Metrics,
    Ps,
    KubectlDescribe,
    KubectlEvents,
    ToolOutput,
    Snapshot,
    #[default]
    Unknown,
}

impl Kind {
    /// The number of kinds.
    pub const COUNT: usize = Self::KNOWN.len() + 1;

    /// All kinds except unknown.
    pub const KNOWN: [Self; 13] = [
        Self::KubeletLog,
        Self::RuntimeLog,
        Self::SystemdLog,
        Self::KernelLog,
        Self::KernelStack,
        Self::GoroutineDump,
        Self::GoroutineProfile,
        Self::Metrics,
        Self::Ps,
        Self::KubectlDescribe,
        Self::KubectlEvents,
        Self::ToolOutput,
        Self::Snapshot,
    ];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KubeletLog => "kubelet-log",
            Self::RuntimeLog => "runtime-log",
            Self::SystemdLog => "systemd-log",
            Self::KernelLog => "kernel-log",
            Self::KernelStack => "kernel-stack",
            Self::GoroutineDump => "goroutine-dump",
            Self::GoroutineProfile => "goroutine-profile",
            Self::Metrics => "metrics",
            Self::Ps => "ps",
            Self::KubectlDescribe => "kubectl-describe",
            Self::KubectlEvents => "kubectl-events",
            Self::ToolOutput => "tool-output",
            Self::Snapshot => "snapshot",
            Self::Unknown => "unknown",
        }
    }
}

/// Who writes to a node's journal, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the words say it")]
pub enum Writer {
    Kubelet,
    Runtime,
    Systemd,
    Kernel,
}

impl Writer {
    /// By the name that the journal has in front.
    pub fn of_ident(ident: &[u8]) -> Option<Self> {
        if ident.is_empty() {
            return None;
        }
        let ident = ident.strip_suffix(b".service").unwrap_or(ident);
        Some(match ident {
            b"kubelet"
            | b"k3s"
            | b"k3s-agent"
            | b"rke2"
            | b"rke2-agent"
            | b"rke2-server"
            | b"origin-node"
            | b"atomic-openshift-node"
            | b"hyperkube"
            | b"kubelite"
            | b"k0s"
            | b"microk8s.daemon-kubelite"
            | b"microk8s.daemon-kubelet"
            | b"openshift"
            | b"kubelet-wrapper"
            | b"kubenswrapper" => Self::Kubelet,
            b"containerd"
            | b"dockerd"
            | b"docker"
            | b"dockerd-current"
            | b"docker-current"
            | b"docker-containerd"
            | b"crio"
            | b"cri-o"
            | b"cri-dockerd"
            | b"runc"
            | b"conmon"
            | b"microk8s.daemon-containerd" => Self::Runtime,
            b"systemd"
            | b"systemd-logind"
            | b"systemd-journald"
            | b"systemd-udevd"
            | b"dbus"
            | b"dbus-daemon"
            | b"dbus-broker"
            | b"dbus-broker-launch"
            | b"(systemd)" => Self::Systemd,
            b"kernel" | b"kern" => Self::Kernel,
            _ if ident.starts_with(b"containerd-shim") => Self::Runtime,
            _ if ident.starts_with(b"systemd-") => Self::Systemd,
            _ => return None,
        })
    }

    /// The kind of a log that it writes.
    pub fn kind(self) -> Kind {
        match self {
            Self::Kubelet => Kind::KubeletLog,
            Self::Runtime => Kind::RuntimeLog,
            Self::Systemd => Kind::SystemdLog,
            Self::Kernel => Kind::KernelLog,
        }
    }
}
