//! A file system that the runtime, the kubelet or runc writes to has no free space or inodes.

use std::collections::BTreeSet;

use causes::Cause;
use causes::finding::{Confidence, Finding};

use super::Opinion;
use super::opinion::of_machine;
use crate::evidence::exits::{listed_though_dead, says};
use crate::evidence::lack::lack;
use crate::facts::NodeFacts;
use crate::facts::host::{Filesystem, HostFacts};
use crate::facts::probes::{MAX_SINGLED_OUT, ProbeFacts};

/// If at most this share is left, and at most `MIN_LEFT_BYTES` or `MIN_LEFT_INODES`, writes fail or soon
/// will.
const MIN_LEFT_SHARE: f64 = 0.01;
/// If more bytes are left, there is enough space: a hundredth of a large disk lasts for days.
const MIN_LEFT_BYTES: u64 = 1 << 30;
const MIN_LEFT_INODES: u64 = 10_000;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let mut seen = BTreeSet::new();
    let findings = writable(host)
        // Two directories on one file system give one finding.
        .filter(|root| seen.insert((root.bytes, root.bytes_available, root.inodes_available)))
        .filter_map(|root| full(root, &facts.probes));
    // The directories of other runtimes are missing on every node.
    let is_any_known = host.filesystems.iter().any(|root| root.value().is_some());
    let missing = (!is_any_known).then(|| {
        let why = host.filesystems.first().and_then(lack);
        why.unwrap_or_else(|| "the free space of no file system was read".to_owned())
    });
    Opinion::of(findings, [missing])
}

/// The file systems that are known and not read-only.
fn writable(host: &HostFacts) -> impl Iterator<Item = &Filesystem> {
    let known = host.filesystems.iter().filter_map(|root| root.value());
    known.filter(|root| !root.read_only)
}

/// Whether a file system has no space at all, so that a runtime cannot record what happens.
pub(super) fn cannot_write(host: &HostFacts) -> bool {
    writable(host).any(has_nothing)
}

fn has_nothing(root: &Filesystem) -> bool {
    let has_no_bytes = root.bytes > 0 && root.bytes_available == 0;
    has_no_bytes || root.inodes > 0 && root.inodes_available == 0
}

fn full(root: &Filesystem, probes: &ProbeFacts) -> Option<Finding> {
    let short = |left: u64, all: u64, least: u64| {
        all > 0 && left <= least && left as f64 <= all as f64 * MIN_LEFT_SHARE
    };
    let few_bytes = short(root.bytes_available, root.bytes, MIN_LEFT_BYTES);
    let mut evidence = Vec::new();
    if few_bytes {
        evidence.push(format!(
            "{} has {} KiB of {} MiB left",
            root.path,
            root.bytes_available / 1024,
            root.bytes / 1024 / 1024
        ));
    }
    if short(root.inodes_available, root.inodes, MIN_LEFT_INODES) {
        evidence.push(format!(
            "{} has {} of {} inodes left",
            root.path, root.inodes_available, root.inodes
        ));
    }
    if evidence.is_empty() {
        return None;
    }
    let (confidence, left) = match has_nothing(root) {
        true => {
            let unrecorded = listed_though_dead(probes).filter(|task| task.init.is_none());
            evidence.extend(unrecorded.take(MAX_SINGLED_OUT).map(says));
            (Confidence::Certain, "no")
        }
        false => (Confidence::High, "almost no"),
    };
    let path = &root.path;
    let (what, counted) = match few_bytes {
        true => ("space", "du -x -d 3"),
        false => ("inodes", "du -x -d 3 --inodes"),
    };
    let mut found = of_machine(Cause::DiskFull, confidence, evidence);
    found.sentence = format!("the file system of {path} has {left} {what} left");
    Some(found.advising(format!(
        "`{counted} {path} | sort -n | tail` shows what fills {path}"
    )))
}
