//! A client that works like a kubelet: it relists every second, and starts or deletes what differs from
//! the pods that it should run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use cri::Rpc;
use cri::v1::{
    Container, ContainerState, ExecSyncRequest, ExecSyncResponse, ImageFsInfoRequest,
    ImageFsInfoResponse, ListContainerStatsRequest, ListContainerStatsResponse, PodSandbox,
    PodSandboxState, StatusRequest, StatusResponse, VersionRequest, VersionResponse,
};
use testbed_driver::{ContainerSpec, Driver, Pod, PodSpec};
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::World;
use super::client::Caller;
use super::journal::Kind;

/// The kubelet's relist period.
const RELIST: Duration = Duration::from_secs(1);

/// The period of requests for statistics, and for the runtime's status and version.
const STATISTICS: Duration = Duration::from_secs(10);

/// The period of probes. Each probe is of one container.
const PROBE: Duration = Duration::from_secs(1);

/// The label that holds a container's name.
const NAME: &str = "io.kubernetes.container.name";
/// The label that holds the UID of a pod.
const UID: &str = "io.kubernetes.pod.uid";

/// A pod that the kubelet should run or delete.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) spec: PodSpec,
    pub(super) is_deleted: bool,
}

impl Wanted {
    fn uid(&self) -> &str {
        self.spec.uid.as_deref().unwrap_or_default()
    }
}

pub(super) struct Kubelet {
    world: Rc<World>,
    caller: Caller,
    driver: Driver,
    /// The UIDs of pods with a busy worker.
    busy: RefCell<BTreeSet<String>>,
}

/// The rows of one pod in a relist.
#[derive(Debug)]
struct Shown {
    sandboxes: Vec<PodSandbox>,
    containers: Vec<Container>,
}

impl Kubelet {
    pub(super) fn start(world: Rc<World>, caller: Caller, driver: Driver) {
        let kubelet = Rc::new(Self {
            world,
            caller,
            driver,
            busy: RefCell::default(),
        });
        spawn_local(kubelet.clone().relist());
        spawn_local(kubelet.clone().observe_node());
        spawn_local(kubelet.probe());
    }

    async fn relist(self: Rc<Self>) {
        let mut last = Instant::now();
        loop {
            sleep(RELIST).await;
            let Ok(sandboxes) = self.caller.sandboxes().await else {
                continue;
            };
            let Ok(containers) = self.caller.containers().await else {
                continue;
            };
            let gap = std::mem::replace(&mut last, Instant::now()).elapsed();
            self.world.counts.borrow_mut().relisted(gap);
            super::note_running(&self.world, &containers);
            let wanted: Vec<Wanted> = self.world.wanted.borrow().values().cloned().collect();
            for pod in wanted {
                self.sync(pod, &sandboxes, &containers);
            }
        }
    }

    fn sync(self: &Rc<Self>, wanted: Wanted, sandboxes: &[PodSandbox], containers: &[Container]) {
        let uid = wanted.uid().to_owned();
        let shown = Shown {
            sandboxes: of_pod(sandboxes, &uid, |row| &row.labels),
            containers: of_pod(containers, &uid, |row| &row.labels),
        };
        if !self.busy.borrow_mut().insert(uid.clone()) {
            return;
        }
        let kubelet = self.clone();
        spawn_local(async move {
            let done = match wanted.is_deleted {
                true => kubelet.delete(&wanted, &shown).await,
                false => kubelet.run(&wanted, &shown).await,
            };
            if let Err(error) = done {
                kubelet.world.counts.borrow_mut().work_failed += 1;
                kubelet.world.log(&format!("{}: {error}", wanted.spec.name));
            }
            kubelet.busy.borrow_mut().remove(&uid);
        });
    }

