//! File descriptors, by where their links lead; nothing behind them is touched.

use std::path::Path;

use crate::collect::host::file::text;
use crate::facts::Fact;
use crate::facts::host::FdUse;

/// No process has more that would have to be counted to say that it has too many.
const MOST: usize = 200_000;

/// An agent has one or two.
const MOST_GROUPS: usize = 32;

/// Counts them; `socket` is told the inode of each socket.
pub(super) fn count(folder: &Path, mut socket: impl FnMut(u32)) -> Fact<FdUse> {
    let path = folder.join("fd");
    let source = path.display().to_string();
    let entries = match std::fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) => return Fact::missing(error, source),
    };
    let (limit, hard_limit) = limits(folder);
    let mut found = FdUse {
        limit,
        hard_limit,
        ..FdUse::default()
    };
    for entry in entries.flatten().take(MOST) {
        found.open += 1;
        let Ok(target) = std::fs::read_link(entry.path()) else {
            continue;
        };
        let target = target.to_string_lossy();
        if let Some(inode) = target.strip_prefix("socket:[") {
            let inode = inode.strip_suffix(']').and_then(|inode| inode.parse().ok());
            inode.into_iter().for_each(&mut socket);
        } else if target.contains("inotify") {
            found.inotify += 1;
        } else if target.starts_with("pipe:") {
            found.pipes += 1;
        } else if target.contains("[fanotify]") && found.fanotify.len() < MOST_GROUPS {
            let number = entry.file_name();
            found
                .fanotify
                .extend(number.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
    }
    Fact::known(found, source)
}

/// `Max open files            1024                 524288               files`
fn limits(folder: &Path) -> (Option<u64>, Option<u64>) {
    let limits = text(&folder.join("limits")).unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let mut numbers = line.unwrap_or_default().split_ascii_whitespace();
    let mut next = || numbers.next()?.parse().ok();
    (next(), next())
}
