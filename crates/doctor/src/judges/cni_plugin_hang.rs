//! A CNI plugin that does not return, and others that pile up behind it.

use std::collections::BTreeSet;

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use cri::Rpc;

use super::Opinion;
use crate::evidence::plugins::{OLD, Plugin, plugins};
use crate::evidence::who::{go, of_pod};
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::probes::Outcome;

/// A plugin that has run for this long will not return.
const HUNG_SECONDS: f64 = 60.0;
/// A node does not start more pods than this at once.
const MAX_PLUGINS: usize = 20;
/// How many of the pods that wait are named.
const MAX_NAMED: usize = 5;

/// The symptom: plugin processes that are old, or many.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    match plugins(facts) {
        Ok(plugins) => of_plugins(facts, &plugins),
        Err(why) => Opinion::CannotTell(why),
    }
}

fn of_plugins(facts: &NodeFacts, plugins: &[Plugin]) -> Opinion {
    let oldest = plugins
        .iter()
        .max_by(|a, b| a.process.age_seconds.total_cmp(&b.process.age_seconds));
    let age = oldest.map_or(0.0, |oldest| oldest.process.age_seconds);
    let waiting = plugins.iter().filter(|at| at.process.age_seconds >= OLD);
    let pods: BTreeSet<String> = waiting
        .clone()
        .filter_map(|at| at.process.plugin_of.as_ref().map(of_pod))
        .collect();
    let old = waiting.count();
    let confidence = match (age, old) {
        _ if age >= HUNG_SECONDS || old > MAX_PLUGINS => Confidence::High,
        _ if old > 0 => Confidence::Medium,
        _ => return Opinion::Clear,
    };
    let Some(oldest) = oldest else {
        return Opinion::Clear;
    };
    let mut finding = Finding::new(Cause::CniPluginHang, confidence);
    let name = &oldest.process.comm;
    finding.sentence = match old {
        1 => {
            let of = oldest.process.plugin_of.as_ref();
            let of = of.map(|pod| format!(" of {}", of_pod(pod)));
            format!(
                "the CNI plugin {}{} has been running for {} and has not returned",
                oldest.process.label(),
                of.unwrap_or_default(),
                whole(age)
            )
        }
        _ => format!(
            "{old} CNI plugins have not returned; the oldest, {}, has been running for {}",
            oldest.process.label(),
            whole(age)
        ),
    };
    finding.culprit = Culprit {
        pid: Some(oldest.process.pid),
        process: Some(name.clone()),
        pod: oldest.process.plugin_of.clone(),
        ..Culprit::default()
    };
    let waits_for = waits_for(facts, oldest);
    finding.evidence = evidence(oldest, &waits_for);
    if old > 1 {
        let many = format!(
            "{old} plugins have been running for {} or longer",
            whole(OLD)
        );
        finding.evidence.push(many);
    }
    if !pods.is_empty() {
        let named: Vec<&str> = pods.iter().take(MAX_NAMED).map(String::as_str).collect();
        let more = match pods.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = named.join(", ");
        finding
            .evidence
            .push(format!("waiting for them: {named}{more}"));
    }
    if facts.probes.outcome(Rpc::Status) == Some(Outcome::Hung) {
        finding.evidence.push(
            "the runtime's Status call hangs as well, because it waits for the plugin; the \
             kubelet then reports that the runtime is down"
                .to_owned(),
        );
    }
    finding.advise_first(match waits_for {
        WaitsFor::Agent {
            agent: Some(agent), ..
        } => format!(
            "restart {}, the agent of {name}: {name} waits for its response",
            agent.label()
        ),
        WaitsFor::Agent { at, .. } => {
            format!("restart the agent that listens on {at}: {name} waits for its response")
        }
        WaitsFor::SomeAgent => {
            format!("restart the agent of {name}: {name} waits for its response")
        }
        WaitsFor::Kernel => format!(
            "check whether other network commands (`ip link`) hang too; if not, kill {name} ({})",
            oldest.process.pid
        ),
        WaitsFor::Unknown => format!(
            "find out what {name} ({}) waits for; pods can start and stop again once it exits",
            oldest.process.pid
        ),
    });
    Opinion::Found(vec![finding])
}

