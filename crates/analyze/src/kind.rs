//! The kind of an input, and the program that wrote a line.
//!
//! ```
//! use analyze::kind::{Kind, Writer};
//!
//! let kind = Writer::of_ident(b"k3s-agent").map(Writer::kind);
//! assert_eq!(kind, Some(Kind::KubeletLog));
//! assert_eq!(Kind::KubeletLog.as_str(), "kubelet-log");
//! ```

use std::collections::HashMap;
use std::sync::LazyLock;

use causes::facts::facts;
use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

/// Declares the kinds, each with its name in reports.
macro_rules! kinds {
    ($($kind:ident = $word:literal,)+) => {
        /// The kind of an input, by its content.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "kebab-case")]
        #[expect(missing_docs, reason = "the words say it")]
        pub enum Kind {
            $($kind,)+
            #[default]
            Unknown,
        }

        impl Kind {
            /// All kinds except unknown.
            pub const KNOWN: [Self; [$($word),+].len()] = [$(Self::$kind),+];

            /// The number of kinds.
            pub const COUNT: usize = Self::KNOWN.len() + 1;

            /// The name in reports.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)+
                    Self::Unknown => "unknown",
                }
            }
        }
    };
}

kinds! {
    KubeletLog = "kubelet-log",
    RuntimeLog = "runtime-log",
    SystemdLog = "systemd-log",
    KernelLog = "kernel-log",
    KernelStack = "kernel-stack",
    GoroutineDump = "goroutine-dump",
    GoroutineProfile = "goroutine-profile",
    Metrics = "metrics",
    Ps = "ps",
    KubectlDescribe = "kubectl-describe",
    KubectlEvents = "kubectl-events",
    ToolOutput = "tool-output",
    Snapshot = "snapshot",
}

/// The programs whose log lines are distinguished.
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
    /// The writer with the identifier that the journal shows before a line.
    pub fn of_ident(ident: &[u8]) -> Option<Self> {
        let ident = ident.strip_suffix(b".service").unwrap_or(ident);
        // A map, because each line of a journal is looked up.
        static KNOWN: LazyLock<HashMap<&[u8], Writer, RandomState>> = LazyLock::new(|| {
            let each = facts().writers.iter().flat_map(|(writer, idents)| {
                let writer = crate::named(writer);
                idents.iter().map(move |ident| (ident.as_bytes(), writer))
            });
            each.collect()
        });
        let of_family = || match ident {
            _ if ident.starts_with(b"containerd-shim") => Some(Self::Runtime),
            _ if ident.starts_with(b"systemd-") => Some(Self::Systemd),
            _ => None,
        };
        KNOWN.get(ident).copied().or_else(of_family)
    }

    /// The kind of the writer's log.
    pub fn kind(self) -> Kind {
        match self {
            Self::Kubelet => Kind::KubeletLog,
            Self::Runtime => Kind::RuntimeLog,
            Self::Systemd => Kind::SystemdLog,
            Self::Kernel => Kind::KernelLog,
        }
    }
}
