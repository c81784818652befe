//! Facts that more than one reader of a node uses: names and limits. Each is defined once, in
//! `facts.yaml`.
//!
//! ```
//! use causes::facts::facts;
//!
//! assert!(facts().cni_plugins.iter().any(|name| name == "cilium-cni"));
//! ```

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::versions::{Fault, KernelFault, Range, SystemdSerials};

/// The facts of the catalogue.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Facts {
    /// File names of CNI plugins.
    pub cni_plugins: Vec<String>,
    /// Programs that start CNI plugins.
    pub plugin_starters: Vec<String>,
    /// Functions in which a task waits for a lock of the kernel itself.
    pub kernel_locks: Vec<String>,
    /// Texts by which a line is read further, by what it is then.
    pub lines: BTreeMap<String, Vec<String>>,
    /// Functions and states of goroutines, by what they show of their wait.
    pub goroutines: BTreeMap<String, Vec<String>>,
    /// Commands that are recognised at a prompt even if only `#` or `$` precedes them.
    pub shell_commands: Vec<String>,
    /// Limits from which on something is reported, by name.
    pub limits: BTreeMap<String, f64>,
    /// Texts of lines about a connection that failed, by whether it is one to the runtime.
    pub runtime_connections: BTreeMap<String, Vec<String>>,
    /// Programs that write to the journal, by what they are.
    pub writers: BTreeMap<String, Vec<String>>,
    /// Types of conditions of a node.
    pub node_conditions: Vec<String>,
    /// Packages of Go and the program that each belongs to, the most specific first.
    pub go_packages: Vec<(String, String)>,
    /// Programs of Go, and patterns of the names of their processes.
    pub go_programs: BTreeMap<String, Vec<String>>,
    /// Texts of lines around the stacks in the log of the kernel.
    pub around_kernel_stacks: Vec<String>,
    pub(crate) runc: BTreeMap<Fault, Vec<Range>>,
    pub(crate) systemd_serials: SystemdSerials,
    pub(crate) kernels: Vec<KernelFault>,
    /// Methods of calls to the runtime, by texts in what a kubelet reports of them.
    pub call_methods: Vec<(String, String)>,
    /// What lines begin with, by what they are then.
    pub beginnings: BTreeMap<String, Vec<String>>,
    /// The tables whose rows rules read, and the names of their cells.
    pub tables: BTreeMap<String, Vec<String>>,
    /// Names of months in other languages than English, for each month.
    pub months: Vec<Vec<String>>,
    /// The columns of listings of processes without a header.
    pub ps_layouts: Vec<Vec<String>>,
    /// Lines that the log of every node has.
    pub usual_lines: Vec<String>,
    /// The first kernel of RHEL 7 that leaks no memory control groups.
    pub memory_cgroups_fixed: String,
}

impl Facts {
    /// Whether a line begins as those of this kind do.
    pub fn begins(&self, kind: &str, line: &[u8]) -> bool {
        let mut beginnings = self.beginnings[kind].iter();
        beginnings.any(|beginning| line.starts_with(beginning.as_bytes()))
    }
}

static FACTS: LazyLock<Facts> = LazyLock::new(|| {
    serde_json::from_str(crate::catalogue::FACTS)
        .unwrap_or_else(|error| panic!("facts.yaml: {error}"))
});

/// The facts of the catalogue.
///
/// # Panics
///
/// Never: a test reads them.
pub fn facts() -> &'static Facts {
    &FACTS
}
