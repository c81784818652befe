//! Whole diagnoses: of a healthy machine, and what a collection never keeps.

use std::collections::BTreeSet;

use causes::Cause;
use cri::Rpc;
use doctor::diagnosis::{NodeVerdict, diagnose};
use doctor::facts::{Fact, NodeFacts};
use serde_json::Value;

use crate::built::{Machine, advises};
use crate::task::Task;

#[test]
fn a_healthy_machine_has_no_finding_and_nothing_is_left_unchecked() {
    let machine = Machine::healthy();
    let diagnosis = diagnose(&machine.facts(), |_| true);
    assert_eq!(diagnosis.findings, []);
    let host = [
        "disk-", "cpu-", "memory-", "pids-", "runc-", "systemd-", "bus-", "repair-",
    ];
    let unchecked = diagnosis.not_checked.iter().filter(|one| {
        let id = one.cause.id();
        host.iter().any(|prefix| id.starts_with(prefix))
    });
    assert_eq!(unchecked.count(), 0, "{:?}", diagnosis.not_checked);
}

#[test]
fn a_machine_that_cannot_be_read_is_not_called_healthy() {
    let machine = Machine::healthy()
        .without("proc")
        .without("sys")
        .without("dev");
    let mut facts = machine.facts();
    facts.host.bus = Default::default();
    facts.probes = Default::default();
    let diagnosis = diagnose(&facts, |_| true);
    assert_eq!(diagnosis.findings, []);
    assert_eq!(diagnosis.verdict, NodeVerdict::Unknown);
    assert!(
        diagnosis.not_checked.len() >= 10,
        "{:?}",
        diagnosis.not_checked
    );
    assert!(diagnosis.not_checked.iter().all(|one| !one.why.is_empty()));
}

/// The causes that could not be judged on a machine on which nothing is wrong.
fn not_checked(machine: &Machine) -> BTreeSet<&'static str> {
    let diagnosis = diagnose(&machine.facts(), |_| true);
    assert_eq!(diagnosis.findings, []);
    let causes = diagnosis.not_checked.iter();
    causes.map(|not| not.cause.id()).collect()
}

/// The pod of an agent shares the host's PID namespace, but no kernel log, no system bus, and only its own
/// control group: deploy/kubernetes/base/daemonset.yaml.
#[test]
fn in_the_pod_of_an_agent_the_causes_that_the_documentation_names_are_not_checked() {
    let install = include_str!("../../../../docs/install.md");
    let (_, list) = install.split_once("so it cannot check ").unwrap();
    let (list, _) = list.split_once(". ").unwrap();
    let documented: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();
    let on_the_node = not_checked(&Machine::healthy());
    let pod = || {
        let pod = Machine::healthy().without("dev/kmsg");
        pod.bus(|bus| *bus = Default::default())
    };
    let by_mount = pod();
    let mounted = by_mount.path("sys/fs/cgroup/memory");
    let line = format!(
        "31 30 0:27 /kubepods/pod1/abc {} ro - cgroup cgroup rw,memory\n",
        mounted.display()
    );
    let pods = [
        by_mount
            .file("proc/self/mountinfo", &line)
            .file("proc/1/cgroup", "4:memory:/init.scope\n"),
        pod().file("proc/1/cgroup", "0::/../../../init.scope\n"),
    ];
    for pod in pods {
        let in_the_pod = not_checked(&pod);
        let only_there: BTreeSet<&str> = in_the_pod.difference(&on_the_node).copied().collect();
        assert_eq!(only_there, documented);
    }
}

#[test]
fn a_node_that_is_a_container_itself_is_checked_as_a_whole() {
    let node = Machine::healthy();
    let mounted = node.path("sys/fs/cgroup/memory");
    let line = format!(
        "31 30 0:27 /docker/abc {} ro - cgroup cgroup rw,memory\n",
        mounted.display()
    );
    let node = node
        .file("proc/self/mountinfo", &line)
        .file("proc/1/cgroup", "4:memory:/docker/abc/init.scope\n");
    assert_eq!(not_checked(&node), not_checked(&Machine::healthy()));
}

#[test]
fn facts_give_the_same_diagnosis_after_they_are_written_and_read() {
    let machine = Machine::healthy()
        .task(&Task::new(900, 500, "runc:[2:INIT]").blocked_in("fanotify_handle_event"));
    let facts = machine.facts();
    let text = serde_json::to_string(&facts).expect("JSON");
    let read: NodeFacts = serde_json::from_str(&text).expect("facts");
    assert_eq!(diagnose(&facts, |_| true), diagnose(&read, |_| true));
}

