//! No advice may restart a runtime before a runc that does not return is ended: a containerd that starts
//! would wait for that runc.

use causes::Cause;
use cri::Rpc;
use pleg::runtime::NoConnection;

use crate::diagnosis::diagnose;
use crate::facts::probes::Outcome;
use crate::facts::{Fact, NodeFacts};
use crate::node::{Node, node};

/// Whether this text advises to restart a runtime.
fn restarts_a_runtime(text: &str) -> bool {
    let text = text.to_lowercase();
    let orders = [
        "restart the runtime",
        "restart the daemon",
        "restart containerd",
        "restart cri-o",
        "then the runtime",
        "systemctl restart",
        "a restart of the runtime",
        "is to be restarted",
        "of the runtime, then restart it",
    ];
    orders.iter().any(|order| text.contains(order))
}

/// Nodes with a fault that a restart of the runtime may end.
fn nodes() -> Vec<Node> {
    let of = |runtime: &str| {
        let node = node(runtime, "1.7.24").shim(99, false, &["c1"]);
        node.in_group(10, "", "/system.slice/containerd.service")
    };
    let all_hang = |node: Node| {
        let node = node.call(Rpc::Version, Outcome::Hung, 9.0);
        let node = node.call(Rpc::ListPodSandbox, Outcome::Hung, 9.0);
        node.call(Rpc::ListContainers, Outcome::Hung, 9.0)
    };
    let mut nodes = Vec::new();
    for runtime in ["containerd", "cri-o", "docker"] {
        let one_hangs = of(runtime).answered(Rpc::ContainerStatus, 7, 0.002).status(
            Rpc::ContainerStatus,
            "c1",
            "shop",
            "web",
            "app",
        );
        nodes.extend([
            of(runtime),
            of(runtime).refused(NoConnection::Refused),
            of(runtime).refused(NoConnection::NoSocket),
            of(runtime).unmet("RuntimeReady", "it is not"),
            of(runtime).call(Rpc::Version, Outcome::Error, 0.1),
            of(runtime).call(Rpc::ListContainers, Outcome::Error, 0.1),
            of(runtime).listed_though_dead("c1"),
            of(runtime).listed_without_task("c1"),
            all_hang(of(runtime)),
            one_hangs,
        ]);
    }
    let zombies = (1..=1000).fold(of("containerd"), |node, pid| {
        node.process(1000 + pid, 10, "sh").in_state(1000 + pid, 'Z')
    });
    nodes.push(zombies);
    nodes
}

/// All advice to restart a runtime, and whether it mentions the runc that must be ended first.
fn advice(facts: &mut NodeFacts) -> Vec<(String, bool)> {
    let limits = &mut facts.host.limits;
    limits.tasks = Fact::known(4000, "loadavg");
    limits.pid_max = Fact::known(4000, "pid_max");
    let findings = diagnose(facts, |_| true).findings;
    let advice = findings.into_iter().flat_map(|finding| finding.advice);
    let restarts = advice.filter(|advice| restarts_a_runtime(advice));
    restarts
        .map(|advice| (advice.to_string(), advice.contains("runc")))
        .collect()
}

#[test]
fn no_advice_restarts_a_runtime_before_a_runc_that_does_not_return_is_ended() {
    let mut without = 0;
    for node in nodes() {
        without += advice(&mut node.facts()).len();
    }
    assert!(without > 10, "these nodes are to be restarted: {without}");
    for node in nodes() {
        let mut hung = node
            .process(200, 99, "runc")
            .aged(200, 90.0)
            .commanded(200, "runc delete c1")
            .facts();
        for (advice, ends_it) in advice(&mut hung) {
            assert!(ends_it, "{advice}");
        }
    }
}

#[test]
fn no_page_restarts_a_runtime_before_each_runc_that_does_not_return_is_ended() {
    let mut restarts = 0;
    for cause in Cause::ALL {
        let about = cause.about();
        let advice = about.advice.iter().map(|advice| advice.text.clone());
        let section = about.text.split("\n## ");
        let now = section.filter_map(|section| section.strip_prefix("What to do now\n"));
        // A step of the list, on one line.
        let steps = now.flat_map(|section| {
            let text = section.replace("\n   ", " ");
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        });
        for text in advice.chain(steps).filter(|text| restarts_a_runtime(text)) {
            assert!(text.contains("`runc`"), "{cause}: {text}");
            restarts += 1;
        }
    }
    assert!(restarts > 5, "{restarts}");
}
