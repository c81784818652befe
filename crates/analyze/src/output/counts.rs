//! How many there are: processes of each name (`ps -e -o comm | sort | uniq -c`), containers that
//! docker keeps (`ls /var/lib/docker/containers | wc -l`).

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::Seen;
use crate::proof::Proof;
use crate::ps::is_plugin_name;

/// A plugin runs for about a second; so many at once wait for one another.
const MANY: u64 = 100;

/// A kubelet keeps one dead container of each, and 110 pods.
const MANY_CONTAINERS: u64 = 2000;

/// Reads the number of directories that `command` counted; says whether it was that.
pub(super) fn read_directories(command: &str, text: &str, line: u64, seen: &mut Seen) -> bool {
    let is_count = command.contains("/docker/containers") && command.contains("wc -l");
    let Some(count) = text.parse::<u64>().ok().filter(|_| is_count) else {
        return false;
    };
    if count >= MANY_CONTAINERS {
        let says = format!("docker keeps {count} containers, running and exited");
        let cause = Cause::TooManyContainers;
        seen.proof(Proof::new(cause, Confidence::High, line, says));
    }
    true
}

/// Reads `   5108 host-local`.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let Some((count, name)) = text.trim().split_once(' ') else {
        return;
    };
    let (Ok(count), name) = (count.parse::<u64>(), name.trim()) else {
        return;
    };
    let file = name.rsplit('/').next().unwrap_or(name);
    if count >= MANY && is_plugin_name(file) {
        let says = format!("{count} processes of the CNI plugin {file}");
        let culprit = Culprit {
            process: Some(file.to_owned()),
            ..Culprit::default()
        };
        let cause = Cause::CniPluginHang;
        seen.proof(Proof::new(cause, Confidence::High, line, says).of(culprit));
    }
}