#[test]
fn no_secret_of_a_process_is_kept() {
    let secret = "hunter2-token";
    let machine = Machine::healthy()
        .file("proc/710/environ", secret)
        .file("proc/710/cmdline", secret)
        .file("proc/710/maps", secret)
        .file(
            "etc/cni/net.d/20-agent.conf",
            &format!("{{\"type\":\"calico\",\"kubeconfig\":\"{secret}\"}}"),
        );
    let text = serde_json::to_string(&machine.facts()).expect("JSON");
    assert!(text.contains("calico") && !text.contains(secret));
}

#[test]
fn an_escape_in_the_name_of_a_process_is_replaced() {
    let machine = Machine::healthy().task(&Task::new(990, 1, "\u{1b}[2Jx"));
    let facts = machine.facts();
    let named = facts.host.process(990).expect("the process");
    assert_eq!(named.comm, "?[2Jx");
}

#[test]
fn causes_that_need_kernel_functions_are_not_checked_for_a_plain_user() {
    let machine = Machine::healthy().task(&Task::new(600, 1, "kubelet").blocked_in("0"));
    let diagnosis = diagnose(&machine.facts(), |_| true);
    assert_eq!(diagnosis.findings, []);
    for id in ["storage-unresponsive", "fanotify-blocked", "rtnl-stuck"] {
        let why = diagnosis
            .not_checked
            .iter()
            .find(|one| one.cause.id() == id);
        let why = why.map(|one| one.why.as_str());
        let expected = "kubelet (600) is blocked in the kernel; the function could not be read";
        assert_eq!(why, Some(expected), "{id}");
    }
}

#[test]
fn a_culprit_kubelet_has_its_process_and_unit() {
    let mut facts = Machine::healthy().facts();
    let health = serde_json::json!({"code": 500, "failed": ["syncloop"]});
    let health = serde_json::from_value(health).expect("a kubelet's health");
    facts.probes.kubelet = Fact::known(health, "http://127.0.0.1:10248/healthz");
    let mut lists = facts.probes.calls[1].clone();
    lists.call = Rpc::ListPodSandbox;
    facts.probes.calls.push(lists);
    let diagnosis = diagnose(&facts, |cause| cause == Cause::KubeletInternal);
    let [finding] = &diagnosis.findings[..] else {
        panic!("{diagnosis:?}");
    };
    assert_eq!(finding.culprit.pid, Some(600));
    assert_eq!(finding.culprit.unit.as_deref(), Some("containerd.service"));
    advises(finding, "`kill -ABRT 600`");
}

/// Calls `each` with a copy of the value for each number in it, in which `number` replaces that number.
fn with_each_number(value: &Value, number: &Value, each: &mut impl FnMut(Value)) {
    fn places(value: &Value, at: String, found: &mut Vec<String>) {
        match value {
            Value::Number(_) => found.push(at),
            Value::Array(all) => {
                for (index, one) in all.iter().enumerate() {
                    places(one, format!("{at}/{index}"), found);
                }
            }
            Value::Object(all) => {
                for (key, one) in all {
                    places(one, format!("{at}/{key}"), found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    places(value, String::new(), &mut found);
    for place in found {
        let mut changed = value.clone();
        *changed.pointer_mut(&place).expect("the place") = number.clone();
        each(changed);
    }
}

#[test]
fn impossible_numbers_do_not_make_a_judge_panic() {
    let mut leaky = Task::new(990, 1, "leaky");
    leaky.fds = vec!["anon_inode:inotify", "anon_inode:inotify", "pipe:[9]"];
    let mut init = Task::new(901, 900, "runc:[2:INIT]").in_container();
    init.wchan = "pipe_write";
    let machine = Machine::healthy()
        .suffering()
        .file("usr/sbin/runc", "\u{7f}ELF -X main.version=1.0.0-rc93 -s")
        .file("sys/fs/cgroup/pids/system.slice/pids.max", "51\n")
        .file("sys/fs/fuse/connections/61/waiting", "4\n")
        .task(&leaky)
        .task(&Task::new(900, 700, "runc").aged(300))
        .task(&init.blocked_in("__refrigerator"));
    let facts = serde_json::to_value(machine.facts()).expect("JSON");
    let mut judged = 0;
    for number in [u32::MAX.into(), u64::MAX.into(), (-1e308).into()] {
        with_each_number(&facts, &number, &mut |changed| {
            // A value of another type is damage, which other tests cover.
            if let Ok(facts) = serde_json::from_value::<NodeFacts>(changed) {
                diagnose(&facts, |_| true);
                judged += 1;
            }
        });
    }
    assert!(judged > 300, "{judged}");
}