    /// Creates the missing parts of a pod.
    async fn run(&self, wanted: &Wanted, shown: &Shown) -> testbed_driver::Result<()> {
        let ready = shown.sandboxes.iter();
        let ready = ready.filter(|row| row.state() == PodSandboxState::SandboxReady);
        let pod = match ready.map(|row| pod_of(wanted, row)).next_back() {
            Some(pod) => pod,
            None => {
                let attempts = shown
                    .sandboxes
                    .iter()
                    .filter_map(|row| row.metadata.as_ref());
                let attempt = attempts.map(|metadata| metadata.attempt + 1).max();
                let spec = PodSpec {
                    attempt: attempt.unwrap_or_default(),
                    containers: Vec::new(),
                    ..wanted.spec.clone()
                };
                if attempt.is_some() {
                    self.world
                        .log(&format!("{}: a sandbox is created again", spec.name));
                    self.world.counts.borrow_mut().sandboxes_made_again += 1;
                }
                let pod = self.driver.run_pod(&spec).await?;
                let mut journal = self.world.journal.borrow_mut();
                journal.made(Kind::Sandbox, &pod.sandbox_id);
                pod
            }
        };
        for container in &wanted.spec.containers {
            self.run_container(&pod, container, shown).await?;
        }
        Ok(())
    }

    async fn run_container(
        &self,
        pod: &Pod,
        container: &ContainerSpec,
        shown: &Shown,
    ) -> testbed_driver::Result<()> {
        let attempt_of = |row: &Container| row.metadata.as_ref().map_or(0, |it| it.attempt);
        let mut rows: Vec<&Container> = shown.containers.iter().collect();
        rows.retain(|row| row.labels.get(NAME) == Some(&container.name));
        rows.sort_by_key(|row| attempt_of(row));
        if rows
            .iter()
            .any(|row| row.state() == ContainerState::ContainerRunning)
        {
            return Ok(());
        }
        let next = ContainerSpec {
            attempt: rows.last().map_or(pod.attempt, |row| attempt_of(row) + 1),
            network: self.world.network_of(&pod.name),
            ..container.clone()
        };
        let made = self.driver.run_container(pod, &next).await?;
        self.world
            .journal
            .borrow_mut()
            .made(Kind::Container, &made.id);
        self.world.counts.borrow_mut().containers_made += 1;
        // Like a kubelet's garbage collection, leave one exited container.
        rows.pop();
        for row in rows {
            self.remove_container(&row.id).await?;
        }
        Ok(())
    }

    async fn delete(&self, wanted: &Wanted, shown: &Shown) -> testbed_driver::Result<()> {
        let world = &self.world;
        if shown.sandboxes.is_empty() && shown.containers.is_empty() {
            world.wanted.borrow_mut().remove(&wanted.spec.name);
            world.counts.borrow_mut().pods_deleted += 1;
            return Ok(());
        }
        {
            let mut journal = world.journal.borrow_mut();
            let containers = shown.containers.iter().map(|row| &row.id);
            let sandboxes = shown.sandboxes.iter().map(|row| &row.id);
            containers
                .chain(sandboxes)
                .for_each(|id| journal.may_end(id));
        }
        for row in &shown.containers {
            if row.state() == ContainerState::ContainerRunning {
                self.driver.stop_container(&row.id).await?;
                spawn_local(world.clone().confirm_end(Kind::Container, row.id.clone()));
            }
        }
        for row in &shown.sandboxes {
            self.driver.stop_pod(&pod_of(wanted, row)).await?;
            spawn_local(world.clone().confirm_end(Kind::Sandbox, row.id.clone()));
        }
        for row in &shown.containers {
            self.remove_container(&row.id).await?;
        }
        for row in &shown.sandboxes {
            world.journal.borrow_mut().may_vanish(&row.id);
            self.driver.remove_pod(&pod_of(wanted, row)).await?;
            world.journal.borrow_mut().gone(&row.id);
        }
        Ok(())
    }

    async fn remove_container(&self, id: &str) -> testbed_driver::Result<()> {
        self.world.journal.borrow_mut().may_vanish(id);
        self.driver.remove_container(id).await?;
        self.world.journal.borrow_mut().gone(id);
        Ok(())
    }

