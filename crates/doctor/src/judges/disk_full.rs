//! A file system that the runtime, the kubelet or runc writes to has no room, or no inodes.

use std::collections::BTreeSet;

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack;
use crate::facts::NodeFacts;
use crate::facts::host::Filesystem;

/// A share of what there is, below which writes fail or soon will.
const LEFT: f64 = 0.01;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let known = host.filesystems.iter().filter_map(|root| root.value());
    let known = known.filter(|root| !root.read_only);
    let mut seen = BTreeSet::new();
    let findings: Vec<Finding> = known
        // Two roots of one file system are one finding.
        .filter(|root| seen.insert((root.bytes, root.bytes_available, root.inodes_available)))
        .filter_map(full)
        .collect();
    // Folders of another runtime are missing on every node.
    let missing = match host.filesystems.iter().any(|root| root.value().is_some()) {
        true => None,
        false => Some(
            host.filesystems
                .first()
                .and_then(lack)
                .unwrap_or_else(|| "no file system was asked how full it is".to_owned()),
        ),
    };
    Opinion::of(findings, [missing])
}

fn full(root: &Filesystem) -> Option<Finding> {
    let short = |left: u64, all: u64| all > 0 && left as f64 <= all as f64 * LEFT;
    let mut evidence = Vec::new();
    if short(root.bytes_available, root.bytes) {
        evidence.push(format!(
            "{} has {} KiB left of {} MiB",
            root.path,
            root.bytes_available / 1024,
            root.bytes / 1024 / 1024
        ));
    }
    if short(root.inodes_available, root.inodes) {
        evidence.push(format!(
            "{} has {} inodes left of {}",
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
    let counted = match short(root.bytes_available, root.bytes) {
        true => "du -x -d 3",
        false => "du -x -d 3 --inodes",
    };
    let found = finding(Cause::DiskFull, confidence, Culprit::default(), evidence);
    Some(found.advising(format!(
        "`{counted} {path} | sort -n | tail` shows what fills {path}"
    )))
}
