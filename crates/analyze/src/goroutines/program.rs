//! Determines the program that a stack belongs to, by the packages in it.

use std::fmt;
use std::sync::LazyLock;

use causes::facts::facts;
use serde::Deserialize;

use super::Calls;
use crate::line::has;
use crate::rules::is_like;

/// A program between the kubelet and the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Program {
    Kubelet,
    Dockerd,
    Containerd,
    Shim,
    CriO,
    Runc,
    CniPlugin,
    CniAgent,
}

const KUBERNETES: &str = "k8s.io/kubernetes/";

/// The most specific packages come first, because programs contain packages of each other.
static PACKAGES: LazyLock<Vec<(&str, Program)>> = LazyLock::new(|| {
    let each = facts().go_packages.iter();
    each.map(|(package, program)| (package.as_str(), crate::named(program)))
        .collect()
});

impl Program {
    /// The program whose stack has these calls.
    pub fn of(calls: &Calls, created_by: Option<&str>) -> Option<Self> {
        let names = || calls.iter().map(|call| call.function).chain(created_by);
        let mut packages = PACKAGES.iter();
        let found = packages.find(|(package, _)| names().any(|name| name.contains(package)));
        found.map(|(_, program)| *program)
    }

    /// The program that contains this source file. The file may be one of a library in the program's
    /// `vendor` folder.
    pub fn of_source(path: &[u8]) -> Option<Self> {
        let mut packages = PACKAGES.iter();
        // All programs of Kubernetes have this package.
        let found = packages.find(|(package, _)| *package != KUBERNETES && has(path, package));
        found.map(|(_, program)| *program)
    }

    /// The usual name of the program.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].0
    }

    /// The program of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        let known = facts().go_programs.iter();
        let mut known = known.filter(|(_, patterns)| patterns.iter().any(|it| is_like(name, it)));
        known.next().map(|(program, _)| crate::named(program))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES[*self as usize].1)
    }
}

/// The usual name of each program, and its name in a sentence.
const NAMES: [(&str, &str); 8] = [
    ("kubelet", "the kubelet"),
    ("dockerd", "dockerd"),
    ("containerd", "containerd"),
    ("containerd-shim", "the shim"),
    ("crio", "CRI-O"),
    ("runc", "runc"),
    ("cni-plugin", "the CNI plugin"),
    ("cni-agent", "the CNI agent"),
];