    /// Makes the calls of a kubelet that are about the whole node.
    async fn observe_node(self: Rc<Self>) {
        loop {
            sleep(STATISTICS / 2).await;
            let status = StatusRequest { verbose: false };
            let _: Result<StatusResponse, _> = self.caller.call(Rpc::Status, status).await;
            let version = VersionRequest::default();
            let _: Result<VersionResponse, _> = self.caller.call(Rpc::Version, version).await;
            sleep(STATISTICS / 2).await;
            let all = ListContainerStatsRequest { filter: None };
            let rpc = Rpc::ListContainerStats;
            let _: Result<ListContainerStatsResponse, _> = self.caller.call(rpc, all).await;
            let images = ImageFsInfoRequest {};
            let _: Result<ImageFsInfoResponse, _> =
                self.caller.call(Rpc::ImageFsInfo, images).await;
        }
    }

    /// Requests the status of one container at a time, and probes it.
    async fn probe(self: Rc<Self>) {
        let quick = self.caller.with_deadline(Duration::from_secs(5));
        loop {
            sleep(PROBE).await;
            let Some(id) = self.world.any_running() else {
                continue;
            };
            let _ = quick.state(Kind::Container, &id).await;
            let request = ExecSyncRequest {
                container_id: id.clone(),
                cmd: vec!["true".to_owned()],
                timeout: 5,
            };
            let answer: Result<ExecSyncResponse, _> = quick.call(Rpc::ExecSync, request).await;
            let succeeds = answer.is_ok_and(|answer| answer.exit_code == 0);
            if self.world.is_calm.get() && self.world.journal.borrow().is_running(&id) {
                self.world.counts.borrow_mut().probed(succeeds);
            }
        }
    }
}

fn of_pod<T: Clone>(
    rows: &[T],
    uid: &str,
    labels: impl Fn(&T) -> &std::collections::HashMap<String, String>,
) -> Vec<T> {
    let of_pod = |row: &&T| labels(row).get(UID).is_some_and(|found| found == uid);
    rows.iter().filter(of_pod).cloned().collect()
}

fn pod_of(wanted: &Wanted, row: &PodSandbox) -> Pod {
    Pod {
        uid: wanted.uid().to_owned(),
        namespace: wanted.spec.namespace.clone(),
        name: wanted.spec.name.clone(),
        attempt: row.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        sandbox_id: row.id.clone(),
        ready: row.state() == PodSandboxState::SandboxReady,
        containers: Vec::new(),
    }
}

/// The differences between the wanted pods and the runtime: what does not run, and what runs twice or
/// should not run.
pub(super) fn compare(
    wanted: &BTreeMap<String, Wanted>,
    sandboxes: &[PodSandbox],
    containers: &[Container],
) -> (Vec<String>, Vec<String>) {
    let (mut lost, mut doubled) = (Vec::new(), Vec::new());
    let mut add = |name: String, count: usize| match count {
        0 => lost.push(name),
        1 => {}
        _ => doubled.push(name),
    };
    for pod in wanted.values().filter(|pod| !pod.is_deleted) {
        let of_uid = of_pod(sandboxes, pod.uid(), |row| &row.labels);
        let ready = of_uid.iter();
        let ready = ready.filter(|row| row.state() == PodSandboxState::SandboxReady);
        add(format!("sandbox of {}", pod.spec.name), ready.count());
        let of_uid = of_pod(containers, pod.uid(), |row| &row.labels);
        for container in &pod.spec.containers {
            let running = of_uid.iter().filter(|row| {
                row.state() == ContainerState::ContainerRunning
                    && row.labels.get(NAME) == Some(&container.name)
            });
            add(
                format!("{}/{}", pod.spec.name, container.name),
                running.count(),
            );
        }
    }
    let is_wanted = |uid: Option<&String>| {
        let mut wanted = wanted.values();
        uid.is_none_or(|uid| wanted.any(|pod| pod.uid() == uid))
    };
    for row in containers {
        let runs = row.state() == ContainerState::ContainerRunning;
        let is_of_soak = row
            .labels
            .get("io.kubernetes.pod.namespace")
            .is_some_and(|it| it == "soak");
        if runs && is_of_soak && !is_wanted(row.labels.get(UID)) {
            doubled.push(format!("{} runs although its pod was deleted", row.id));
        }
    }
    (lost, doubled)
}
