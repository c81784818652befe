//! The client of the cache, and the checks of each entry that it reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::node::seconds;
use fastrand::Rng;
use pleg::Pleg;
use pleg::model::id::{Id, PodUid};
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::out::cache::Entry;
use sim::{Sandbox, Sim};
use tokio::time::{Instant, sleep, timeout};

/// The truth about the world, which the engine cannot know.
#[derive(Default)]
pub(super) struct Truth {
    /// When each id was created. `ended` is when it ended.
    pub(super) created: BTreeMap<Id, Instant>,
    pub(super) ended: BTreeMap<Id, Instant>,
    pub(super) started: usize,
}

/// A client that keeps the containers of a pod running.
#[derive(Clone)]
pub(super) struct Keeper {
    pub(super) sim: Sim,
    pub(super) pleg: Pleg,
    pub(super) truth: Arc<Mutex<Truth>>,
    pub(super) name: String,
    pub(super) began: Instant,
    pub(super) replayed: bool,
}

pub(super) const WANTED: [&str; 2] = ["x", "y"];

impl Keeper {
    fn uid(&self) -> PodUid {
        format!("uid-{}", self.name).into()
    }

    fn note(&self, what: std::fmt::Arguments<'_>) {
        if self.replayed {
            eprintln!(
                "{:.3} {}: {what}",
                self.began.elapsed().as_secs_f64(),
                self.name
            );
        }
    }

    pub(super) async fn keep(self, mut rng: Rng) {
        let mut since = Instant::now();
        loop {
            let uid = self.uid();
            let newer = self.pleg.cache().newer_than(&uid, since);
            let entry = match timeout(seconds(rng.f64() * 20.0), newer).await {
                Ok(Ok(entry)) => entry,
                Ok(Err(_)) => return,
                Err(_) => {
                    self.pleg.request_relist();
                    continue;
                }
            };
            check(&entry, &self.sim, &self.truth, self.began);
            let is_complete = entry.error.is_none() && entry.complete_as_of > Some(since);
            if is_complete && self.sync(&entry, &mut rng).await {
                since = Instant::now();
                if rng.bool() {
                    self.pleg.request_relist();
                }
            } else {
                sleep(seconds(rng.f64() * 2.0)).await;
            }
        }
    }

    /// Starts the first container that does not run; returns whether there was one.
    async fn sync(&self, entry: &Entry, rng: &mut Rng) -> bool {
        let mut sandboxes = entry.status.sandboxes.iter();
        if !sandboxes.any(|sandbox| sandbox.state == SandboxState::Ready) {
            self.start_sandbox(entry);
            return true;
        }
        for name in WANTED {
            let lives = |state| state != ContainerState::Exited;
            let mut of_name = entry
                .status
                .containers
                .iter()
                .filter(|it| &*it.name == name);
            if of_name.any(|it| lives(it.state)) {
                continue;
            }
            {
                let now = self.sim.now();
                let mut world = self.sim.world();
                let pod = world.pod(&self.name);
                let other = pod
                    .containers
                    .iter()
                    .find(|it| it.name == name && lives(it.state));
                let at = self.began.elapsed().as_secs_f64();
                assert!(
                    other.is_none(),
                    "{at}: {other:?} has a second copy by {}",
                    shown(entry, self.began)
                );
                // A container can be created only in a ready sandbox. Otherwise the creation fails,
                // as in a real runtime.
                if pod
                    .sandbox()
                    .is_none_or(|it| it.state != SandboxState::Ready)
                {
                    return false;
                }
                let id = pod.create(name, now).id.clone();
                self.note(format_args!("created {id}"));
                let mut truth = self.truth.lock().unwrap();
                truth.created.insert(id, Instant::now());
                truth.started += 1;
            }
            if rng.bool() {
                sleep(seconds(rng.f64() * 0.3)).await;
            }
            let now = self.sim.now();
            let mut world = self.sim.world();
            let container = world.container(&self.name, name);
            if container.state == ContainerState::Created {
                container.start(now);
            }
            return true;
        }
        false
    }

