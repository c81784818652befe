//! The names of CNI networks and the types of their plugins: nothing else is kept of the configuration.

use std::ffi::OsStr;

use serde_json::Value;

use super::Host;
use super::file::{printable, text};
use crate::facts::Fact;
use crate::facts::host::CniNetwork;

const MAX_FILES: usize = 50;

pub(super) fn read(host: &Host) -> Fact<Vec<CniNetwork>> {
    let folder = host.etc.join("cni/net.d");
    let source = folder.display().to_string();
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) => return Fact::missing(error, source),
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    let endings = ["conf", "conflist", "json"].map(OsStr::new);
    paths.retain(|path| {
        path.extension()
            .is_some_and(|ending| endings.contains(&ending))
    });
    paths.sort();
    let networks = paths.iter().take(MAX_FILES).filter_map(|path| {
        let config: Value = serde_json::from_str(&text(path).ok()?).ok()?;
        let name = |value: &Value, key: &str| value.get(key)?.as_str().map(printable);
        let plugins = match config.get("plugins").and_then(Value::as_array) {
            Some(list) => {
                let types = list.iter().filter_map(|one| name(one, "type"));
                types.take(MAX_FILES).collect()
            }
            None => name(&config, "type").into_iter().collect(),
        };
        Some(CniNetwork {
            file: printable(&path.file_name()?.to_string_lossy()),
            name: name(&config, "name").unwrap_or_default(),
            plugins,
        })
    });
    Fact::known(networks.collect(), source)
}
