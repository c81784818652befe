//! A file system that the runtime, the kubelet or runc writes to has no free space or inodes.

use std::collections::BTreeSet;

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack;
use crate::facts::NodeFacts;
use crate::facts::host::Filesystem;

/// If less than this share is left, and less than the figures below, writes fail or soon will.
const MIN_LEFT_SHARE: f64 = 0.01;
/// A hundredth of a large disk is still room for days.
const MIN_LEFT_BYTES: u64 = 1 << 30;
const MIN_LEFT_INODES: u64 = 10_000;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let known = host.filesystems.iter().filter_map(|root| root.value());
    let known = known.filter(|root| !root.read_only);
    let mut seen = BTreeSet::new();
    let findings: Vec<Finding> = known
        // Two directories on one file system give one finding.
        .filter(|root| seen.insert((root.bytes, root.bytes_available, root.inodes_available)))
        .filter_map(full)
        .collect();
    // The directories of other runtimes are missing on every node.
    let missing = match host.filesystems.iter().any(|root| root.value().is_some()) {
        true => None,
        false => Some(
            host.filesystems
                .first()
                .and_then(lack)
                .unwrap_or_else(|| "the free space of no file system was read".to_owned()),
        ),
    };
    Opinion::of(findings, [missing])
}

fn full(root: &Filesystem) -> Option<Finding> {
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
    let nothing = root.bytes_available == 0 || root.inodes > 0 && root.inodes_available == 0;
    let confidence = if nothing {
        Confidence::Certain
    } else {
        Confidence::High
    };
    if evidence.is_empty() {
        return None;
    }
    let path = &root.path;
    let counted = match few_bytes {
        true => "du -x -d 3",
        false => "du -x -d 3 --inodes",
    };
    let found = finding(Cause::DiskFull, confidence, Culprit::default(), evidence);
    Some(found.advising(format!(
        "`{counted} {path} | sort -n | tail` shows what fills {path}"
    )))
}
