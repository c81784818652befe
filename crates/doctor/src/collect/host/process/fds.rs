//! File descriptors, by the targets of their links. The targets are not accessed.

use std::io::ErrorKind;
use std::path::Path;

use crate::collect::helper::Reads;
use crate::collect::host::file::rest_of_line;
use crate::facts::Fact;
use crate::facts::host::FdUse;

/// The maximum number of file descriptors that are counted for one process.
const MAX_FDS: usize = 200_000;

/// A process that uses fanotify has one or two groups.
const MAX_FANOTIFY_GROUPS: usize = 32;

/// The databases that runtimes have open, below the root directory of containerd and of dockerd.
const DATABASES: [&str; 2] = [
    "/io.containerd.metadata.v1.bolt/meta.db",
    "/network/files/local-kv.db",
];
const MAX_ROOT_BYTES: usize = 256;

/// How many links are read in one step, which takes a millisecond on a healthy kernel.
const LINKS_AT_ONCE: usize = 256;

/// Counts the file descriptors; `socket` receives the inode of each socket.
pub(super) fn count(reads: &Reads, folder: &Path, mut socket: impl FnMut(u32)) -> Fact<FdUse> {
    let path = folder.join("fd");
    let source = path.display().to_string();
    let (limit, hard_limit) = limits(reads, folder);
    let mut entries = match reads.at(&path, || std::fs::read_dir(&path)) {
        Ok(entries) => entries.flatten().take(MAX_FDS),
        Err(why) => return Fact::missing(why, source),
    };
    let mut found = FdUse {
        limit,
        hard_limit,
        ..FdUse::default()
    };
    loop {
        let links = reads.at(&path, || {
            let links = entries.by_ref().take(LINKS_AT_ONCE);
            let links = links.map(|entry| (entry.file_name(), std::fs::read_link(entry.path())));
            Ok(links.collect::<Vec<_>>())
        });
        let links = match links {
            Ok(links) if links.is_empty() => return Fact::known(found, source),
            Ok(links) => links,
            Err(why) => return Fact::missing(why, source),
        };
        for (number, target) in links {
            found.open += 1;
            match target {
                Ok(target) => {
                    let target = target.to_string_lossy();
                    add(&mut found, &number.to_string_lossy(), &target, &mut socket);
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => found.hidden += 1,
                // It was closed meanwhile.
                Err(_) => {}
            }
        }
    }
}

fn add(found: &mut FdUse, number: &str, target: &str, socket: &mut impl FnMut(u32)) {
    if let Some(inode) = target.strip_prefix("socket:[") {
        let inode = inode.strip_suffix(']').and_then(|inode| inode.parse().ok());
        inode.into_iter().for_each(socket);
    } else if target.contains("inotify") {
        found.inotify += 1;
    } else if target.starts_with("pipe:") {
        found.pipes += 1;
    } else if target.contains("[fanotify]") && found.fanotify.len() < MAX_FANOTIFY_GROUPS {
        found.fanotify.extend(number.parse::<u32>().ok());
    } else if found.root.is_none() {
        let mut databases = DATABASES.iter();
        let root = databases.find_map(|database| target.strip_suffix(database));
        let root = root.filter(|root| root.len() <= MAX_ROOT_BYTES);
        found.root = root.map(str::to_owned);
    }
}

/// The soft and the hard limit, from
/// `Max open files            1024                 524288               files`.
fn limits(reads: &Reads, folder: &Path) -> (Option<u64>, Option<u64>) {
    let limits = reads.text(&folder.join("limits")).unwrap_or_default();
    let line = rest_of_line(&limits, "Max open files").unwrap_or_default();
    let mut numbers = line.split_ascii_whitespace();
    let mut next = || numbers.next()?.parse().ok();
    (next(), next())
}
