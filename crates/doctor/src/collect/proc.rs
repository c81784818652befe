//! The files of `/proc` that never wait for the process that they tell of: `stat`, `wchan`
//! and the names of its threads. Not `cmdline`, `environ` or `maps`, which wait for its
//! memory lock, possibly for ever.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::facts::processes::Process;

/// What Linux counts start times in, on every architecture that we are built for.
const TICKS_PER_SECOND: f64 = 100.0;

/// More threads than any shim has.
const MOST_THREADS: usize = 256;

/// A `/proc`, which in tests is any folder.
#[derive(Clone, Debug)]
pub(super) struct Proc(pub PathBuf);

/// A process and its parent.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub process: Process,
    pub parent: u32,
    /// Tells it from a later process of the same id.
    pub started: u64,
}

/// All processes at a moment.
pub(super) struct Tree(BTreeMap<u32, Row>);

impl Proc {
    /// All processes. One that goes meanwhile is not there.
    pub fn tree(&self) -> Tree {
        let entries = self.0.read_dir().into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let uptime = self.uptime();
        let rows = pids.filter_map(|pid: u32| Some((pid, self.row(&pid.to_string(), uptime)?)));
        Tree(rows.collect())
    }

    /// One process.
    pub fn process(&self, pid: u32) -> Option<Row> {
        self.row(&pid.to_string(), self.uptime())
    }

    /// Where its threads wait uninterruptibly, each place once.
    pub fn stuck_threads(&self, pid: u32) -> Vec<String> {
        let folder = self.0.join(pid.to_string()).join("task");
        let entries = folder.read_dir().into_iter().flatten().flatten();
        let threads = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut places: Vec<String> = threads
            .take(MOST_THREADS)
            .filter_map(|thread| self.row(&format!("{pid}/task/{thread}"), 0.0))
            .filter(|row| row.process.is_uninterruptible())
            .map(|row| row.process.wait.unwrap_or_else(|| "the kernel".to_owned()))
            .collect();
        places.sort();
        places.dedup();
        places
    }

    fn row(&self, of: &str, uptime: f64) -> Option<Row> {
        let folder = self.0.join(of);
        let mut row = parse(&fs::read_to_string(folder.join("stat")).ok()?, uptime)?;
        let wait = fs::read_to_string(folder.join("wchan")).ok();
        row.process.wait = wait.filter(|wait| wait != "0" && !wait.is_empty());
        Some(row)
    }

    fn uptime(&self) -> f64 {
        let text = fs::read_to_string(self.0.join("uptime")).unwrap_or_default();
        let first = text.split(' ').next().and_then(|word| word.parse().ok());
        first.unwrap_or(0.0)
    }
}

impl Tree {
    /// The process with this id.
    pub fn get(&self, pid: u32) -> Option<&Row> {
        self.0.get(&pid)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Row> {
        self.0.values()
    }

    /// The children of a process.
    pub fn children(&self, pid: u32) -> impl Iterator<Item = &Row> {
        self.0.values().filter(move |row| row.parent == pid)
    }

    /// The last of a line of youngest children, if it has any.
    pub fn youngest_below(&self, pid: u32) -> Option<&Row> {
        let mut youngest = None;
        let mut at = pid;
        // A tree that was read while it changed may have a circle.
        for _ in 0..16 {
            let Some(child) = self.children(at).max_by_key(|row| row.started) else {
                break;
            };
            at = child.process.pid;
            youngest = Some(child);
        }
        youngest
    }
}

/// `4711 (containerd-shim) S 1 ...`: the name may hold spaces and parentheses.
fn parse(stat: &str, uptime: f64) -> Option<Row> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let started: u64 = words.get(19)?.parse().ok()?;
    let age_seconds = (uptime - started as f64 / TICKS_PER_SECOND).max(0.0);
    Some(Row {
        process: Process {
            pid: pid.trim().parse().ok()?,
            name: name.to_owned(),
            state: words.first()?.to_string(),
            wait: None,
            age_seconds,
        },
        parent: words.get(1)?.parse().ok()?,
        started,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = "42 (a) b (c) D 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 9 0 1000 1 2 3";
        let row = parse(stat, 70.0).unwrap();
        assert_eq!((row.process.pid, row.parent), (42, 7));
        assert_eq!(row.process.name, "a) b (c");
        assert!(row.process.is_uninterruptible());
        assert_eq!(row.process.age_seconds, 60.0);
        for broken in ["", "42", "42 (a", "42 (a) S", "x (a) S 1 2"] {
            assert!(parse(broken, 0.0).is_none(), "{broken}");
        }
    }

    #[test]
    fn our_own_process_is_in_the_tree_below_its_parent() {
        let proc = Proc("/proc".into());
        let tree = proc.tree();
        let own = tree.get(std::process::id()).unwrap();
        assert!(own.parent > 0);
        assert!(tree.get(own.parent).is_none_or(|parent| {
            tree.children(parent.process.pid)
                .any(|child| child.process.pid == own.process.pid)
        }));
    }
}
