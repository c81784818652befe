//! Processes in place of a conmon and its container, recorded as CRI-O records them. CRI-O itself is
//! simulated.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use causes::Cause;
use causes::finding::Finding;
use cri::{Endpoint, Rpc};
use doctor::collect::host::Host;
use doctor::collect::observation::OwnEngine;
use doctor::collect::probes::{Probing, Target};
use doctor::facts::host::{CgroupPath, Process};
use doctor::facts::probes::Outcome;
use doctor::facts::{Fact, HostFacts, NodeFacts, ProbeFacts};
use pleg::model::wall_time::system_clock;
use pleg::{Environment, NoObserver, no_ids};
use sim::{Fault, Manner, Sim};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::time::{Instant, sleep};

use crate::local::{Running, facts, findings};

/// A node with CRI-O and one container, which CRI-O lists as running.
struct Node {
    sim: Sim,
    id: String,
    run: TempDir,
}

impl Node {
    fn new() -> Self {
        let node = Self {
            sim: Sim::new(),
            id: "b".repeat(64),
            run: tempfile::tempdir().expect("a folder"),
        };
        node.sim.behave_as(Manner::CriO);
        node.sim.run("web", &["app"]);
        node.sim.world().container("web", "app").id = node.id.as_str().into();
        let folder = node.run.path().join("crio");
        fs::create_dir(&folder).expect("a folder");
        let listener = UnixListener::bind(folder.join("crio.sock")).expect("a socket");
        tokio::spawn(sim::grpc::serve(node.sim.clone(), listener));
        node
    }

    /// Records both processes as CRI-O does.
    fn note(&self, conmon: u32, init: u32) {
        let run = self.run.path();
        let notes = run.join("containers/storage/overlay-containers");
        let notes = notes.join(&self.id).join("userdata");
        fs::create_dir_all(&notes).expect("a folder");
        fs::write(notes.join("conmon-pidfile"), conmon.to_string()).expect("to write");
        fs::write(notes.join("pidfile"), init.to_string()).expect("to write");
    }

    async fn probes(&self) -> ProbeFacts {
        let mut probing = self.probing();
        probing.observe().await.expect("a report");
        probing
            .finish(&HostFacts::default())
            .await
            .expect("a report")
    }

    fn probing(&self) -> Probing<OwnEngine> {
        let target = Target {
            endpoint: Endpoint::new(self.run.path().join("crio/crio.sock")),
            proc: "/proc".into(),
            run: self.run.path().into(),
            kubelet: ([127, 0, 0, 1], 1).into(),
            dump_goroutines: None,
            until: Instant::now() + Duration::from_secs(25),
        };
        let environment = Environment {
            endpoint: target.endpoint.to_string().into(),
            clock: system_clock(),
            observer: Arc::new(NoObserver),
            ids: no_ids(),
            kernel: None,
        };
        Probing::with_own_engine(target, environment)
    }

    /// The only finding about shims and conmons.
    async fn finding(&self) -> Finding {
        let probes = self.probes().await;
        let machine = tokio::task::spawn_blocking(|| facts(&Host::local()));
        let seen = NodeFacts {
            probes,
            ..machine.await.expect("no panic")
        };
        let mut found = findings(&seen, Cause::ShimUnresponsive);
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }
}

/// The PID of a process that has ended and was waited for.
fn ended() -> u32 {
    let mut child = Command::new("true").spawn().expect("true");
    let pid = child.id();
    child.wait().expect("to end");
    pid
}

#[tokio::test]
async fn a_stopped_conmon_is_found_by_its_record() {
    let node = Node::new();
    let (conmon, app) = (
        Running::shell("conmon", "cat"),
        Running::shell("app", "cat"),
    );
    node.note(conmon.pid(), app.pid());
    let stop = Command::new("kill")
        .args(["-STOP", &conmon.pid().to_string()])
        .status();
    assert!(stop.expect("kill").success());
    let finding = node.finding().await;
    assert_eq!(finding.culprit.pid, Some(conmon.pid()));
    assert_eq!(finding.culprit.id.as_ref(), Some(&node.id));
    let advice = format!("kill -CONT {}", conmon.pid());
    assert!(finding.advice[0].contains(&advice), "{finding:#?}");
}

