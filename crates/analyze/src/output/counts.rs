//! How many there are: processes of each name (`ps -e -o comm | sort | uniq -c`), containers that
//! docker keeps (`ls /var/lib/docker/containers | wc -l`).

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::{Seen, has_any};
use crate::kernel::cause_of_function;
use crate::proof::Proof;
use crate::ps::is_plugin_name;

/// A plugin runs for about a second; so many at once wait for one another.
const MANY: u64 = 100;

/// A kubelet keeps one dead container of each, and 110 pods.
const MANY_CONTAINERS: u64 = 2000;
/// Pods of more than four containers each.
const MANY_RUNNING: u64 = 500;

/// Each keeps its process id; nodes have 32768 of them where nothing else is configured.
const MANY_ZOMBIES: u64 = 5000;

/// `kernel.pid_max` where nothing else is configured.
const ALL_IDS: u64 = 32_768;
const NEARLY_ALL_IDS: u64 = 32_000;

/// What systemd lets a runtime open (`LimitNOFILE`), but for a few.
const NEARLY_ALL_FILES: u64 = 1_048_000;

/// Two clients may ask at the same time.
const MANY_WAITING: u64 = 10;

/// A node has some hundred units, a mount and a scope of each container among them.
const MANY_UNITS: u64 = 10_000;

/// Reads what `docker info` tells of it: `Containers: 6214`.
pub(super) fn read_info(text: &str, line: u64, seen: &mut Seen) -> bool {
    let Some(count) = text.strip_prefix("Containers: ") else {
        return false;
    };
    if let Ok(count) = count.trim().parse()
        && count >= MANY_CONTAINERS
    {
        too_many(count, ", running and exited", Confidence::High, line, seen);
    }
    true
}

fn too_many(count: u64, which: &str, confidence: Confidence, line: u64, seen: &mut Seen) {
    let says = format!("the runtime keeps {count} containers{which}");
    let cause = Cause::TooManyContainers;
    seen.proof(Proof::new(cause, confidence, line, says));
}

/// Reads the number of containers that `command` counted; says whether it was that.
pub(super) fn read_count(command: &str, text: &str, line: u64, seen: &mut Seen) -> bool {
    let Some(count) = text.parse::<u64>().ok() else {
        return false;
    };
    if !has_any(command, &["wc -l", "grep -c"]) {
        return false;
    }
    // Each thread has an id, of which there are no more where nothing else is configured.
    if command.starts_with("ps ") && command.contains("L") && !command.contains("grep") {
        if (NEARLY_ALL_IDS..=ALL_IDS).contains(&count) {
            let says = format!("there are {count} threads, of at most {ALL_IDS} by default");
            let cause = Cause::PidsExhausted;
            seen.proof(Proof::new(cause, Confidence::Medium, line, says));
        }
        return true;
    }
    if command.contains("/fd") {
        if count >= NEARLY_ALL_FILES {
            let says = format!("one process has {count} files open, of at most 1048576 by default");
            let cause = Cause::FdOrInotifyExhausted;
            seen.proof(Proof::new(cause, Confidence::High, line, says));
        }
        return true;
    }
    if command.starts_with("ps ") && command.contains("defunct") {
        if count >= MANY_ZOMBIES {
            let says = format!("{count} processes have ended and nothing reaps them");
            let cause = Cause::PidsExhausted;
            seen.proof(Proof::new(cause, Confidence::Low, line, says));
        }
        return true;
    }
    if command.contains("list-units") {
        if count >= MANY_UNITS {
            let says = format!("systemd keeps {count} units");
            let cause = Cause::SystemdOverloaded;
            seen.proof(Proof::new(cause, Confidence::Medium, line, says));
        }
        return true;
    }
    if command.contains("grep") {
        return false;
    }
    let lists = command.contains("docker ps") || command.contains("crictl ps");
    let is_all = command.contains("/docker/containers")
        || lists && command.split_ascii_whitespace().any(is_option_for_all);
    let (most, confidence) = match (is_all, lists) {
        (true, _) => (MANY_CONTAINERS, Confidence::High),
        (false, true) => (MANY_RUNNING, Confidence::Medium),
        (false, false) => return false,
    };
    if count >= most {
        let which = if is_all { ", running and exited" } else { "" };
        too_many(count, which, confidence, line, seen);
    }
    true
}

/// `-a`, `-aq`, `--all`.
fn is_option_for_all(word: &str) -> bool {
    word == "--all" || word.starts_with('-') && !word.starts_with("--") && word.contains('a')
}

/// Reads `   5108 host-local`.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let Some((count, name)) = text.trim().split_once(' ') else {
        return;
    };
    let (Ok(count), name) = (count.parse::<u64>(), name.trim()) else {
        return;
    };
    if count >= MANY_ZOMBIES && name.ends_with("<defunct>") {
        let says = format!("{count} processes have ended and nothing reaps them");
        let cause = Cause::PidsExhausted;
        seen.proof(Proof::new(cause, Confidence::Low, line, says));
        return;
    }
    // Functions of the kernel, of `ps -eo wchan`.
    if count >= MANY_WAITING
        && let Some((cause, confidence)) = cause_of_function(name.trim_start_matches('_'))
    {
        let says = format!("{count} processes wait in {name} in the kernel");
        seen.proof(Proof::new(
            cause,
            confidence.min(Confidence::Medium),
            line,
            says,
        ));
        return;
    }
    // A debugger's frames: goroutines that wait for the lock of one and the same container.
    if count >= MANY_WAITING && name.contains("docker/daemon.") && name.contains("(container=0x") {
        let says = format!("{count} goroutines of dockerd wait for one container");
        let cause = Cause::ContainerLock;
        seen.proof(Proof::new(cause, Confidence::Medium, line, says));
        return;
    }
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
