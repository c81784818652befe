//! cri-dockerd, dockerd and its containerd while each of them is stopped or killed, as observed with
//! cri-dockerd 0.4.3 and docker 20.10.24. dockerd has a shim for each container.

use causes::Cause;
use cri::Rpc;
use doctor::facts::probes::{End, ProbeFacts};

use crate::built::{Machine, advises, shows};
use crate::others::{
    DB, Pod, RUNTIME, WEB, failing, hung, is_healthy_and_its_shims_were_seen, node, only, said,
    stopped, task, unresponsive,
};
use crate::task::Task;

const DOCKERD: u32 = 510;
const CONTAINERD: u32 = 520;
/// The shim of the container of `web`.
const SHIM: u32 = 710;

fn healthy() -> Machine {
    let node = node("docker", "20.10.24", "/run/cri-dockerd.sock", "cri-dockerd")
        .task(&dockerd())
        .task(&containerd());
    let pods = [(WEB, 700), (DB, 720)];
    pods.into_iter().fold(node, |node, (pod, pid)| {
        let node = container(node, pod, &pod.sandbox(), pid);
        container(node, pod, &pod.container(), pid + 10)
    })
}

fn dockerd() -> Task {
    task(DOCKERD, 1, "dockerd", "/system.slice/docker.service")
}

fn containerd() -> Task {
    task(
        CONTAINERD,
        DOCKERD,
        "containerd",
        "/system.slice/docker.service",
    )
}

/// Adds a container with its shim to the processes and to the folder of dockerd's containerd.
fn container(machine: Machine, pod: Pod, id: &str, shim: u32) -> Machine {
    let tasks = "run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby";
    let group = format!("{}/{id}", pod.group());
    machine
        .task(&task(
            shim,
            1,
            "containerd-shim",
            "/system.slice/docker.service",
        ))
        .task(&task(shim + 1, shim, "app", &group))
        .file(&format!("{tasks}/{id}/init.pid"), &(shim + 1).to_string())
}

/// Makes the status calls of all pods hang. Some of them were answered before.
fn all_hang(probes: &mut ProbeFacts) {
    for call in [Rpc::PodSandboxStatus, Rpc::ContainerStatus] {
        for pod in [WEB, DB] {
            hung(pod, call)(probes);
        }
    }
    // The ids that an agent has saved have no kind, so the status of a sandbox is requested like that of a
    // container.
    let mut guessed = DB.call(Rpc::ContainerStatus, End::Hung, 6.0);
    guessed.id = Some(DB.sandbox());
    (guessed.pod, guessed.container) = (None, None);
    probes.calls.push(guessed);
}

#[test]
fn a_healthy_chain_of_daemons_has_no_finding_and_its_shims_were_examined() {
    is_healthy_and_its_shims_were_seen(&healthy());
}

#[test]
fn a_stopped_dockerd_is_named_and_no_shim_that_waits_for_it() {
    let machine = healthy().task(&stopped(dockerd())).asked(all_hang);
    let findings = said(&machine).findings;
    let first = &findings[0];
    assert_eq!(first.cause, Cause::RuntimeUnresponsive);
    assert_eq!(first.culprit.pid, Some(DOCKERD));
    advises(first, &format!("`kill -CONT {DOCKERD}`"));
    for finding in &findings {
        assert!(!finding.advice.join("").contains("-KILL"), "{finding:#?}");
    }
    assert_eq!(findings.len(), 1, "{findings:#?}");
}

#[test]
fn a_stopped_containerd_behind_dockerd_is_named_although_everything_is_answered() {
    let machine = healthy().task(&stopped(containerd()));
    let finding = only(&machine, Cause::RuntimeUnresponsive);
    assert_eq!(finding.culprit.pid, Some(CONTAINERD));
    advises(&finding, &format!("`kill -CONT {CONTAINERD}`"));
}

#[test]
fn a_dockerd_that_was_killed_is_one_finding_with_how_to_start_it() {
    let why = "Unknown: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is \
               the docker daemon running?";
    let machine = healthy()
        .without(&format!("proc/{DOCKERD}"))
        .without(&format!("proc/{CONTAINERD}"))
        .asked(|probes| failing(probes, why));
    let finding = only(&machine, Cause::RuntimeUnresponsive);
    advises(&finding, "`systemctl start docker`");
}

#[test]
fn a_containerd_that_was_killed_behind_dockerd_is_reported() {
    let machine = healthy().without(&format!("proc/{CONTAINERD}"));
    let finding = only(&machine, Cause::RuntimeUnresponsive);
    assert!(finding.sentence.starts_with("containerd, on which"));
    shows(&finding, "there is no process named containerd");
}

#[test]
fn a_stopped_runc_start_is_to_be_resumed_and_its_init_is_left_alone() {
    let group = format!("{}/{}", WEB.group(), WEB.container());
    let machine = healthy()
        .task(&stopped(
            task(900, SHIM, "runc", "/system.slice/docker.service").aged(120),
        ))
        .task(&task(SHIM + 1, SHIM, "runc:[2:INIT]", &group).aged(120))
        .asked(hung(WEB, Rpc::ContainerStatus));
    let finding = only(&machine, Cause::ContainerLock);
    assert_eq!(finding.culprit.id, Some(WEB.container()));
    advises(&finding, "`kill -CONT 900`");
    shows(&finding, "below the shim, runc (900) is stopped");
}

#[test]
fn a_sandbox_whose_status_hangs_costs_no_shim() {
    let machine = healthy().asked(hung(WEB, Rpc::PodSandboxStatus));
    let finding = only(&machine, Cause::ContainerLock);
    advises(&finding, "do not kill containerd-shim (700)");
}

#[test]
fn a_stopped_shim_is_reported() {
    let shim = task(SHIM, 1, "containerd-shim", "/system.slice/docker.service");
    let finding = only(&healthy().task(&stopped(shim)), Cause::ShimUnresponsive);
    assert_eq!(finding.culprit.pid, Some(SHIM));
    advises(&finding, &format!("`kill -CONT {SHIM}`"));
}

#[test]
fn a_stopped_cri_dockerd_is_named_itself() {
    let shim = "/system.slice/cri-docker.service";
    let machine = healthy()
        .task(&stopped(task(RUNTIME, 1, "cri-dockerd", shim)))
        .asked(unresponsive);
    let finding = only(&machine, Cause::RuntimeUnresponsive);
    assert_eq!(finding.culprit.pid, Some(RUNTIME));
    advises(&finding, &format!("`kill -CONT {RUNTIME}`"));
}