#[tokio::test]
async fn a_container_that_has_ended_and_is_listed_as_running_for_seconds_is_reported() {
    let node = Node::new();
    node.note(ended(), ended());
    let finding = node.finding().await;
    assert_eq!(finding.culprit.id.as_ref(), Some(&node.id));
    let said = "has exited, but cri-o lists it as running";
    assert!(finding.sentence.contains(said), "{finding:#?}");
}

/// Waits until the status of a container is requested, which is done after the lists.
async fn has_been_listed(sim: &Sim) {
    while sim.calls_made(Rpc::ContainerStatus) == 0 {
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_container_that_has_ended_is_reported_even_if_the_next_list_is_slow() {
    for list in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        let node = Node::new();
        node.note(ended(), ended());
        let sim = node.sim.clone();
        tokio::spawn(async move {
            has_been_listed(&sim).await;
            let slow = Fault::Slow(Duration::from_secs(3));
            sim.fault(list, None, slow);
        });
        let probes = node.probes().await;
        assert!(!probes.any_hung(), "{probes:#?}");
        let tasks = probes.tasks.value().expect("a note");
        assert!(tasks[0].listed_though_dead, "{probes:#?}");
    }
}

#[tokio::test]
async fn a_runtime_that_ends_before_its_second_lists_does_not_respond() {
    let node = Node::new();
    node.note(ended(), ended());
    let sim = node.sim.clone();
    tokio::spawn(async move {
        has_been_listed(&sim).await;
        sim.restart(Duration::from_secs(60));
    });
    let probes = node.probes().await;
    assert_eq!(probes.outcome(Rpc::Version), Some(Outcome::Refused));
}

#[tokio::test]
async fn a_runtime_that_ends_after_it_was_observed_is_observed_again() {
    for (down, expected) in [(60_000, Outcome::Refused), (300, Outcome::Ok)] {
        let node = Node::new();
        let mut probing = node.probing();
        probing.observe().await.expect("a report");
        node.sim.restart(Duration::from_millis(down));
        let probes = probing
            .finish(&HostFacts::default())
            .await
            .expect("a report");
        assert_eq!(probes.outcome(Rpc::Version), Some(expected), "{probes:#?}");
        assert!(!probes.is_interrupted(), "{probes:#?}");
    }
}

#[tokio::test]
async fn an_exit_that_the_runtime_notices_a_second_later_is_not_reported() {
    let node = Node::new();
    let conmon = Running::shell("conmon", "cat");
    node.note(conmon.pid(), ended());
    let sim = node.sim.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(1)).await;
        sim.exit("web", "app", 0);
    });
    let probes = node.probes().await;
    let tasks = probes.tasks.value().expect("a note");
    assert_eq!(tasks.len(), 1);
    assert!(!tasks[0].listed_though_dead);
}

/// This happens if the shim was killed, and also the `runc delete` that was to end the container.
#[tokio::test]
async fn a_container_that_lives_though_it_is_listed_as_ended_is_known_without_a_record() {
    let app = Running::shell("app", "cat");
    for (ended_before, another_is_recorded) in [(true, false), (false, false), (true, true)] {
        let node = Node::new();
        let records = "containers/storage/overlay-containers";
        fs::create_dir_all(node.run.path().join(records)).expect("a folder");
        if another_is_recorded {
            // In a pod with a shared PID namespace, other processes outlive the first one.
            node.note(ended(), ended());
        }
        let host = HostFacts {
            processes: Fact::known(vec![in_container(app.pid(), &node.id)], "/proc"),
            ..HostFacts::default()
        };
        let end = |is_now: bool| is_now.then(|| node.sim.exit("web", "app", 255));
        let mut probing = node.probing();
        end(ended_before);
        probing.observe().await.expect("a report");
        end(!ended_before);
        let probes = probing.finish(&host).await.expect("a report");
        let tasks = probes.tasks.value().expect("a folder").iter();
        let found = tasks.filter(|task| task.listed_as_ended);
        let found: Vec<_> = found.map(|task| (&task.id, task.init)).collect();
        let is_known = ended_before && !another_is_recorded;
        let expected = [(&node.id, Some(app.pid()))];
        assert_eq!(found, expected[..usize::from(is_known)], "{probes:#?}");
    }
}

fn in_container(pid: u32, id: &str) -> Process {
    let group = CgroupPath {
        controllers: String::new(),
        path: format!("/kubepods/pod1/{id}"),
    };
    Process {
        pid,
        state: 'S',
        cgroups: vec![group],
        ..Process::default()
    }
}
