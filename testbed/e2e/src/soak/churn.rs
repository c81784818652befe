//! What happens on a node by itself: pods come and go, containers die, and another client uses the
//! runtime's own socket.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use testbed_driver::{Driver, Network, Pod, PodSpec};
use tokio::time::sleep;

use super::World;
use super::client::Caller;
use super::journal::Kind;
use super::kubelet::Wanted;

/// The pod whose container is stuck during some faults. It is left alone.
pub(super) const LOCKED: &str = "locked";

/// The namespace of the kubelet's pods.
const NAMESPACE: &str = "soak";

/// How many pods of the other client exist at once.
const FOREIGN: usize = 2;

/// How long after a removal its id is remembered.
const REMEMBERED: Duration = Duration::from_secs(120);

/// A pod that the kubelet is to run: each third one has a network of its own.
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

/// Every few seconds a container dies, or a pod is deleted and another one is wanted.
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

/// Kills a container behind the runtime's back, as the kernel does.
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

/// Another client of the runtime's own socket: it lists, and has pods of its own.
pub(super) async fn second_client(world: Rc<World>, caller: Caller, direct: Driver) {
    let mut pods: VecDeque<Pod> = VecDeque::new();
    let mut number = 0;
    loop {
        sleep(Duration::from_secs(2)).await;
        let _ = caller.sandboxes().await;
        let _ = caller.containers().await;
        if let Some(remembered) = Instant::now().checked_sub(REMEMBERED) {
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
        if pods.len() > FOREIGN
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
