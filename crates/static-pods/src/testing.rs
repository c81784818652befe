//! Pods and containers for tests, with the defaults of a manifest.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use pleg::model::id::PodRef;

use crate::runtime::{CgroupDriver, CgroupVersion, Cgroups, Host};
use crate::spec::{
    ContainerSecurity, ContainerSpec, Network, PodSecurity, PodSpec, Probes, PullPolicy, Resources,
    RestartPolicy, Role,
};

pub(crate) fn pod() -> PodSpec {
    PodSpec {
        pod: PodRef {
            uid: "0b2c".into(),
            namespace: "default".into(),
            name: "web".into(),
        },
        file: "web.yaml".into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        network: Network::Pod {
            hostname: "web".to_owned(),
        },
        restart_policy: RestartPolicy::Always,
        grace_period: Duration::from_secs(30),
        node_critical: false,
        dns: None,
        security: PodSecurity::default(),
        volumes: BTreeMap::new(),
        containers: vec![container("app")],
    }
}

/// A pod on the host's network with these containers: `i:name` is an init container, `s:name` is a
/// sidecar.
pub(crate) fn pod_of(restart_policy: RestartPolicy, containers: &[&str]) -> PodSpec {
    let container = |text: &&str| {
        let (role, name) = match text.split_once(':') {
            Some(("i", name)) => (Role::Init, name),
            Some(("s", name)) => (Role::Sidecar, name),
            _ => (Role::Container, *text),
        };
        ContainerSpec {
            role,
            ..container(name)
        }
    };
    PodSpec {
        network: Network::Host,
        restart_policy,
        containers: containers.iter().map(container).collect(),
        ..pod()
    }
}

pub(crate) fn container(name: &str) -> ContainerSpec {
    ContainerSpec {
        name: name.to_owned(),
        role: Role::Container,
        image: "registry/app:1".to_owned(),
        pull_policy: PullPolicy::IfNotPresent,
        command: Vec::new(),
        args: Vec::new(),
        working_dir: None,
        env: Vec::new(),
        mounts: Vec::new(),
        ports: Vec::new(),
        resources: Resources::default(),
        security: ContainerSecurity::default(),
        probes: Probes::default(),
        pre_stop: None,
        stdin: false,
        tty: false,
    }
}

pub(crate) fn host() -> Host {
    Host {
        owner: "run".to_owned(),
        node_name: "node-1".to_owned(),
        node_ips: || {
            vec![
                IpAddr::from([192, 168, 0, 1]),
                IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]),
            ]
        },
        memory: 8 << 30,
        cgroups: Cgroups {
            driver: CgroupDriver::Cgroupfs,
            version: CgroupVersion::V1,
        },
        log_root: PathBuf::from("/var/log/pods"),
    }
}

/// Runs a random test with the seeds that once failed and with `count` fresh ones. Prints the first fresh
/// seed. `PLEG_SEED=n` runs only the seed `n`. Returns whether all fresh seeds were run.
pub(crate) fn each_seed(failed: &[u64], count: u64, mut run: impl FnMut(u64)) -> bool {
    if let Ok(seed) = std::env::var("PLEG_SEED") {
        run(seed.parse().expect("PLEG_SEED is a number"));
        return false;
    }
    let first = fastrand::u64(..);
    let note = format!("{count} fresh seeds from PLEG_SEED={first} on\n");
    std::io::stderr()
        .write_all(note.as_bytes())
        .expect("a standard error");
    let fresh = (0..count).map(|number| first.wrapping_add(number));
    for seed in failed.iter().copied().chain(fresh) {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
        assert!(result.is_ok(), "PLEG_SEED={seed} fails");
    }
    true
}
