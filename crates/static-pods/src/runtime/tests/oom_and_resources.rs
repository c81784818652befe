//! Resources, QoS classes and OOM scores.

use crate::runtime::oom::{self, QosClass, qos_class};
use crate::runtime::resources;
use crate::spec::{ContainerSpec, PodSpec, Resources, Role};
use crate::testing;

const GIB: u64 = 1 << 30;

/// A container with these requests and limits, in thousandths of a CPU and in bytes.
fn with_resources(
    cpu: (Option<u64>, Option<u64>),
    memory: (Option<u64>, Option<u64>),
) -> ContainerSpec {
    ContainerSpec {
        resources: Resources {
            cpu_request: cpu.0,
            cpu_limit: cpu.1,
            memory_request: memory.0,
            memory_limit: memory.1,
        },
        ..testing::container("app")
    }
}

fn requesting(memory: u64) -> ContainerSpec {
    with_resources((None, None), (Some(memory), None))
}

fn pod_of(containers: &[ContainerSpec]) -> PodSpec {
    PodSpec {
        containers: containers.to_vec(),
        ..testing::pod()
    }
}

#[test]
fn the_class_and_the_score_are_the_kubelets() {
    let whole = with_resources((Some(100), Some(100)), (Some(GIB), Some(GIB)));
    let nothing = testing::container("app");
    let cases = [
        (vec![whole.clone()], QosClass::Guaranteed, -997),
        (
            vec![whole.clone(), whole.clone()],
            QosClass::Guaranteed,
            -997,
        ),
        (vec![nothing.clone()], QosClass::BestEffort, 1000),
        // Zero is no request.
        (vec![requesting(0)], QosClass::BestEffort, 1000),
        // The first container requests an eighth of the node's memory.
        (
            vec![whole.clone(), nothing.clone()],
            QosClass::Burstable,
            1000 - 125,
        ),
        (vec![nothing, whole.clone()], QosClass::Burstable, 999),
        (vec![requesting(4 * GIB)], QosClass::Burstable, 500),
        (vec![requesting(1)], QosClass::Burstable, 999),
        (vec![requesting(8 * GIB)], QosClass::Burstable, 3),
        (vec![requesting(80 * GIB)], QosClass::Burstable, 3),
        (vec![requesting(u64::MAX)], QosClass::Burstable, 3),
        (
            vec![with_resources(
                (Some(50), Some(100)),
                (Some(GIB), Some(GIB)),
            )],
            QosClass::Burstable,
            1000 - 125,
        ),
        (
            vec![with_resources((Some(100), Some(100)), (None, None))],
            QosClass::Burstable,
            999,
        ),
    ];
    for (containers, class, score) in cases {
        let pod = pod_of(&containers);
        assert_eq!(qos_class(&pod), class, "{:?}", pod.containers);
        let found = oom::score(&pod, &pod.containers[0], 8 * GIB);
        assert_eq!(found, score, "{:?}", pod.containers);
    }
}

#[test]
fn a_sidecar_is_not_killed_before_the_containers_that_it_serves() {
    let sidecar = |memory| ContainerSpec {
        role: Role::Sidecar,
        ..requesting(memory)
    };
    let score =
        |containers: &[ContainerSpec]| oom::score(&pod_of(containers), &containers[0], 8 * GIB);
    assert_eq!(
        score(&[sidecar(0), requesting(4 * GIB), requesting(2 * GIB)]),
        750
    );
    assert_eq!(score(&[sidecar(6 * GIB), requesting(2 * GIB)]), 250);
    let init = ContainerSpec {
        role: Role::Init,
        ..requesting(0)
    };
    assert_eq!(score(&[init, requesting(2 * GIB)]), 999);
}

#[test]
fn the_resources_of_a_pod_are_the_most_that_its_containers_use_at_one_time() {
    let of = |role, memory| ContainerSpec {
        role,
        ..with_resources((Some(100), None), (None, Some(memory * GIB)))
    };
    let (init, sidecar, app) = (Role::Init, Role::Sidecar, Role::Container);
    let total = |containers: &[ContainerSpec]| {
        let total = resources::of_pod(&pod_of(containers));
        (total.memory_limit_in_bytes / GIB as i64, total.cpu_shares)
    };
    assert_eq!(total(&[of(app, 2), of(app, 1)]), (3, 204));
    assert_eq!(total(&[of(init, 4), of(sidecar, 1), of(app, 2)]), (4, 204));
    assert_eq!(total(&[of(sidecar, 1), of(init, 4), of(app, 2)]), (5, 204));
    assert_eq!(total(&[of(init, 1), of(init, 1), of(app, 2)]), (2, 102));
    assert_eq!(total(&[testing::container("app")]), (0, 2));
}

#[test]
fn a_pod_that_is_critical_for_the_node_is_killed_last_whatever_it_requests() {
    let pod = PodSpec {
        node_critical: true,
        ..pod_of(&[requesting(0)])
    };
    assert_eq!(oom::score(&pod, &pod.containers[0], 8 * GIB), -997);
}
