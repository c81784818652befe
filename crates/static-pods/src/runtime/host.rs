//! The data of the node and our own settings, which requests contain in addition to the pod.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::Cgroups;

/// The data of the node and our own settings.
#[derive(Clone, Debug)]
pub struct Host {
    /// The owner of the pods: the value of the label `pleg.dev/owner`.
    pub owner: String,
    /// The node's name, for `spec.nodeName`.
    pub node_name: String,
    /// Returns the node's current addresses, the primary one first. Pods on the host's network have
    /// the same addresses. They may change while this process runs.
    pub node_ips: fn() -> Vec<IpAddr>,
    /// The node's memory in bytes, for OOM scores.
    pub memory: u64,
    /// The runtime's cgroups.
    pub cgroups: Cgroups,
    /// The directory of the pods' logs: `/var/log/pods`.
    pub log_root: PathBuf,
}

impl Host {
    /// The node's primary address.
    pub fn node_ip(&self) -> Option<IpAddr> {
        (self.node_ips)().into_iter().next()
    }

    /// The node's memory in bytes, from the text of `/proc/meminfo`.
    pub fn memory_in(meminfo: &str) -> Option<u64> {
        let line = meminfo.lines().find_map(|it| it.strip_prefix("MemTotal:"));
        let kilobytes = line?.trim().strip_suffix("kB")?.trim_end();
        kilobytes.parse::<u64>().ok()?.checked_mul(1024)
    }

    /// Reads the node's memory in bytes from the proc file system at `proc`.
    pub fn read_memory(proc: &Path) -> std::io::Result<u64> {
        let text = std::fs::read_to_string(proc.join("meminfo"))?;
        Self::memory_in(&text).ok_or_else(|| std::io::Error::other("meminfo has no MemTotal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_node_is_converted_to_bytes() {
        let text = "MemTotal:       16318540 kB\nMemFree:         1000 kB\n";
        assert_eq!(Host::memory_in(text), Some(16_318_540 * 1024));
        assert_eq!(Host::memory_in("MemFree: 1 kB\n"), None);
        assert_eq!(Host::memory_in("MemTotal: many kB\n"), None);
    }
}
