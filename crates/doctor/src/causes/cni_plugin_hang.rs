//! A CNI plug-in that does not return, and others that pile up behind it.

use super::Opinion;
use super::who::{go, process};
use crate::cause::Cause;
use crate::facts::NodeFacts;
use crate::facts::probes::{Method, Outcome, ProbeFacts};
use crate::facts::processes::{Plugin, Process};
use crate::finding::{Confidence, Culprit, Finding};

/// A plug-in takes a second; one that takes so long waits for somebody.
const OLD: f64 = 10.0;
/// One that takes so long does not come back.
const HUNG: f64 = 60.0;
/// More at once than a node starts pods.
const MANY: usize = 20;

/// The tell: plug-in processes that are old, or many.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    if let Some(unready) = no_network(probes) {
        return Opinion::Found(vec![unready]);
    }
    of_plugins(probes)
}

/// No plug-in can hang where none is loaded; that alone makes a node NotReady.
fn no_network(probes: &ProbeFacts) -> Option<Finding> {
    let condition = probes.unmet("NetworkReady")?;
    let mut finding = Finding::new(Cause::CniPluginHang, Confidence::Low);
    let why = [&*condition.reason, &*condition.message].join(": ");
    finding.sentence = format!("the runtime has no network for pods ({why})");
    finding
        .evidence
        .push(format!("its condition NetworkReady is false: {why}"));
    finding.advise_first(
        "see whether the network's agent runs on this node and has written its configuration \
         (usually to /etc/cni/net.d)",
    );
    Some(finding)
}

fn of_plugins(probes: &ProbeFacts) -> Opinion {
    let Some(plugins) = probes.plugins.value() else {
        let why = probes.plugins.why().unwrap_or_default();
        return Opinion::CannotTell(why.to_owned());
    };
    let oldest = plugins
        .iter()
        .max_by(|a, b| a.process.age_seconds.total_cmp(&b.process.age_seconds));
    let age = oldest.map_or(0.0, |oldest| oldest.process.age_seconds);
    let old = plugins.iter().filter(|at| at.process.age_seconds >= OLD);
    let old = old.count();
    let confidence = match (age, old) {
        _ if age >= HUNG || old > MANY => Confidence::High,
        _ if old > 0 => Confidence::Medium,
        _ => return Opinion::Clear,
    };
    let Some(oldest) = oldest else {
        return Opinion::Clear;
    };
    let mut finding = Finding::new(Cause::CniPluginHang, confidence);
    let name = &oldest.process.name;
    finding.sentence = match old {
        1 => format!(
            "the CNI plug-in {} has not returned for {}",
            process(&oldest.process),
            whole(age)
        ),
        _ => format!(
            "{old} CNI plug-ins have not returned, the oldest of them {} for {}",
            process(&oldest.process),
            whole(age)
        ),
    };
    finding.culprit = Culprit {
        pid: Some(oldest.process.pid),
        process: Some(name.clone()),
        ..Culprit::default()
    };
    finding.evidence = evidence(probes, oldest, old);
    finding.advise_first(match reads(waiter(oldest)) {
        Reads::Agent => format!("restart the agent that {name} asks; it waits for its answer"),
        Reads::Kernel => format!(
            "see whether other network commands hang too (`ip link`); if not, end {name} ({})",
            oldest.process.pid
        ),
        Reads::Unknown => format!(
            "see what {name} ({}) waits for; pods start and stop again once it has ended",
            oldest.process.pid
        ),
    });
    Opinion::Found(vec![finding])
}

fn evidence(probes: &ProbeFacts, oldest: &Plugin, old: usize) -> Vec<String> {
    let mut evidence = vec![format!(
        "{} {}; it is {} old",
        process(&oldest.process),
        oldest.process.doing(),
        whole(oldest.process.age_seconds)
    )];
    if let Some(below) = &oldest.waits_for {
        evidence.push(format!(
            "it waits for {}, which {}",
            process(below),
            below.doing()
        ));
    }
    match reads(waiter(oldest)) {
        Reads::Agent => evidence.push("that is an answer on a unix socket: its agent's".to_owned()),
        Reads::Kernel => {
            evidence.push("that is an answer or a lock of the kernel's network".to_owned())
        }
        Reads::Unknown => {}
    }
    if old > 1 {
        evidence.push(format!("{old} plug-ins are older than {}", whole(OLD)));
    }
    if probes.outcome(Method::Status) == Some(Outcome::Hung) {
        evidence.push(
            "the runtime's Status hangs as well: it waits for the plug-in, and the kubelet says \
             that the runtime is down"
                .to_owned(),
        );
    }
    evidence
}

fn waiter(plugin: &Plugin) -> &Process {
    plugin.waits_for.as_ref().unwrap_or(&plugin.process)
}

enum Reads {
    Agent,
    Kernel,
    Unknown,
}

fn reads(process: &Process) -> Reads {
    let place = process.wait.as_deref().unwrap_or_default();
    match place {
        _ if place.starts_with("unix_stream") => Reads::Agent,
        _ if place.contains("netlink") || place.contains("rtnl") => Reads::Kernel,
        "__skb_wait_for_more_packets" | "flock_lock_inode_wait" => Reads::Kernel,
        _ => Reads::Unknown,
    }
}

fn whole(seconds: f64) -> pleg::go_duration::GoDuration {
    go(seconds.floor())
}

#[cfg(test)]
mod tests {
    use super::super::node::{found, node};
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn an_old_plug_in_is_named_with_what_it_waits_for() {
        let facts = node("containerd", "1.7.24")
            .plugin(70, "terway", 90.0, "unix_stream_read_generic")
            .plugin(71, "terway", 30.0, "unix_stream_read_generic");
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].verdict, Verdict::Problem);
        let said = &findings[0].sentence;
        assert_eq!(
            said,
            "2 CNI plug-ins have not returned, the oldest of them terway (70) for 1m30s"
        );
        assert!(findings[0].advice[0].contains("restart the agent that terway asks"));
    }

    #[test]
    fn a_runtime_without_a_network_is_not_called_well() {
        let facts = node("containerd", "1.7.24").unmet("NetworkReady", "no networks found");
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].verdict, Verdict::Suspect);
    }

    #[test]
    fn plug_ins_of_a_node_that_starts_pods_are_young() {
        assert_eq!(judge(&node("containerd", "1.7.24").facts()), Opinion::Clear);
        let facts = node("containerd", "1.7.24").plugin(70, "calico", 1.5, "futex_wait_queue_me");
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }
}