    fn start_sandbox(&self, entry: &Entry) {
        let now = self.sim.now();
        let mut world = self.sim.world();
        let id = match world.pods.get_mut(&self.name) {
            None => world.run(&self.name, &[], now).sandboxes[0].id.clone(),
            Some(pod) => {
                let ready = pod
                    .sandboxes
                    .iter()
                    .find(|it| it.state == SandboxState::Ready);
                assert!(
                    ready.is_none(),
                    "{ready:?} has a second copy by {}",
                    shown(entry, self.began)
                );
                let attempt = pod
                    .sandboxes
                    .iter()
                    .map(|it| it.attempt + 1)
                    .max()
                    .unwrap_or(0);
                let id: Id = format!("{}.{attempt}", self.name).into();
                pod.sandboxes.push(Sandbox {
                    id: id.clone(),
                    state: SandboxState::Ready,
                    attempt,
                    created_at: now,
                    ips: Vec::new(),
                    given: None,
                });
                id
            }
        };
        self.note(format_args!("created {id}"));
        let mut truth = self.truth.lock().unwrap();
        truth.created.insert(id, Instant::now());
    }
}

/// An entry as one line.
pub(super) fn shown(entry: &Entry, began: Instant) -> String {
    let time = |time: Option<Instant>| time.map(|time| time.duration_since(began).as_secs_f64());
    let sandboxes = entry.status.sandboxes.iter();
    let sandboxes = sandboxes.map(|it| format!("{} {:?}", it.id, it.state));
    let containers = entry.status.containers.iter();
    let containers = containers.map(|it| format!("{} {:?}", it.id, it.state));
    let parts: Vec<String> = sandboxes.chain(containers).collect();
    format!(
        "{parts:?} as of {:?}, complete as of {:?}",
        time(entry.as_of.map(|as_of| as_of.instant)),
        time(entry.complete_as_of)
    )
}

/// Checks that what an entry shows is true.
pub(super) fn check(entry: &Entry, sim: &Sim, truth: &Mutex<Truth>, began: Instant) {
    if entry.error.is_some() {
        return;
    }
    let truth = truth.lock().unwrap();
    let world = sim.world();
    let entry_shown = shown(entry, began);
    let at = began.elapsed().as_secs_f64();
    let Some(pod) = world
        .pods
        .values()
        .find(|pod| pod.pod.uid == entry.status.uid)
    else {
        return;
    };
    let was_there = |id: &Id| entry.complete_as_of > truth.created.get(id).copied();
    for sandbox in pod.sandboxes.iter().filter(|it| was_there(&it.id)) {
        let mut shown = entry.status.sandboxes.iter();
        let shown = shown.find(|it| it.id == sandbox.id);
        assert!(shown.is_some(), "{at}: lacks {sandbox:?}: {entry_shown}");
        let shown = shown.unwrap();
        assert!(
            shown.state == SandboxState::Ready || sandbox.state != SandboxState::Ready,
            "{at}: {sandbox:?} is ready: {entry_shown}"
        );
    }
    for container in pod.containers.iter().filter(|it| was_there(&it.id)) {
        let shown = entry.status.container(&container.id);
        assert!(shown.is_some(), "{at}: lacks {container:?}: {entry_shown}");
        let shown = shown.unwrap();
        assert!(
            shown.state != ContainerState::Exited || container.state == ContainerState::Exited,
            "{at}: {container:?} has not ended: {entry_shown}"
        );
    }
    let Some(as_of) = entry.as_of else { return };
    for shown in &entry.status.containers {
        let runs = shown.state == ContainerState::Running;
        let ended = truth.ended.get(&shown.id).filter(|_| runs);
        assert!(
            ended.is_none_or(|ended| *ended >= as_of.instant),
            "{at}: {} had ended {:?} before: {entry_shown}",
            shown.id,
            as_of.instant.duration_since(*ended.unwrap())
        );
    }
}
