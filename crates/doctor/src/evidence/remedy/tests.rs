//! The remedy for a call that hangs for a container, in each state of the processes behind it.

use causes::Cause;
use causes::finding::{Finding, Remedy};
use cri::Rpc;

use crate::judges::opinion;
use crate::node::{Node, found, node};

fn hung(name: &str, version: &str) -> Node {
    node(name, version)
        .status(Rpc::ContainerStatus, "c1", "shop", "web", "app")
        .answered(Rpc::ContainerStatus, 7, 0.002)
}

fn first_advice(node: Node) -> String {
    finding(node).advice[0].clone().into_owned()
}

/// The first finding, after an assertion that its remedy is what its first advice says.
fn finding(node: Node) -> Finding {
    let finding = found(opinion(&node.facts(), Cause::ContainerLock)).remove(0);
    let command = match &finding.remedy {
        Some(Remedy::Continue(pids)) => {
            let pids: String = pids.iter().map(|pid| format!(" {pid}")).collect();
            format!("run `kill -CONT{pids}`")
        }
        Some(Remedy::EndRunc([pid])) => format!("run `kill -KILL {pid}`"),
        None => String::new(),
    };
    assert!(finding.advice[0].starts_with(&command), "{finding:#?}");
    finding
}

fn remedy(node: Node) -> Option<Remedy> {
    finding(node).remedy
}

/// Enforces D1.
#[test]
fn the_remedy_resumes_what_is_stopped_or_ends_a_runc_and_never_a_shim() {
    let shim = |stopped| hung("containerd", "1.7.24").shim(99, stopped, &["c1"]);
    let with_runc = |state, age| {
        let node = shim(false).in_group(100, "", "/kubepods/c1");
        let node = node.process(200, 99, "runc").in_state(200, state);
        node.aged(200, age)
    };
    let resume = |pid| Some(Remedy::Continue(vec![pid]));
    assert_eq!(remedy(shim(true)), resume(99));
    assert_eq!(remedy(with_runc('T', 1.0)), resume(200));
    let end = Some(Remedy::EndRunc([200]));
    assert_eq!(remedy(with_runc('S', 22.0)), end);
    for node in [
        shim(false),
        shim(false).resumed(99),
        shim(false).in_state(99, 'D'),
        shim(false).blocked(99, "nfs4_call_sync"),
        shim(true).in_state(99, 't'),
        with_runc('S', 1.0),
        with_runc('D', 22.0),
        with_runc('t', 22.0),
        // It is not known whether the container is frozen.
        shim(false).process(200, 99, "runc").aged(200, 22.0),
    ] {
        assert_eq!(remedy(node), None);
    }
}

#[test]
fn a_conmon_that_sleeps_is_never_to_be_killed_and_a_stopped_one_is_resumed() {
    let asleep = hung("cri-o", "1.36.3")
        .shim(99, false, &["c1"])
        .named(99, "conmon");
    let advice = first_advice(asleep);
    assert!(advice.contains("do not kill conmon (99)"), "{advice}");
    let stopped = hung("cri-o", "1.36.3")
        .shim(99, true, &["c1"])
        .named(99, "conmon");
    let advice = first_advice(stopped);
    assert!(
        advice.contains("kill -CONT 99") && !advice.contains("KILL"),
        "{advice}"
    );
}

#[test]
fn a_stopped_runc_is_resumed_and_its_init_is_left_alone() {
    let node = hung("docker", "20.10.24")
        .shim(99, false, &["c1"])
        .process(200, 99, "runc")
        .in_state(200, 'T')
        .process(201, 200, "runc:[2:INIT]");
    let advice = first_advice(node);
    assert!(
        advice.contains("kill -CONT 200") && !advice.contains("KILL"),
        "{advice}"
    );
}

#[test]
fn only_the_debugger_can_resume_a_process_that_it_has_stopped() {
    let node = hung("containerd", "1.7.24")
        .shim(99, true, &["c1"])
        .in_state(99, 't');
    let advice = first_advice(node);
    assert!(advice.contains("TracerPid /proc/99/status"), "{advice}");
    assert!(!advice.contains("KILL"), "{advice}");
}

