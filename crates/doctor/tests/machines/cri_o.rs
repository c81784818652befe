//! CRI-O with conmon and runc while each of them is stopped or killed, as observed with CRI-O 1.36.3,
//! conmon 2.1.6 and control groups of version 1.

use causes::Cause;
use causes::finding::Confidence;
use cri::Rpc;
use doctor::facts::probes::{End, ProbeFacts};

use crate::built::{Machine, advises, shows};
use crate::others::{
    DB, Pod, RUNTIME, WEB, dead, hung, is_healthy_and_its_shims_were_seen, node, only, stopped,
    task, unresponsive,
};
use crate::task::Task;

/// The conmon of the container of `web`. `APP` is the process of that container.
const CONMON: u32 = 710;
const APP: u32 = 711;

fn healthy() -> Machine {
    let node = node("cri-o", "1.36.3", "/run/crio/crio.sock", "crio");
    let pods = [(WEB, 700), (DB, 720)];
    pods.into_iter().fold(node, |node, (pod, pid)| {
        let node = container(node, pod, &pod.sandbox(), "POD", pid);
        container(node, pod, &pod.container(), "app", pid + 10)
    })
}

/// Adds a container with its conmon to the processes and to CRI-O's records.
fn container(machine: Machine, pod: Pod, id: &str, name: &str, conmon: u32) -> Machine {
    let notes = format!("run/containers/storage/overlay-containers/{id}/userdata");
    let spec = format!(
        r#"{{"annotations":{{"io.kubernetes.container.name":"{name}",
            "io.kubernetes.cri-o.SandboxID":"{}","io.kubernetes.pod.namespace":"shop",
            "io.kubernetes.pod.name":"{}"}}}}"#,
        pod.sandbox(),
        pod.name
    );
    machine
        .task(&its_conmon(pod, id, conmon))
        .task(&its_process(pod, id, conmon))
        .file(&format!("{notes}/conmon-pidfile"), &conmon.to_string())
        .file(&format!("{notes}/pidfile"), &(conmon + 1).to_string())
        .file(&format!("{notes}/config.json"), &spec)
}

fn its_conmon(pod: Pod, id: &str, conmon: u32) -> Task {
    let group = format!("{}/crio-conmon-{id}", pod.group());
    task(conmon, 1, "conmon", &group)
}

fn its_process(pod: Pod, id: &str, conmon: u32) -> Task {
    let group = format!("{}/crio-{id}", pod.group());
    task(conmon + 1, conmon, "app", &group)
}

fn web_conmon_stopped() -> Machine {
    healthy().task(&stopped(its_conmon(WEB, &WEB.container(), CONMON)))
}

fn web_app_dead(machine: Machine) -> Machine {
    machine.task(&dead(its_process(WEB, &WEB.container(), CONMON)))
}

#[test]
fn a_healthy_cri_o_has_no_finding_and_its_conmons_were_examined() {
    is_healthy_and_its_shims_were_seen(&healthy());
}

#[test]
fn a_stopped_conmon_while_its_container_is_stopped_is_named_and_not_that_of_its_sandbox() {
    // The container's process has been killed, and CRI-O waits for its exit file.
    let machine = web_app_dead(web_conmon_stopped())
        .asked(hung(WEB, Rpc::ContainerStatus))
        .asked(hung(WEB, Rpc::PodSandboxStatus));
    let finding = only(&machine, Cause::ContainerLock);
    assert_eq!(finding.culprit.pid, Some(CONMON));
    assert_eq!(finding.culprit.id, Some(WEB.container()));
    advises(&finding, &format!("`kill -CONT {CONMON}`"));
}

#[test]
fn with_pod_events_a_stopped_conmon_is_found_by_the_status_of_its_sandbox_alone() {
    let machine = web_conmon_stopped().asked(hung(WEB, Rpc::PodSandboxStatus));
    let finding = only(&machine, Cause::ContainerLock);
    assert_eq!(finding.culprit.pid, Some(CONMON));
    advises(&finding, &format!("`kill -CONT {CONMON}`"));
}

#[test]
fn a_stopped_conmon_that_no_call_waits_for_yet_is_reported() {
    let finding = only(&web_conmon_stopped(), Cause::ShimUnresponsive);
    assert_eq!(finding.confidence, Confidence::Certain);
    assert_eq!(finding.culprit.pid, Some(CONMON));
    assert!(finding.sentence.contains("conmon (710) of pod shop/web"));
    advises(&finding, &format!("`kill -CONT {CONMON}`"));
    assert!(finding.fixed_in.is_empty());
}

#[test]
fn statuses_of_four_seconds_are_reported_beside_the_conmon_that_they_waited_for() {
    let slow = |probes: &mut ProbeFacts| {
        let status = WEB.call(Rpc::ContainerStatus, End::Answered, 3.76);
        probes.calls.push(status);
    };
    let machine = web_app_dead(web_conmon_stopped()).asked(slow);
    let finding = only(&machine, Cause::ShimUnresponsive);
    shows(&finding, "ContainerStatus for it took 3.76s");
}

#[test]
fn a_runc_start_that_was_stopped_is_what_the_lock_of_its_container_waits_for() {
    let runc = stopped(task(900, RUNTIME, "runc", "/system.slice/crio.service").aged(20));
    let init = format!("{}/crio-{}", WEB.group(), WEB.container());
    let machine = healthy()
        .task(&runc)
        .task(&task(APP, CONMON, "runc:[2:INIT]", &init))
        .asked(hung(WEB, Rpc::ContainerStatus));
    let finding = only(&machine, Cause::ContainerLock);
    assert_eq!(finding.culprit.pid, Some(900));
    assert_eq!(finding.culprit.id, Some(WEB.container()));
    advises(&finding, "`kill -CONT 900`");
    assert!(finding.sentence.contains("it waits for runc (900)"));
}

#[test]
fn a_runc_create_that_was_stopped_below_its_conmon_is_to_be_resumed() {
    let group = format!("{}/crio-conmon-{}", WEB.group(), WEB.container());
    let machine = healthy()
        .task(&stopped(task(900, CONMON, "runc", &group).aged(20)))
        .asked(hung(WEB, Rpc::ContainerStatus));
    let finding = only(&machine, Cause::ContainerLock);
    advises(&finding, "`kill -CONT 900`");
}

#[test]
fn a_stopped_cri_o_is_named_and_no_container() {
    let crio = task(RUNTIME, 1, "crio", "/system.slice/crio.service");
    let machine = healthy().task(&stopped(crio)).asked(unresponsive);
    let finding = only(&machine, Cause::RuntimeUnresponsive);
    assert_eq!(finding.culprit.pid, Some(RUNTIME));
    advises(&finding, &format!("`kill -CONT {RUNTIME}`"));
}
