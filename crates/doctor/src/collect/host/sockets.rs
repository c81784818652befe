//! Unix sockets, from the kernel's table.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use ipc::SocketRow;
use serde::{Deserialize, Serialize};

use super::Host;
use crate::collect::helper::{Helpers, Request};
use crate::facts::Fact;
use crate::facts::host::sockets::{Connections, Listener, Talk, UnixSockets};
use crate::facts::host::{HostFacts, Process};
use crate::limits::SOCKETS;

/// How many sockets of each kind are kept.
const MAX_KEPT: usize = 256;

/// Sockets to which most processes are connected without waiting for an answer.
const COMMON: [&str; 4] = [
    "/run/systemd/journal/",
    "/dev/log",
    "/run/dbus/",
    "/var/run/dbus/",
];

/// The process that has a socket open, by inode. If several have, it is the one with the lowest PID, from
/// which the others inherited the socket. Process 1 counts only if no other process has the socket open,
/// because systemd passes sockets to services.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::collect) struct Holders(HashMap<u32, u32>);

impl Holders {
    pub(super) fn add(&mut self, inode: u32, pid: u32) {
        let holder = self.0.entry(inode).or_insert(pid);
        if *holder == 1 || pid != 1 && pid < *holder {
            *holder = pid;
        }
    }

    fn of(&self, inode: u32) -> Option<u32> {
        self.0.get(&inode).copied()
    }
}

pub(super) fn read(
    host: &Host,
    helpers: &mut Helpers,
    facts: &HostFacts,
    holders: &Holders,
) -> Fact<UnixSockets> {
    let source = "sock_diag(7)";
    if !host.asks_kernel {
        return Fact::missing("these files are not from this machine", source);
    }
    // The kernel may start a program to load a module, which would wait for the listener as well.
    if facts.waits_for_fanotify() {
        return Fact::missing("opening files is blocked by a fanotify listener", source);
    }
    let rows: Fact<Vec<SocketRow>> = Fact::of(helpers.ask(&Request::UnixSockets, SOCKETS), source);
    rows.map(|rows| sorted(&rows, facts.all_processes(), holders))
}

fn pids(processes: &[Process], is_wanted: fn(&Process) -> bool) -> HashSet<u32> {
    let wanted = processes.iter().filter(|process| is_wanted(process));
    wanted.map(|process| process.pid).collect()
}

/// The processes that runtimes and kubelets have started, directly or not, except containers.
pub(super) fn started_by_daemons(processes: &[Process]) -> HashSet<u32> {
    let mut started = HashSet::new();
    let mut parents = pids(processes, Process::is_daemon);
    while !parents.is_empty() {
        let children = processes.iter().filter(|process| {
            parents.contains(&process.ppid) && !process.is_shim() && !process.is_daemon()
        });
        let new = children.map(|process| process.pid);
        parents = new.filter(|pid| !started.contains(pid)).collect();
        started.extend(&parents);
    }
    started
}

