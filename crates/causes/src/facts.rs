//! Facts that the doctor and the analysis of saved files share: names, texts and limits. `facts.yaml`
//! defines each of them once.
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
    /// Texts that decide how a line is read further, by the kind of the line.
    pub lines: BTreeMap<String, Vec<String>>,
    /// Functions and states of goroutines, by what they show about the wait.
    pub goroutines: BTreeMap<String, Vec<String>>,
    /// Commands that are recognised at a prompt even if only `#` or `$` precedes them.
    pub shell_commands: Vec<String>,
    /// Limits from which something is reported, by name.
    pub limits: BTreeMap<String, f64>,
    /// Texts that show whether a line about a failed connection is about the runtime.
    pub runtime_connections: BTreeMap<String, Vec<String>>,
    /// Names under which programs write to the journal, by the kind of writer.
    pub writers: BTreeMap<String, Vec<String>>,
    /// Types of conditions of a node.
    pub node_conditions: Vec<String>,
    /// Packages of Go and the program that each belongs to, the most specific first.
    pub go_packages: Vec<(String, String)>,
    /// Patterns for the process names of Go programs, by program.
    pub go_programs: BTreeMap<String, Vec<String>>,
    /// Texts in the lines around stacks in the log of the kernel.
    pub around_kernel_stacks: Vec<String>,
    pub(crate) runc: BTreeMap<Fault, Vec<Range>>,
    pub(crate) systemd_serials: SystemdSerials,
    pub(crate) kernels: Vec<KernelFault>,
    /// Texts in the kubelet's messages about failed calls, each with the method of the call.
    pub call_methods: Vec<(String, String)>,
    /// How lines of a kind begin, by kind.
    pub beginnings: BTreeMap<String, Vec<String>>,
    /// The tables whose rows rules read, and the names of their cells.
    pub tables: BTreeMap<String, Vec<String>>,
    /// The names of each month in languages other than English.
    pub months: Vec<Vec<String>>,
    /// Columns of process listings without a header.
    pub ps_layouts: Vec<Vec<String>>,
    /// Lines that every node logs.
    pub usual_lines: Vec<String>,
    /// The first kernel of RHEL 7 that leaks no memory control groups.
    pub memory_cgroups_fixed: String,
}

impl Facts {
    /// Whether the line begins like the lines of this kind, a key of `beginnings`.
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
/// Never: a test parses them.
pub fn facts() -> &'static Facts {
    &FACTS
}
