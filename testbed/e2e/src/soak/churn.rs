//! The churn of a node: pods are added and deleted, containers die, and another client uses the socket of
//! the runtime.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use testbed_driver::{Driver, Network, Pod, PodSpec};
use tokio::time::sleep;

use super::World;
use super::client::Caller;
use super::journal::Kind;
use super::kubelet::Wanted;

/// The pod whose container is stuck during some faults. Churn does not affect it.
pub(super) const LOCKED: &str = "locked";

/// The namespace of the kubelet's pods.
const NAMESPACE: &str = "soak";

/// The maximum number of pods of the other client.
const MAX_FOREIGN_PODS: usize = 2;

/// How long an id is remembered after its removal.
const REMEMBER_REMOVED_FOR: Duration = Duration::from_secs(120);

/// A pod for the kubelet to run. Every third pod has its own network.
pub(super) fn wanted(number: usize) -> Wanted {
    let spec = PodSpec::new(format!("pod-{number}"))
        .container("app")
        .container("side");
    let network = match number % 3 {
        0 => Network::Pod,
        _ => Network::Host,
    };
    Wanted {
        spec: PodSpec {
            network,
            ..with_uid(spec)
        },
        is_deleted: false,
    }
}

pub(super) fn locked() -> Wanted {
    Wanted {
        spec: with_uid(PodSpec::new(LOCKED).container("app")),
        is_deleted: false,
    }
}

fn with_uid(spec: PodSpec) -> PodSpec {
    let random = fastrand::u128(..);
    PodSpec {
        namespace: NAMESPACE.to_owned(),
        uid: Some(format!(
            "{:08x}-0000-4000-8000-{:012x}",
            random as u32,
            random >> 80
        )),
        ..spec
    }
}

/// Every few seconds kills a container, or replaces a pod by a new one.
pub(super) async fn churn(world: Rc<World>, direct: Driver) {
    let quick = direct.with_deadline(Duration::from_secs(2));
    let mut next = world.wanted.borrow().len();
    loop {
        sleep(Duration::from_millis(fastrand::u64(1000..3000))).await;
        if world.is_quiet.get() {
            continue;
        }
        match fastrand::u8(..3) {
            0 => {
                let mut pods = world.wanted.borrow_mut();
                let names: Vec<String> = pods
                    .keys()
                    .filter(|name| *name != LOCKED)
                    .cloned()
                    .collect();
                let name = &names[fastrand::usize(..names.len())];
                if let Some(pod) = pods.get_mut(name).filter(|pod| !pod.is_deleted) {
                    pod.is_deleted = true;
                    let pod = wanted(next);
                    pods.insert(pod.spec.name.clone(), pod);
                    next += 1;
                }
            }
            _ => kill(&world, &quick).await,
        }
    }
}

/// Kills a container without the runtime, like the kernel.
async fn kill(world: &Rc<World>, direct: &Driver) {
    let Some(id) = world.any_running() else {
        return;
    };
    let Ok(pid) = direct.pid(&id).await else {
        return;
    };
    world.journal.borrow_mut().may_end(&id);
    if direct.kill(&id, pid).is_err() {
        return;
    }
    world.counts.borrow_mut().killed += 1;
    world.clone().confirm_end(Kind::Container, id).await;
}

/// Another client of the socket of the runtime. It lists, and runs its own pods.
pub(super) async fn second_client(world: Rc<World>, caller: Caller, direct: Driver) {
    let mut pods: VecDeque<Pod> = VecDeque::new();
    let mut number = 0;
    loop {
        sleep(Duration::from_secs(2)).await;
        let _ = caller.sandboxes().await;
        let _ = caller.containers().await;
        if let Some(remembered) = Instant::now().checked_sub(REMEMBER_REMOVED_FOR) {
            world.journal.borrow_mut().forget_gone(remembered);
        }
        if fastrand::u8(..3) != 0 || world.is_quiet.get() {
            continue;
        }
        number += 1;
        let spec = PodSpec::new(format!("foreign-{number}")).container("app");
        if let Ok(pod) = direct.run_pod(&spec).await {
            let mut journal = world.journal.borrow_mut();
            journal.made(Kind::Sandbox, &pod.sandbox_id);
            pod.containers
                .iter()
                .for_each(|it| journal.made(Kind::Container, &it.id));
            drop(journal);
            pods.push_back(pod);
        }
        if pods.len() > MAX_FOREIGN_PODS
            && let Some(pod) = pods.pop_front()
        {
            let ids = || {
                pod.containers
                    .iter()
                    .map(|it| &it.id)
                    .chain([&pod.sandbox_id])
            };
            ids().for_each(|id| world.journal.borrow_mut().may_vanish(id));
            if direct.remove_pod(&pod).await.is_ok() {
                ids().for_each(|id| world.journal.borrow_mut().gone(id));
            }
        }
    }
}