/// What a plugin, or its youngest descendant, waits for.
enum WaitsFor<'a> {
    /// A response on this socket.
    Agent {
        at: &'a str,
        agent: Option<&'a Process>,
    },
    /// A response on an unknown unix socket: only the kernel function is known.
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
        "{} {}; it has been running for {}",
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
                "it is connected to {} at {at}, which has not responded",
                agent.label()
            ));
            let stuck = agent.waits().find(|place| is_network(place));
            evidence.extend(stuck.map(|place| {
                format!(
                    "a thread of {} waits in {place}, a network function of the kernel",
                    agent.label()
                )
            }));
        }
        WaitsFor::Agent { at, agent: None } => {
            evidence.push(format!(
                "it is connected to {at} and has received no response"
            ));
        }
        WaitsFor::SomeAgent => {
            evidence.push("it waits for a response on a unix socket, from its agent".to_owned());
        }
        WaitsFor::Kernel => {
            evidence.push(
                "it waits for the kernel's network: for a netlink response or a lock".to_owned(),
            );
        }
        WaitsFor::Unknown => {}
    }
    evidence
}

/// What any of its threads waits for: the first thread of a Go program is rarely the one that
/// waits.
fn reads(process: &Process) -> WaitsFor<'static> {
    let read = |place: &str| match place {
        _ if place.starts_with("unix_stream") => Some(WaitsFor::SomeAgent),
        _ if is_network(place) => Some(WaitsFor::Kernel),
        _ => None,
    };
    process.waits().find_map(read).unwrap_or(WaitsFor::Unknown)
}

/// A netlink response, the lock behind it, or the lock of xtables.
fn is_network(function: &str) -> bool {
    function.contains("netlink")
        || function.contains("rtnl")
        || matches!(
            function,
            "__skb_wait_for_more_packets" | "flock_lock_inode_wait"
        )
}

fn whole(seconds: f64) -> pleg_text::GoDuration {
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
    fn an_old_plugin_is_named_with_what_it_waits_for() {
        let facts = node("containerd", "1.7.24")
            .plugin(70, "terway", 90.0, "unix_stream_read_generic")
            .plugin(71, "terway", 30.0, "unix_stream_read_generic");
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].verdict, Verdict::Problem);
        let said = &findings[0].sentence;
        assert_eq!(
            said,
            "2 CNI plugins have not returned; the oldest, terway (70), has been running for 1m30s"
        );
        assert!(findings[0].advice[0].contains("restart the agent of terway"));
    }

    #[test]
    fn the_pods_that_wait_for_plugins_are_named() {
        let mut many = node("containerd", "1.7.24");
        for (pid, pod) in (70..77).zip(["a", "b", "b", "c", "d", "e", "f"]) {
            many = many
                .plugin(pid, "terway", 30.0, "ep_poll")
                .plugin_of(pid, pod);
        }
        let evidence = found(judge(&many.facts()))[0].evidence.join("\n");
        let named = "pod shop/a, pod shop/b, pod shop/c, pod shop/d, pod shop/e and 1 more";
        assert!(evidence.contains(named), "{evidence}");
        let one = node("containerd", "1.7.24").plugin(70, "terway", 90.0, "ep_poll");
        let finding = &found(judge(&one.plugin_of(70, "web").facts()))[0];
        assert!(
            finding
                .sentence
                .starts_with("the CNI plugin terway (70) of pod shop/web has been"),
            "{}",
            finding.sentence
        );
        assert!(finding.culprit.pod.is_some());
    }

    #[test]
    fn the_agent_that_a_plugin_is_connected_to_is_named_with_what_it_waits_for_itself() {
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
    fn a_process_with_the_name_of_a_plugin_that_no_runtime_started_is_no_plugin() {
        let facts = node("containerd", "1.7.24")
            .process(60, 1, "sh")
            .process(70, 60, "bridge")
            .process(71, 1, "host-local");
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    #[test]
    fn plugins_of_a_node_that_starts_pods_are_young() {
        assert_eq!(judge(&node("containerd", "1.7.24").facts()), Opinion::Clear);
        let facts = node("containerd", "1.7.24").plugin(70, "calico", 1.5, "futex_wait_queue_me");
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }
}
