//! `/proc/PID/cgroup`: on kernels before 6.8, reading it takes a lock that all control groups share.

use std::path::Path;

use crate::collect::helper::Reads;
use crate::collect::host::file::printable_path;
use crate::facts::host::{CgroupPath, Process};

/// The hierarchies that judges use, and the one in which systemd keeps its units. The hierarchy of version
/// 2, whose line names no controllers, is always kept.
const CONTROLLERS: [&str; 5] = ["freezer", "pids", "memory", "cpu", "name=systemd"];

/// The control groups of a process; none if they cannot be read.
pub(super) fn of(reads: &Reads, folder: &Path) -> Vec<CgroupPath> {
    parse(&reads.text(&folder.join("cgroup")).unwrap_or_default())
}

/// Parses lines such as `4:memory:/kubepods/burstable/pod…`. Returns one entry for all hierarchies of
/// version 1 with the same path.
fn parse(text: &str) -> Vec<CgroupPath> {
    let mut found: Vec<CgroupPath> = Vec::new();
    for line in text.lines() {
        let fields = line.split_once(':').map(|(_, rest)| rest);
        let Some((controllers, path)) = fields.and_then(|rest| rest.split_once(':')) else {
            continue;
        };
        let mut names = controllers.split(',');
        if !controllers.is_empty() && !names.any(|name| CONTROLLERS.contains(&name)) {
            continue;
        }
        let path = printable_path(path);
        let same = found.iter_mut().find(|cgroup| {
            !cgroup.controllers.is_empty() && !controllers.is_empty() && cgroup.path == path
        });
        match same {
            Some(same) => same.controllers.extend([",", controllers]),
            None => found.push(CgroupPath {
                controllers: controllers.to_owned(),
                path,
            }),
        }
    }
    found
}

/// Makes the paths relative to the control group of this machine's systemd, which is not the root if systemd
/// or the doctor runs in a container.
pub(super) fn strip_root(processes: &mut [Process]) {
    let init = processes.first().filter(|process| process.pid == 1);
    let groups = init.into_iter().flat_map(|init| &init.cgroups);
    let mut roots = groups.filter_map(|group| group.path.strip_suffix("/init.scope"));
    let Some(root) = roots.find(|root| !root.is_empty()).map(str::to_owned) else {
        return;
    };
    let groups = processes
        .iter_mut()
        .flat_map(|process| &mut process.cgroups);
    for group in groups {
        if let Some(path) = group.path.strip_prefix(&root)
            && path.starts_with('/')
        {
            group.path = path.to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_services_of_a_systemd_in_a_container_are_recognized() {
        for before in ["", "/../..", "/docker/abc"] {
            let process = |pid: u32, path: &str| Process {
                pid,
                cgroups: vec![CgroupPath {
                    controllers: String::new(),
                    path: format!("{before}{path}"),
                }],
                ..Process::default()
            };
            let mut processes = [
                process(1, "/init.scope"),
                process(700, "/system.slice/containerd.service"),
            ];
            strip_root(&mut processes);
            assert_eq!(
                processes[1].service(),
                Some("containerd.service"),
                "{before}"
            );
        }
    }

    #[test]
    fn the_same_path_in_several_hierarchies_is_kept_once_and_whole() {
        let path = format!("/{}", "x".repeat(500));
        let lines = format!(
            "9:freezer:{path}\n8:pids:{path}\n4:memory:/\n3:devices:/\n2:cpu,cpuacct:{path}\n0::{path}\n"
        );
        let process = Process {
            cgroups: parse(&lines),
            ..Process::default()
        };
        assert_eq!(process.cgroups.len(), 3);
        for controller in ["freezer", "pids", "cpu"] {
            assert_eq!(process.cgroup(controller), Some(&*path), "{controller}");
        }
        assert_eq!(process.cgroup("memory"), Some("/"));
        assert_eq!(process.cgroup("hugetlb"), Some(&*path));
    }
}
