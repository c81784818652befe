//! The generations of CRI.

use std::fmt;

/// The generation of the interface that a runtime speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiVersion {
    /// Kubernetes 1.23 and later; containerd 1.6 and later.
    V1,
    /// Older versions of Kubernetes: the same messages under another service name.
    V1Alpha2,
}

impl ApiVersion {
    /// The version as CRI spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Alpha2 => "v1alpha2",
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
