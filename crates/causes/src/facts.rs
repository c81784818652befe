//! Facts that more than one reader of a node uses: names and limits. Each is defined once, in
//! `facts.yaml`.
//!
//! ```
//! use causes::facts::facts;
//!
//! assert!(facts().cni_plugins.iter().any(|name| name == "cilium-cni"));
//! ```

use std::sync::LazyLock;

use serde::Deserialize;

use crate::versions::{KernelFault, Runc, SystemdSerials};

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
    /// Beginnings of the names of threads that wait for nothing but storage.
    pub storage_threads: Vec<String>,
    /// Commands that wait for nothing but storage.
    pub storage_commands: Vec<String>,
    pub(crate) runc: Runc,
    pub(crate) systemd_serials: SystemdSerials,
    pub(crate) kernels: Vec<KernelFault>,
    /// The first kernel of RHEL 7 that leaks no memory control groups.
    pub memory_cgroups_fixed: String,
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
