//! Versions of the kernel, the distribution and packages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// Versions of what runs on this node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VersionFacts {
    /// The kernel's release, `5.4.0-132-generic`.
    pub kernel: Fact<String>,
    /// The distribution's name.
    pub os: Fact<String>,
    /// The packages whose versions judges use.
    pub packages: Fact<BTreeMap<String, String>>,
    /// The version that the executable `runc` contains.
    pub runc: Fact<String>,
    /// Whether the executable of process 1 has been replaced since that process started.
    pub init_replaced: Fact<bool>,
}

impl VersionFacts {
    /// The version of a package.
    pub fn package(&self, name: &str) -> Option<&str> {
        self.packages.value()?.get(name).map(String::as_str)
    }

    /// The version of runc: of the executable, or else of its package.
    pub fn runc(&self) -> Option<&str> {
        let program = self.runc.value().map(String::as_str);
        program.or_else(|| self.package("runc"))
    }
}
