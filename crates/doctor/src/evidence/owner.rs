//! To which container, pod and unit a process belongs, according to its control group.

use std::collections::BTreeMap;

use causes::finding::{Culprit, PodName};
use pleg::model::id::Id;

use crate::facts::host::process::unit_of;
use crate::facts::host::{HostFacts, Process};

/// The container of a process, if its control group contains its id.
pub(crate) fn container_of(process: &Process) -> Option<&str> {
    cgroup(process)
        .split('/')
        .filter_map(container_id)
        .next_back()
}

/// The processes in the control group of this container, without the conmon that serves it.
pub(crate) fn processes_of<'a>(
    host: &'a HostFacts,
    id: &'a str,
) -> impl Iterator<Item = &'a Process> {
    let all = host.all_processes().iter();
    all.filter(move |process| !process.is_shim() && container_of(process) == Some(id))
}

/// The oldest living process of each container; of two of the same age, the first in the list.
pub(crate) fn oldest_processes(host: &HostFacts) -> BTreeMap<Id, u32> {
    let all = host.all_processes().iter().rev();
    let mut living: Vec<_> = all
        .filter(|process| !process.is_shim() && !process.has_ended())
        .filter_map(|process| Some((container_of(process)?, process)))
        .collect();
    living.sort_by(|(_, one), (_, other)| one.age_seconds.total_cmp(&other.age_seconds));
    let pids = living.into_iter();
    pids.map(|(id, oldest)| (id.into(), oldest.pid)).collect()
}

/// Whether a process runs in a pod: a daemon there serves only that pod, not the node.
pub(crate) fn is_in_a_pod(process: &Process) -> bool {
    of_cgroup(cgroup(process)).pod.is_some()
}

/// Whether a daemon serves another node, which runs in a container of this one: the daemon's network
/// namespace is not that of process 1.
pub(crate) fn is_of_another_node(host: &HostFacts, process: &Process) -> bool {
    let ours = host.process(1).and_then(|first| first.network.as_ref());
    let its = process.network.as_ref();
    ours.zip(its).is_some_and(|(ours, its)| ours != its)
}

/// The first control group of a process, other than the root.
pub(super) fn cgroup(process: &Process) -> &str {
    let hierarchies = ["freezer", "pids", "memory", "cpu"].into_iter();
    let mut paths = hierarchies.filter_map(|controller| process.cgroup(controller));
    paths.find(|path| *path != "/").unwrap_or_default()
}

/// The container, the pod and the unit in the path of a control group.
pub(crate) fn of_cgroup(path: &str) -> Culprit {
    let mut found = Culprit {
        unit: unit_of(path).map(str::to_owned),
        ..Culprit::default()
    };
    for part in path.split('/') {
        if let Some(uid) = pod_uid(part) {
            found.pod = Some(PodName {
                uid: Some(uid),
                ..PodName::default()
            });
        }
        if let Some(id) = container_id(part) {
            found.id = Some(id.to_owned());
        }
    }
    found
}

/// The UID in the name of a pod's control group: `pod0e2f…` as a directory, or
/// `kubepods-burstable-pod0e2f_….slice` as a systemd unit.
fn pod_uid(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match name.rsplit_once("-pod") {
        Some((_, uid)) => uid,
        None => name.strip_prefix("pod")?,
    };
    let is_uid = |char: char| char.is_ascii_hexdigit() || char == '_' || char == '-';
    let long = uid.len() >= 32 && uid.chars().all(is_uid);
    long.then(|| uid.replace('_', "-"))
}

/// The id in the name of a container's control group: 64 hexadecimal digits, possibly with the prefix and
/// suffix of a unit's name.
fn container_id(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = name.rsplit('-').next()?;
    (id.len() == 64 && id.chars().all(|char| char.is_ascii_hexdigit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_names_its_pod_and_container_in_both_drivers() {
        let id = "a".repeat(64);
        let uid = "0e2f4a9c-1111-2222-3333-444455556666";
        let unit = uid.replace('-', "_");
        for path in [
            format!("/kubepods/burstable/pod{uid}/{id}"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{unit}.slice/cri-containerd-{id}.scope"
            ),
        ] {
            let culprit = of_cgroup(&path);
            assert_eq!(culprit.id.as_deref(), Some(id.as_str()), "{path}");
            let pod = culprit.pod.and_then(|pod| pod.uid);
            assert_eq!(pod.as_deref(), Some(uid), "{path}");
        }
        let daemon = of_cgroup("/system.slice/containerd.service");
        assert_eq!(daemon.unit.as_deref(), Some("containerd.service"));
        assert_eq!(daemon.id, None);
    }

    #[test]
    fn a_unit_of_another_systemd_is_not_taken_for_one_of_this_machine() {
        let id = "a".repeat(64);
        for (path, unit) in [
            ("/system.slice/k3s.service", Some("k3s.service")),
            (
                "/system.slice/k3s.service/kubepods/besteffort",
                Some("k3s.service"),
            ),
            ("/a.slice/a-b.slice/c.service/payload", Some("c.service")),
            (
                &format!("/docker/{id}/system.slice/containerd.service"),
                None,
            ),
            (
                &format!("/system.slice/docker-{id}.scope/system.slice/containerd.service"),
                None,
            ),
            ("/lxc.payload.node/system.slice/containerd.service", None),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/docker.service",
                None,
            ),
            ("/init.scope", None),
            ("/", None),
        ] {
            assert_eq!(of_cgroup(path).unit.as_deref(), unit, "{path}");
        }
    }
}
