//! Unix sockets, as the kernel tells them: no process is asked.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Host;
use crate::facts::Fact;
use crate::facts::host::Process;
use crate::facts::host::sockets::{Connections, Listener, Talk, UnixSockets};

mod table;

use table::Row;

/// So many of each are kept.
const MOST: usize = 256;

/// Whose sockets are whose: the inode, and the process that has it open.
pub(super) type Holders = HashMap<u32, u32>;

pub(super) fn read(host: &Host, processes: &[Process], holders: &Holders) -> Fact<UnixSockets> {
    let source = "sock_diag(7)";
    if !host.asks_kernel {
        return Fact::missing("these are the files of another machine", source);
    }
    match table::read() {
        Ok(rows) => Fact::known(sorted(&rows, &talkers(processes), holders), source),
        Err(error) => Fact::missing(error, source),
    }
}

/// Process 1, and what runtimes and kubelets have started, without the containers.
fn talkers(processes: &[Process]) -> HashSet<u32> {
    let mut talkers = HashSet::from([1]);
    let mut parents: HashSet<u32> = processes
        .iter()
        .filter(|process| process.is_daemon())
        .map(|process| process.pid)
        .collect();
    while !parents.is_empty() {
        let children = processes.iter().filter(|process| {
            parents.contains(&process.ppid) && !process.is_shim() && !process.is_daemon()
        });
        let new = children
            .map(|process| process.pid)
            .filter(|pid| !talkers.contains(pid));
        parents = new.collect();
        talkers.extend(&parents);
    }
    talkers
}

fn sorted(rows: &[Row], talkers: &HashSet<u32>, holders: &Holders) -> UnixSockets {
    let mut found = UnixSockets::default();
    let by_inode: HashMap<u32, &Row> = rows.iter().map(|row| (row.inode, row)).collect();
    let talker = |inode: u32| holders.get(&inode).filter(|pid| talkers.contains(pid));
    let talk = |pid: &u32, end: &Row, to: &str, unread: u32| Talk {
        pid: *pid,
        to: to.to_owned(),
        with: holders.get(&end.inode).copied(),
        unread,
    };
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for row in rows {
        if let Some(end) = row.peer.and_then(|peer| by_inode.get(&peer))
            && let Some(to) = &end.path
            && let Some(pid) = talker(row.inode)
        {
            found.talks.push(talk(pid, end, to, row.queue));
        }
        let Some(path) = &row.path else {
            continue;
        };
        if row.listens && row.queue > 0 {
            found.waiting.push(Listener {
                path: path.clone(),
                waiting: row.queue,
                backlog: row.room,
            });
        } else if row.peer.is_some() {
            // The end that was accepted has the path.
            *counts.entry(path).or_default() += 1;
        }
        let pending = row.pending.iter().filter_map(|inode| talker(*inode));
        found
            .talks
            .extend(pending.map(|pid| talk(pid, row, path, 0)));
    }
    let counts = counts.into_iter().map(|(path, count)| Connections {
        path: path.to_owned(),
        count,
    });
    found.connections = counts.collect();
    found
        .connections
        .sort_by_key(|to| std::cmp::Reverse(to.count));
    found.connections.truncate(MOST);
    found.waiting.truncate(MOST);
    found
        .talks
        .sort_by(|one, other| (one.pid, &one.to).cmp(&(other.pid, &other.to)));
    found.talks.truncate(MOST);
    found
}
