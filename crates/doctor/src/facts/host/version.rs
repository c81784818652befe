//! Releases and versions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// What runs here, and in which version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VersionFacts {
    /// The kernel's release, `5.4.0-132-generic`.
    pub kernel: Fact<String>,
    /// The distribution in its own words.
    pub os: Fact<String>,
    /// Packages that matter here, with their versions.
    pub packages: Fact<BTreeMap<String, String>>,
    /// The version that stands in the program `runc`.
    pub runc: Fact<String>,
    /// The program that process 1 runs has been replaced since it started.
    pub init_replaced: Fact<bool>,
}

impl VersionFacts {
    /// The version of a package.
    pub fn package(&self, name: &str) -> Option<&str> {
        self.packages.value()?.get(name).map(String::as_str)
    }

    /// The version of runc: of the program, else of its package.
    pub fn runc(&self) -> Option<&str> {
        let program = self.runc.value().map(String::as_str);
        program.or_else(|| self.package("runc"))
    }
}