fn sorted(rows: &[SocketRow], processes: &[Process], holders: &Holders) -> UnixSockets {
    let mut found = UnixSockets::default();
    let started = started_by_daemons(processes);
    let daemons = pids(processes, Process::is_daemon);
    // A runc is started by a shim, and may wait for systemd.
    let runcs = pids(processes, Process::is_runc);
    let by_inode: HashMap<u32, &SocketRow> = rows.iter().map(|row| (row.inode, row)).collect();
    let talk = |inode: u32, end: &SocketRow, to: &str, unread: u32| {
        let pid = holders.of(inode)?;
        let is_common = COMMON.iter().any(|common| to.starts_with(common));
        let is_wanted = pid == 1 || runcs.contains(&pid) || started.contains(&pid) && !is_common;
        is_wanted.then(|| Talk {
            pid,
            to: to.to_owned(),
            with: holders.of(end.inode),
            unread,
        })
    };
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for row in rows {
        if let Some(end) = row.peer.and_then(|peer| by_inode.get(&peer))
            && let Some(to) = &end.path
        {
            found.talks.extend(talk(row.inode, end, to, row.queue));
        }
        let Some(path) = &row.path else {
            continue;
        };
        let held_by = holders.of(row.inode);
        if row.listens && (row.queue > 0 || held_by.is_some_and(|pid| daemons.contains(&pid))) {
            found.listeners.push(Listener {
                path: path.clone(),
                waiting: row.queue,
                backlog: row.backlog,
                held_by,
            });
        } else if row.peer.is_some() {
            // Of a connection's two ends, only the accepted one has the path.
            *counts.entry(path).or_default() += 1;
        }
        let pending = row.pending.iter();
        found
            .talks
            .extend(pending.filter_map(|inode| talk(*inode, row, path, 0)));
    }
    let counts = counts.into_iter().map(|(path, count)| Connections {
        path: path.to_owned(),
        count,
    });
    found.connections = counts.collect();
    let UnixSockets {
        listeners,
        connections,
        talks,
    } = &mut found;
    connections.sort_by_key(|to| Reverse(to.count));
    listeners.sort_by_key(|listener| Reverse(listener.waiting));
    talks.sort_by(|one, other| (one.pid, &one.to).cmp(&(other.pid, &other.to)));
    connections.truncate(MAX_KEPT);
    listeners.truncate(MAX_KEPT);
    talks.truncate(MAX_KEPT);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, ppid: u32, comm: &str) -> Process {
        Process {
            pid,
            ppid,
            comm: comm.to_owned(),
            ..Process::default()
        }
    }

    fn row(inode: u32, path: &str, peer: Option<u32>) -> SocketRow {
        SocketRow {
            inode,
            path: (!path.is_empty()).then(|| path.to_owned()),
            peer,
            ..SocketRow::default()
        }
    }

    #[test]
    fn only_a_plugins_connection_to_its_agent_is_kept() {
        let processes = [
            process(1, 0, "systemd"),
            process(10, 1, "containerd"),
            process(11, 10, "calico"),
            process(12, 1, "calico-node"),
            process(20, 10, "containerd-shim"),
            process(21, 20, "app"),
        ];
        let rows = [
            row(100, "", Some(200)),
            row(200, "/run/calico.sock", Some(100)),
            row(101, "", Some(201)),
            row(201, "/run/systemd/journal/stdout", Some(101)),
            row(102, "", Some(202)),
            row(202, "/run/calico.sock", Some(102)),
            // A connection that the plugin has inherited from its runtime.
            row(103, "", Some(203)),
            row(203, "/run/other.sock", Some(103)),
        ];
        let mut holders = Holders::default();
        for (inode, pid) in [
            (100, 11),
            (200, 12),
            (101, 11),
            (102, 21),
            (103, 11),
            (103, 10),
        ] {
            holders.add(inode, pid);
        }
        let found = sorted(&rows, &processes, &holders);
        let talk = Talk {
            pid: 11,
            to: "/run/calico.sock".to_owned(),
            with: Some(12),
            unread: 0,
        };
        assert_eq!(found.talks, [talk]);
        assert_eq!(found.connections_to("/run/calico.sock"), Some(2));
    }

    #[test]
    fn a_socket_that_systemd_passed_to_a_service_belongs_to_the_service() {
        let processes = [process(1, 0, "systemd"), process(900, 1, "cri-dockerd")];
        let mut holders = Holders::default();
        holders.add(300, 1);
        holders.add(300, 900);
        let listens = SocketRow {
            listens: true,
            ..row(300, "/run/cri-dockerd.sock", None)
        };
        let found = sorted(&[listens], &processes, &holders);
        let listener = found.listener_at("/var/run/cri-dockerd.sock").unwrap();
        assert_eq!(listener.held_by, Some(900));
    }
}
