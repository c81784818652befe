//! A CNI plug-in that does not return, and others that pile up behind it.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use cri::Rpc;

use super::Opinion;
use crate::evidence::plugins::{OLD, Plugin, plugins};
use crate::evidence::who::go;
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::probes::{Outcome, ProbeFacts};

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
    match plugins(facts) {
        Ok(plugins) => of_plugins(facts, &plugins),
        Err(why) => Opinion::CannotTell(why),
    }
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

fn of_plugins(facts: &NodeFacts, plugins: &[Plugin]) -> Opinion {
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
    let name = &oldest.process.comm;
    finding.sentence = match old {
        1 => format!(
            "the CNI plug-in {} has not returned for {}",
            oldest.process.label(),
            whole(age)
        ),
        _ => format!(
            "{old} CNI plug-ins have not returned, the oldest of them {} for {}",
            oldest.process.label(),
            whole(age)
        ),
    };
    finding.culprit = Culprit {
        pid: Some(oldest.process.pid),
        process: Some(name.clone()),
        ..Culprit::default()
    };
    let waits_for = waits_for(facts, oldest);
    finding.evidence = evidence(oldest, &waits_for);
    if old > 1 {
        let many = format!("{old} plug-ins are older than {}", whole(OLD));
        finding.evidence.push(many);
    }
    if facts.probes.outcome(Rpc::Status) == Some(Outcome::Hung) {
        finding.evidence.push(
            "the runtime's Status hangs as well: it waits for the plug-in, and the kubelet says \
             that the runtime is down"
                .to_owned(),
        );
    }
    finding.advise_first(match waits_for {
        WaitsFor::Agent {
            agent: Some(agent), ..
        } => format!(
            "restart {}, the agent that {name} asks; it waits for its answer",
            agent.label()
        ),
        WaitsFor::Agent { at, .. } => {
            format!("restart the agent that listens at {at}; {name} waits for its answer")
        }
        WaitsFor::SomeAgent => {
            format!("restart the agent that {name} asks; it waits for its answer")
        }
        WaitsFor::Kernel => format!(
            "see whether other network commands hang too (`ip link`); if not, end {name} ({})",
            oldest.process.pid
        ),
        WaitsFor::Unknown => format!(
            "see what {name} ({}) waits for; pods start and stop again once it has ended",
            oldest.process.pid
        ),
    });
    Opinion::Found(vec![finding])
}

/// What a plug-in, or the last process that it started, waits for.
enum WaitsFor<'a> {
    /// An answer at this socket.
    Agent {
        at: &'a str,
        agent: Option<&'a Process>,
    },
    /// An answer at a unix socket, of which only the kernel's function is known.
    SomeAgent,
    Kernel,
    Unknown,
}

fn waits_for<'a>(facts: &'a NodeFacts, plugin: &Plugin<'a>) -> WaitsFor<'a> {
    let waiter = plugin.waits_for.unwrap_or(plugin.process);
    let function = reads(waiter);
    if matches!(function, WaitsFor::Kernel) {
        return function;
    }
    let mut talks = facts.host.sockets.value().into_iter().flat_map(|sockets| {
        let waiters = [waiter.pid, plugin.process.pid].into_iter();
        waiters.flat_map(|pid| sockets.talks_of(pid))
    });
    match talks.next() {
        Some(talk) => WaitsFor::Agent {
            at: &talk.to,
            agent: talk.with.and_then(|pid| facts.host.process(pid)),
        },
        None => function,
    }
}

fn evidence(oldest: &Plugin, waits_for: &WaitsFor) -> Vec<String> {
    let mut evidence = vec![format!(
        "{} {}; it is {} old",
        oldest.process.label(),
        oldest.process.doing(),
        whole(oldest.process.age_seconds)
    )];
    evidence.extend(oldest.waits_for.map(|below| {
        let (who, doing) = (below.label(), below.doing());
        format!("it waits for {who}, which {doing}")
    }));
    match waits_for {
        WaitsFor::Agent {
            at,
            agent: Some(agent),
        } => {
            evidence.push(format!(
                "it is connected to {} at {at}, which has not answered",
                agent.label()
            ));
            let stuck = agent.waits().find(|place| is_network(place));
            evidence.extend(stuck.map(|place| {
                format!(
                    "a thread of {} waits in {place}: for the kernel's network",
                    agent.label()
                )
            }));
        }
        WaitsFor::Agent { at, agent: None } => {
            evidence.push(format!("it is connected to {at}, and has no answer"));
        }
        WaitsFor::SomeAgent => {
            evidence.push("that is an answer on a unix socket: its agent's".to_owned());
        }
        WaitsFor::Kernel => {
            evidence.push("that is an answer or a lock of the kernel's network".to_owned());
        }
        WaitsFor::Unknown => {}
    }
    evidence
}

/// What any of its threads waits for: that of a Go program's first is hardly ever the one.
fn reads(process: &Process) -> WaitsFor<'static> {
    let read = |place: &str| match place {
        _ if place.starts_with("unix_stream") => Some(WaitsFor::SomeAgent),
        _ if is_network(place) => Some(WaitsFor::Kernel),
        _ => None,
    };
    process.waits().find_map(read).unwrap_or(WaitsFor::Unknown)
}

/// An answer over netlink, the lock behind it, or that of xtables.
fn is_network(function: &str) -> bool {
    function.contains("netlink")
        || function.contains("rtnl")
        || matches!(
            function,
            "__skb_wait_for_more_packets" | "flock_lock_inode_wait"
        )
}

fn whole(seconds: f64) -> times::GoDuration {
    go(seconds.floor())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::{Talk, UnixSockets};
    use crate::node::{found, node};
    use causes::finding::Verdict;

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
    fn the_agent_that_a_plug_in_is_connected_to_is_named_with_what_it_waits_for_itself() {
        let mut facts = node("containerd", "1.7.24")
            .plugin(70, "terway", 90.0, "futex_wait_queue_me")
            .process(500, 1, "terwayd")
            .facts();
        let talk = Talk {
            pid: 70,
            to: "/run/eni/eni.socket".to_owned(),
            with: Some(500),
            unread: 0,
        };
        let sockets = UnixSockets {
            talks: vec![talk],
            ..UnixSockets::default()
        };
        facts.host.sockets = Fact::known(sockets, "sock_diag(7)");
        let Fact::Known { value, .. } = &mut facts.host.processes else {
            panic!("processes");
        };
        value.last_mut().unwrap().wchan = Some("netlink_recvmsg".to_owned());
        let findings = found(judge(&facts));
        assert!(findings[0].advice[0].starts_with("restart terwayd (500)"));
        let evidence = findings[0].evidence.join("\n");
        assert!(
            evidence.contains("terwayd (500) at /run/eni/eni.socket"),
            "{evidence}"
        );
        assert!(evidence.contains("netlink_recvmsg"), "{evidence}");
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
