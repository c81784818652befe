//! How many there are: containers that docker keeps (`ls /var/lib/docker/containers | wc -l`), threads,
//! units, open files.

use causes::Cause;
use causes::finding::Confidence;

use super::{Seen, has_any};
use crate::proof::Proof;

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

/// A node has some hundred units, a mount and a scope of each container among them.
const MANY_UNITS: u64 = 10_000;
/// As many are evidence only beside a busy systemd.
const SOME_UNITS: u64 = 3000;

/// systemd reads the whole table of mounts at each change of it.
const MANY_MOUNTS: u64 = 10_000;

/// Reads what `docker info` tells of it: `Containers: 6214`.
pub(super) fn read_info(text: &str, line: u64, seen: &mut Seen) -> bool {
    let Some(count) = text.strip_prefix("Containers: ") else {
        return false;
    };
    if let Ok(count) = count.trim().parse::<u64>()
        && count >= MANY_CONTAINERS
    {
        let says = format!("the runtime keeps {count} containers, running and exited");
        let cause = Cause::TooManyContainers;
        seen.proof(Proof::new(cause, Confidence::High, line, says));
    }
    true
}

/// Reads the number that `command` counted; says whether it is known of what.
pub(super) fn read_count(command: &str, text: &str, line: u64, seen: &mut Seen) -> bool {
    let is_count = has_any(command, &["wc -l", "grep -c"]);
    // `wc` names the file, if it was given one.
    let number = text.split(' ').next().unwrap_or(text);
    let Some(count) = number.parse::<u64>().ok().filter(|_| is_count) else {
        return false;
    };
    let Some(meaning) = meaning(command, count) else {
        return false;
    };
    if meaning.is_many {
        let Meaning {
            cause,
            confidence,
            says,
            ..
        } = meaning;
        seen.proof(Proof::new(cause, confidence, line, says));
    }
    true
}

/// What such a number means, if it is many.
struct Meaning {
    is_many: bool,
    cause: Cause,
    confidence: Confidence,
    says: String,
}

/// Reads how many units `systemctl` has listed.
pub(super) fn read_units(count: &str, line: u64, seen: &mut Seen) {
    let Ok(count) = count.trim().parse::<u64>() else {
        return;
    };
    let says = format!("systemd keeps {count} units");
    let proof = Proof::new(Cause::SystemdOverloaded, Confidence::Medium, line, says);
    seen.proof(match count {
        MANY_UNITS.. => proof,
        SOME_UNITS.. => proof.aside(),
        _ => return,
    });
}

/// `None` if it is not known what was counted.
fn meaning(command: &str, count: u64) -> Option<Meaning> {
    let is_grep = command.contains("grep");
    let is_ps = command.starts_with("ps ");
    let many = |is_many, cause, confidence, says| {
        Some(Meaning {
            is_many,
            cause,
            confidence,
            says,
        })
    };
    if is_ps && command.contains("defunct") {
        let says = format!("{count} processes have ended and nothing reaps them");
        let is_many = count >= MANY_ZOMBIES;
        return many(is_many, Cause::PidsExhausted, Confidence::Low, says);
    }
    // Each thread has an id, of which there are no more where nothing else is configured.
    if is_ps && command.contains('L') && !is_grep {
        let says = format!("there are {count} threads, of at most {ALL_IDS} by default");
        let is_many = (NEARLY_ALL_IDS..=ALL_IDS).contains(&count);
        return many(is_many, Cause::PidsExhausted, Confidence::Medium, says);
    }
    if command.contains("/fd") && !is_grep {
        let says = format!("one process has {count} files open, of at most 1048576 by default");
        let is_many = count >= NEARLY_ALL_FILES;
        return many(is_many, Cause::FdOrInotifyExhausted, Confidence::High, says);
    }
    if command.contains("mountinfo") || command.contains("/mounts") {
        let says = format!("there are {count} mounts, all of which systemd reads at each change");
        let is_many = count >= MANY_MOUNTS;
        return many(is_many, Cause::SystemdOverloaded, Confidence::Medium, says);
    }
    if command.contains("list-units") {
        let says = format!("systemd keeps {count} units");
        let is_many = count >= MANY_UNITS;
        return many(is_many, Cause::SystemdOverloaded, Confidence::Medium, says);
    }
    let lists = command.contains("docker ps") || command.contains("crictl ps");
    let is_all = command.contains("/docker/containers")
        || lists && command.split_ascii_whitespace().any(is_option_for_all);
    let (most, confidence, which) = match (is_all, lists) {
        _ if is_grep => return None,
        (true, _) => (MANY_CONTAINERS, Confidence::High, ", running and exited"),
        (false, true) => (MANY_RUNNING, Confidence::Medium, ""),
        (false, false) => return None,
    };
    let says = format!("the runtime keeps {count} containers{which}");
    many(count >= most, Cause::TooManyContainers, confidence, says)
}

/// `-a`, `-aq`, `--all`.
fn is_option_for_all(word: &str) -> bool {
    word == "--all" || word.starts_with('-') && !word.starts_with("--") && word.contains('a')
}

/// Reads how many zombies `top` counts.
pub(super) fn read_zombies(count: &str, line: u64, seen: &mut Seen) {
    if let Ok(count) = count.parse() {
        zombies(count, line, seen);
    }
}

fn zombies(count: u64, line: u64, seen: &mut Seen) {
    if count >= MANY_ZOMBIES {
        let says = format!("{count} processes have ended and nothing reaps them");
        let cause = Cause::PidsExhausted;
        seen.proof(Proof::new(cause, Confidence::Low, line, says));
    }
}

/// Reads `1048576  0  1048576`: how many files are open, how many of these are free, and how many may
/// be open. Says whether it was that.
pub(super) fn read_open_files(text: &str, line: u64, seen: &mut Seen) -> bool {
    let numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let Ok(numbers) = numbers.collect::<Result<Vec<u64>, _>>() else {
        return false;
    };
    let [open, _, most] = numbers[..] else {
        return false;
    };
    if open as f64 >= most as f64 * causes::facts::facts().limits.used_up_share {
        let says = format!("{open} of at most {most} files are open on the node");
        let cause = Cause::FdOrInotifyExhausted;
        seen.proof(Proof::new(cause, Confidence::High, line, says));
    }
    true
}
