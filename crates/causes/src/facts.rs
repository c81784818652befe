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
}

static FACTS: LazyLock<Facts> = LazyLock::new(|| {
    let facts = include_str!("../causes/facts.yaml");
    serde_saphyr::from_str(facts).unwrap_or_else(|error| panic!("facts.yaml: {error}"))
});

/// The facts of the catalogue.
///
/// # Panics
///
/// Never: a test reads them.
pub fn facts() -> &'static Facts {
    &FACTS
}
