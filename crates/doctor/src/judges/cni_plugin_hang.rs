//! A CNI plugin that does not return, and others that pile up behind it.

use std::collections::BTreeSet;

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use cri::Rpc;

use super::Opinion;
use crate::evidence::culprit;
use crate::evidence::phrases::{MAX_EXAMPLES, age, name_of_pod, whole_seconds, with_state};
use crate::evidence::plugins::{OLD_SECONDS, Plugin, plugins};
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::probes::Outcome;

/// A plugin that has run for this long will not return.
const HUNG_SECONDS: f64 = 60.0;
/// A node does not start more pods than this at once.
const MAX_PLUGINS: usize = 20;

/// The symptom: plugin processes that are old. If they are very old or many, the confidence is high.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let plugins = match plugins(facts) {
        Ok(plugins) => plugins,
        Err(why) => return Opinion::Unknown(why),
    };
    let old: Vec<&Plugin> = plugins.iter().filter(|plugin| plugin.is_old()).collect();
    Opinion::of(of_old(facts, &old), [])
}

fn of_old(facts: &NodeFacts, old: &[&Plugin]) -> Option<Finding> {
    let by_age =
        |a: &&&Plugin, b: &&&Plugin| a.process.age_seconds.total_cmp(&b.process.age_seconds);
    let oldest = old.iter().max_by(by_age)?;
    let process = oldest.process;
    let is_hung = process.age_seconds >= HUNG_SECONDS || old.len() > MAX_PLUGINS;
    let confidence = match is_hung {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    let mut finding = Finding::new(Cause::CniPluginHang, confidence);
    let (name, label, age) = (&process.comm, process.label(), age(process));
    finding.sentence = match old.len() {
        1 => {
            let pod = process.plugin_of.as_ref();
            let of_pod = pod.map_or(String::new(), |pod| format!(" of {}", name_of_pod(pod)));
            format!(
                "the CNI plugin {label}{of_pod} has been running for {age} and has not returned"
            )
        }
        count => format!(
            "{count} CNI plugins have not returned; the oldest, {label}, has been running for {age}"
        ),
    };
    let pod = Culprit {
        pod: process.plugin_of.clone(),
        ..Culprit::default()
    };
    finding.culprit = culprit::with_process(pod, process);
    let waits_for = waits_for(facts, oldest);
    finding.evidence = evidence(oldest, &waits_for);
    if old.len() > 1 {
        let (count, limit) = (old.len(), whole_seconds(OLD_SECONDS));
        let many = format!("{count} plugins have been running for {limit} or longer");
        finding.evidence.push(many);
    }
    finding.evidence.extend(waiting_pods(old));
    if facts.probes.outcome(Rpc::Status) == Some(Outcome::Hung) {
        finding.evidence.push(
            "the runtime's Status call hangs as well, because it waits for the plugin; the \
             kubelet then reports that the runtime is down"
                .to_owned(),
        );
    }
    finding.advise_first(match waits_for {
        WaitsFor::Agent { at, agent } => {
            let agent = match agent {
                Some(agent) => format!("{}, the agent of {name}", agent.label()),
                None => format!("the agent that listens on {at}"),
            };
            format!("restart {agent}: {name} waits for its response")
        }
        WaitsFor::SomeAgent => {
            format!("restart the agent of {name}: {name} waits for its response")
        }
        WaitsFor::Kernel => format!(
            "check whether other network commands (`ip link`) hang too; if not, kill {label}"
        ),
        WaitsFor::Unknown => {
            format!("find out what {label} waits for; pods can start and stop again once it exits")
        }
    });
    Some(finding)
}

/// The pods for which these plugins were started, of which the first few are named.
fn waiting_pods(old: &[&Plugin]) -> Option<String> {
    let pods = old.iter().filter_map(|it| it.process.plugin_of.as_ref());
    let pods: BTreeSet<String> = pods.map(name_of_pod).collect();
    let named: Vec<&str> = pods.iter().take(MAX_EXAMPLES).map(String::as_str).collect();
    let more = match pods.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!pods.is_empty()).then(|| format!("waiting for them: {}{more}", named.join(", ")))
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
    let (state, age) = (with_state(oldest.process), age(oldest.process));
    let mut evidence = vec![format!("{state}; it has been running for {age}")];
    evidence.extend(oldest.waits_for.map(|below| {
        let (label, doing) = (below.label(), below.doing());
        format!("it waits for {label}, which {doing}")
    }));
    let said = match waits_for {
        WaitsFor::Agent {
            at,
            agent: Some(agent),
        } => {
            let label = agent.label();
            evidence.push(format!(
                "it is connected to {label} at {at}, which has not responded"
            ));
            let place = agent.waits().find(|place| is_network(place));
            place.map(|place| {
                format!("a thread of {label} waits in {place}, a network function of the kernel")
            })
        }
        WaitsFor::Agent { at, agent: None } => Some(format!(
            "it is connected to {at} and has received no response"
        )),
        WaitsFor::SomeAgent => {
            Some("it waits for a response on a unix socket, from its agent".to_owned())
        }
        WaitsFor::Kernel => {
            Some("it waits for the kernel's network: for a netlink response or a lock".to_owned())
        }
        WaitsFor::Unknown => None,
    };
    evidence.extend(said);
    evidence
}

/// What a process waits for, according to any of its threads: the first thread of a Go program is rarely
/// the one that waits.
fn reads(process: &Process) -> WaitsFor<'static> {
    let read = |place: &str| match place {
        _ if place.starts_with("unix_stream") => Some(WaitsFor::SomeAgent),
        _ if is_network(place) => Some(WaitsFor::Kernel),
        _ => None,
    };
    process.waits().find_map(read).unwrap_or(WaitsFor::Unknown)
}

/// Whether a thread in this function waits for a netlink response, for the lock behind it, or for the lock
/// of xtables.
fn is_network(function: &str) -> bool {
    let locks = ["__skb_wait_for_more_packets", "flock_lock_inode_wait"];
    function.contains("netlink") || function.contains("rtnl") || locks.contains(&function)
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
    fn young_plugins_are_no_finding() {
        assert_eq!(judge(&node("containerd", "1.7.24").facts()), Opinion::Clear);
        let facts = node("containerd", "1.7.24").plugin(70, "calico", 1.5, "futex_wait_queue_me");
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }
}