#[test]
fn below_a_stopped_shim_no_process_is_killed_before_the_shim_is_resumed() {
    let node = |state| {
        hung("containerd", "1.7.24")
            .shim(99, true, &["c1"])
            .process(200, 99, "runc")
            .in_state(200, state)
    };
    let found = finding(node('T'));
    assert_eq!(found.remedy, Some(Remedy::Continue(vec![99, 200])));
    let stopped = &found.advice[0];
    assert!(
        stopped.contains("kill -CONT 99 200") && !stopped.contains("KILL"),
        "{stopped}"
    );
    let found = finding(node('S'));
    assert_eq!(found.remedy, Some(Remedy::Continue(vec![99])));
    let running = &found.advice[0];
    assert!(
        running.contains("kill -CONT 99`") && !running.contains("KILL"),
        "{running}"
    );
}

#[test]
fn a_shim_is_not_to_be_killed_while_a_runc_below_it_is_young() {
    let node = |age| {
        hung("containerd", "1.7.24")
            .shim(99, false, &["c1"])
            .process(200, 99, "runc")
            .aged(200, age)
    };
    // An action on the named process harms no pod.
    assert_eq!(finding(node(22.0)).culprit.pid, Some(200));
    let young = first_advice(node(3.0));
    assert!(
        young.contains("runc (200)") && !young.contains("KILL"),
        "{young}"
    );
    let old = first_advice(node(22.0));
    assert!(old.starts_with("run `kill -KILL 200`"), "{old}");
}

#[test]
fn a_shim_that_was_resumed_between_the_samples_is_not_to_be_killed() {
    let resumed = hung("containerd", "1.7.24")
        .shim(99, false, &["c1"])
        .resumed(99);
    let advice = first_advice(resumed);
    assert!(
        advice.contains("`pleg doctor` again") && !advice.contains("KILL"),
        "{advice}"
    );
}

#[test]
fn a_process_that_waits_in_the_kernel_is_not_to_be_killed() {
    let node = hung("containerd", "1.7.24")
        .shim(99, false, &["c1"])
        .in_state(99, 'D');
    let advice = first_advice(node);
    assert!(
        advice.contains("cannot be killed") && !advice.contains("KILL"),
        "{advice}"
    );
}

#[test]
fn a_shim_that_merely_sleeps_is_not_to_be_killed() {
    let asleep = finding(hung("containerd", "1.7.24").shim(99, false, &["c1"]));
    let advice = &asleep.advice[0];
    assert!(
        advice.starts_with("do not kill containerd-shim (99)"),
        "{advice}"
    );
    assert!(advice.contains("-p 10`"), "{advice}");
    assert!(!asleep.advice.join("").contains("-KILL"), "{asleep:?}");
    assert_eq!(asleep.culprit.pid, None);
    assert_eq!(asleep.culprit.id.as_deref(), Some("c1"));
}

/// Enforces D1.
#[test]
fn a_runc_whose_container_is_frozen_is_ended_only_after_its_cgroup_is_thawed() {
    let waiting = |controllers| {
        hung("containerd", "1.7.24")
            .shim(99, false, &["c1"])
            .process(200, 99, "runc")
            .in_group(100, controllers, "/kubepods/c1")
    };
    let file = "/sys/fs/cgroup/freezer/kubepods/c1/freezer.state";
    let frozen = finding(waiting("freezer").frozen("/kubepods/c1", file, "THAWED"));
    let advice = &frozen.advice[0];
    let thaw = advice.find(&format!("`echo THAWED > {file}`")).unwrap();
    assert!(thaw < advice.find("`kill -KILL 200`").unwrap(), "{advice}");
    assert_eq!(frozen.remedy, None);
    // The freezers could not be read.
    let unread = finding(waiting("freezer"));
    assert!(
        unread.advice[0].starts_with(&format!("first run `cat {file}`")),
        "{unread:#?}"
    );
    assert_eq!(unread.remedy, None);
    // Another cgroup is frozen; on version 2, none of this is needed.
    let end = Some(Remedy::EndRunc([200]));
    let other = waiting("freezer").frozen("/kubepods/c2", "other", "THAWED");
    assert_eq!(remedy(other), end);
    assert_eq!(remedy(waiting("")), end);
}

#[test]
fn a_runc_of_the_runtime_whose_container_is_frozen_is_ended_only_after_its_cgroup_is_thawed() {
    let file = "/sys/fs/cgroup/freezer/kubepods/c1/freezer.state";
    let frozen = hung("cri-o", "1.36.3")
        .conmon(80, "c1", Some("s1"))
        .in_group(81, "freezer", "/kubepods/c1")
        .frozen("/kubepods/c1", file, "THAWED")
        .process(300, 10, "runc");
    let advice = first_advice(frozen);
    let thaw = advice.find(&format!("`echo THAWED > {file}`")).unwrap();
    assert!(thaw < advice.find("`kill -KILL 300`").unwrap(), "{advice}");
}
