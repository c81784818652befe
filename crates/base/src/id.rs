//! Identifiers: opaque strings of the runtime, cheap to clone.
//!
//! ```
//! use base::id::{Id, PodUid};
//!
//! let id = Id::from("61ac7eca54e9");
//! assert_eq!(id.to_string(), "61ac7eca54e9");
//! assert!(PodUid::from("").is_empty());
//! ```

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Whether the text is empty.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<T: Into<Arc<str>>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name_type! {
    /// A pod's UID, as Kubernetes assigned it.
    PodUid
}

name_type! {
    /// The runtime's id of a container or sandbox. Containers and sandboxes share one namespace.
    Id
}

/// A reference to a pod: its UID, namespace and name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodRef {
    /// The UID; empty if a container has no pod label and its sandbox is unknown.
    pub uid: PodUid,
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}({})", self.namespace, self.name, self.uid)
    }
}

/// The owner of a container or sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its pod.
    pub pod: PodRef,
    /// The container's name; `None` for a sandbox.
    pub container: Option<Arc<str>>,
}

/// A container or sandbox that is known from the host, and not from the runtime's lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostId {
    /// Its id.
    pub id: Id,
    /// Its owner, if known: for display only, not evidence.
    pub owner: Option<Owner>,
}

impl From<Id> for HostId {
    fn from(id: Id) -> Self {
        Self { id, owner: None }
    }
}
