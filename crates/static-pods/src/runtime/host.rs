//! What requests hold that is not the pod's: the node's facts and our own settings.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::Cgroups;

/// Of the node and of this program: what requests hold beside the pod.
#[derive(Clone, Debug)]
pub struct Host {
    /// Whose pods these are: the value of the label `pleg.dev/owner`.
    pub owner: String,
    /// The node's name, for `spec.nodeName`.
    pub node_name: String,
    /// The node's addresses now, the primary one first, which a pod on the host's network has too. A
    /// node may get its network, or another address, while this program runs.
    pub node_ips: fn() -> Vec<IpAddr>,
    /// The node's memory in bytes, by which OOM scores are reckoned.
    pub memory: u64,
    /// How the runtime names cgroups.
    pub cgroups: Cgroups,
    /// Where pods have their log folders: `/var/log/pods`.
    pub log_root: PathBuf,
}

impl Host {
    /// The node's primary address.
    pub fn node_ip(&self) -> Option<IpAddr> {
        (self.node_ips)().into_iter().next()
    }

    /// The node's memory, as `/proc/meminfo` tells it; `None` for a text that does not.
    pub fn memory_in(meminfo: &str) -> Option<u64> {
        let line = meminfo.lines().find_map(|it| it.strip_prefix("MemTotal:"));
        let kilobytes = line?.trim().strip_suffix("kB")?.trim_end();
        kilobytes.parse::<u64>().ok()?.checked_mul(1024)
    }

    /// The node's memory, as the kernel tells it.
    pub fn read_memory(proc: &Path) -> std::io::Result<u64> {
        let text = std::fs::read_to_string(proc.join("meminfo"))?;
        Self::memory_in(&text).ok_or_else(|| std::io::Error::other("meminfo has no MemTotal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_node_is_read_in_bytes() {
        let text = "MemTotal:       16318540 kB\nMemFree:         1000 kB\n";
        assert_eq!(Host::memory_in(text), Some(16_318_540 * 1024));
        assert_eq!(Host::memory_in("MemFree: 1 kB\n"), None);
        assert_eq!(Host::memory_in("MemTotal: many kB\n"), None);
    }
}
