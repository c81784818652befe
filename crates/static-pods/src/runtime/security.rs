//! The security contexts of sandboxes and containers.

use cri::v1;

use super::{Image, ImageUser};
use crate::spec::{ContainerSecurity, Network, PodSpec, Seccomp};

/// Paths that expose the host, and are therefore hidden from containers that are not privileged.
const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

/// Paths that containers that are not privileged can read but not change.
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

pub(super) fn of_sandbox(pod: &PodSpec) -> v1::LinuxSandboxSecurityContext {
    let user = pod.security.user;
    v1::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(pod)),
        run_as_user: user.map(number),
        // CRI forbids a group without a user.
        run_as_group: user.and(pod.security.group).map(number),
        supplemental_groups: groups(pod),
        privileged: pod.containers.iter().any(|it| it.security.privileged),
        // The pause process needs no system calls beyond those of the default profile.
        seccomp: Some(profile(Some(Seccomp::RuntimeDefault))),
        ..Default::default()
    }
}

pub(super) fn of_container(
    pod: &PodSpec,
    security: &ContainerSecurity,
    image: &Image,
) -> v1::LinuxContainerSecurityContext {
    let (user, name) = match (security.user, &image.user) {
        (Some(user), _) => (Some(user), String::new()),
        (None, ImageUser::Id(user)) => (Some(*user), String::new()),
        (None, ImageUser::Name(name)) => (None, name.clone()),
    };
    let paths = |paths: &[&str]| match security.privileged {
        true => Vec::new(),
        false => paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    v1::LinuxContainerSecurityContext {
        capabilities: capabilities(security),
        privileged: security.privileged,
        namespace_options: Some(namespaces(pod)),
        run_as_user: user.map(number),
        run_as_username: name,
        run_as_group: security.group.map(number),
        readonly_rootfs: security.read_only_root,
        supplemental_groups: groups(pod),
        no_new_privs: security.no_new_privileges,
        masked_paths: paths(&MASKED),
        readonly_paths: paths(&READ_ONLY),
        seccomp: Some(profile(security.seccomp)),
    }
}

fn number(value: i64) -> v1::Int64Value {
    v1::Int64Value { value }
}

fn capabilities(security: &ContainerSecurity) -> Option<v1::Capability> {
    let (add, drop) = (&security.added_capabilities, &security.dropped_capabilities);
    let are_given = !add.is_empty() || !drop.is_empty();
    are_given.then(|| v1::Capability {
        add_capabilities: add.clone(),
        drop_capabilities: drop.clone(),
        ..Default::default()
    })
}

fn namespaces(pod: &PodSpec) -> v1::NamespaceOption {
    let network = match pod.network {
        Network::Host => v1::NamespaceMode::Node,
        Network::Pod { .. } => v1::NamespaceMode::Pod,
    };
    v1::NamespaceOption {
        network: network.into(),
        pid: v1::NamespaceMode::Container.into(),
        ipc: v1::NamespaceMode::Pod.into(),
    }
}

fn groups(pod: &PodSpec) -> Vec<i64> {
    let fs_group = pod.security.fs_group.into_iter();
    fs_group
        .chain(pod.security.supplemental_groups.iter().copied())
        .collect()
}

/// Without a profile nothing is filtered, as in a kubelet without `seccompDefault`.
fn profile(seccomp: Option<Seccomp>) -> v1::SecurityProfile {
    use v1::security_profile::ProfileType;

    let kind = match seccomp {
        Some(Seccomp::RuntimeDefault) => ProfileType::RuntimeDefault,
        Some(Seccomp::Unconfined) | None => ProfileType::Unconfined,
    };
    v1::SecurityProfile {
        profile_type: kind.into(),
        ..Default::default()
    }
}
