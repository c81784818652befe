//! Mounts: only the kernel's table is read, because accessing a mount may block.

use std::collections::BTreeSet;

use super::Host;
use super::file::{fact, printable};
use crate::facts::Fact;
use crate::facts::host::process::is_within;
use crate::facts::host::{Mounts, RemoteMount, RootMount};

const ROOTS: [&str; 5] = [
    "/",
    "/run",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/kubelet",
];
/// File systems that depend on a server.
const REMOTE: [&str; 8] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "ceph",
    "9p",
    "glusterfs",
    "lustre",
];
const MAX_REMOTE: usize = 100;

struct Mount<'a> {
    device: &'a str,
    at: &'a str,
    kind: &'a str,
    source: &'a str,
}

/// Parses a line such as `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn mount(line: &str) -> Option<Mount<'_>> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ');
    let device = front.nth(2)?;
    let at = front.nth(1)?;
    let (kind, back) = back.split_once(' ')?;
    let source = back.split(' ').next()?;
    Some(Mount {
        device,
        at,
        kind,
        source,
    })
}

/// The mounts, and the devices of the usual root directories and of the `opened` ones of runtimes.
pub(super) fn read(host: &Host, opened: &[String]) -> Fact<Mounts> {
    fact(&host.proc.join("1/mountinfo"), |text| {
        let mounts: Vec<Mount> = text.lines().filter_map(mount).collect();
        let root_mount = |root: &str| {
            let around = mounts.iter().filter(|mount| is_under(root, mount.at));
            // Of several mounts at the same path, the last one covers the others.
            let mount = around.max_by_key(|mount| mount.at.len())?;
            Some(RootMount {
                root: root.to_owned(),
                device: mount.device.to_owned(),
                kind: printable(mount.kind),
            })
        };
        let mut roots: BTreeSet<&str> = ROOTS.into();
        roots.extend(opened.iter().map(String::as_str));
        let is_remote = |mount: &&Mount| REMOTE.contains(&mount.kind) || is_fuse(mount.kind);
        let remote = mounts.iter().filter(is_remote);
        Some(Mounts {
            count: text.lines().count() as u64,
            roots: roots.into_iter().filter_map(root_mount).collect(),
            remote: remote
                .take(MAX_REMOTE)
                .map(|mount| RemoteMount {
                    device: mount.device.to_owned(),
                    kind: printable(mount.kind),
                    source: printable(mount.source),
                    at: printable(mount.at),
                })
                .collect(),
        })
    })
}

/// Whether a process serves the file system. `fusectl` is the kernel's own directory of connections.
fn is_fuse(kind: &str) -> bool {
    matches!(kind, "fuse" | "fuseblk") || kind.starts_with("fuse.")
}

fn is_under(path: &str, folder: &str) -> bool {
    folder == "/" || is_within(path, folder)
}
