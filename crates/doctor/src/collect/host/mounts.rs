//! What is mounted: the kernel's table is read, no mount is touched.

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

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`
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

/// The mounts, with the devices of the usual roots and of those that a runtime has open.
pub(super) fn read(host: &Host, opened: &[String]) -> Fact<Mounts> {
    fact(&host.proc.join("1/mountinfo"), |text| {
        let mounts: Vec<Mount> = text.lines().filter_map(mount).collect();
        let under = |root: &str| {
            // The last one covers those before it.
            let best = mounts
                .iter()
                .filter(|mount| is_under(root, mount.at))
                .max_by_key(|mount| mount.at.len())?;
            Some(RootMount {
                root: root.to_owned(),
                device: best.device.to_owned(),
                kind: printable(best.kind),
            })
        };
        let mut roots: Vec<&str> = ROOTS.to_vec();
        roots.extend(opened.iter().map(String::as_str));
        roots.sort_unstable();
        roots.dedup();
        let remote = mounts
            .iter()
            .filter(|mount| REMOTE.contains(&mount.kind) || is_fuse(mount.kind));
        Some(Mounts {
            count: text.lines().count() as u64,
            roots: roots.iter().filter_map(|root| under(root)).collect(),
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

/// `fusectl` is the kernel's own folder of connections.
fn is_fuse(kind: &str) -> bool {
    matches!(kind, "fuse" | "fuseblk") || kind.starts_with("fuse.")
}

fn is_under(path: &str, folder: &str) -> bool {
    folder == "/" || is_within(path, folder)
}
