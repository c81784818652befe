//! The runtime as a whole does not respond: stopped, gone, not accepting, or silent.

use std::borrow::Cow;

use causes::Cause;
use causes::finding::{Confidence, Finding};
use pleg::runtime::{CallError, NoConnection, Rpc, Unreachable};

use super::Opinion;
use crate::evidence::lack::NOT_PROBED;
use crate::evidence::owner::culprit;
use crate::evidence::plugins::is_any_old;
use crate::evidence::remedy::{resume_daemon, thaw};
use crate::evidence::runc::restart;
use crate::evidence::who::{MAX_EXAMPLES, go, stacks, subject, unanswered};
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::probes::{End, MAX_SINGLED_OUT, OtherCalls, Outcome, Probe, ProbeFacts};

mod behind;
mod failing;

/// If half of the status calls take longer, the runtime is slow: a healthy one takes milliseconds.
const SLOW_SECONDS: f64 = 2.0;

/// The symptom: `Version`, which takes no lock, is not answered.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    if let Some(finding) = behind::judge(facts) {
        return Opinion::Found(vec![with_unit(facts, finding)]);
    }
    let Some(version) = probes.node(Rpc::Version) else {
        return unasked(facts);
    };
    let opinion = match &version.end {
        End::Failed(CallError::Unavailable(why)) => refused(facts, version, why),
        End::Failed(error) => Opinion::Found(vec![nonsense(facts, error)]),
        End::Hung => Opinion::Found(vec![match probes.while_version_hangs() {
            Some(OtherCalls::Answered) => all_but_version(facts, version),
            Some(OtherCalls::Unknown) if !is_kept_from_running(facts) => {
                perhaps_all(facts, version)
            }
            _ => silent(facts, version),
        }]),
        End::Answered => match facts.runtime_process() {
            // A debugger stops it for a moment, again and again.
            Some(who) if who.state == 'T' => {
                let mut findings = vec![stopped_since(facts, who)];
                if let Opinion::Found(others) = lists(facts) {
                    findings.extend(others);
                }
                Opinion::Found(findings)
            }
            _ => lists(facts),
        },
    };
    match opinion {
        Opinion::Found(findings) => {
            let findings = findings.into_iter();
            Opinion::Found(findings.map(|finding| with_unit(facts, finding)).collect())
        }
        other => other,
    }
}

/// Whether the runtime's process is stopped, or frozen with its control group.
fn is_kept_from_running(facts: &NodeFacts) -> bool {
    let process = facts.runtime_process();
    process.is_some_and(|who| who.is_stopped() || facts.host.frozen_group(who).is_some())
}

fn all_but_version(facts: &NodeFacts, version: &Probe) -> Finding {
    let calls = facts.probes.calls.iter();
    let of_node = calls.filter(|probe| probe.id.is_none() && probe.end == End::Hung);
    let others: Vec<_> = of_node.filter(|probe| probe.call != Rpc::Version).collect();
    let mut names = vec![version.call.name()];
    names.extend(others.iter().map(|probe| probe.call.name()));
    let names = names.join(" or ");
    let sentence = format!("the container runtime answers other calls, but not {names}");
    let mut finding = finding(facts, Confidence::Medium, sentence);
    let hung = [version].into_iter().chain(others);
    finding.evidence.extend(hung.map(unanswered));
    finding
}

/// There was no time, or it was answered only now and then.
fn perhaps_all(facts: &NodeFacts, version: &Probe) -> Finding {
    let sentence = "the container runtime does not answer Version; whether it answers other calls \
                    now was not seen"
        .to_owned();
    let mut finding = finding(facts, Confidence::Medium, sentence);
    finding.evidence.push(unanswered(version));
    finding
}

/// It has answered, and was stopped before the end.
fn stopped_since(facts: &NodeFacts, who: &Process) -> Finding {
    let label = who.label();
    let sentence = format!("the container runtime {label} has been stopped since it was called");
    let mut finding = finding(facts, Confidence::High, sentence);
    let evidence = &mut finding.evidence;
    evidence.push("it answered Version at first".to_owned());
    evidence.push(format!("{label} {}", who.doing()));
    finding.advise_first(resume_daemon(who));
    finding
}

/// Adds advice about the systemd unit of the runtime.
fn with_unit(facts: &NodeFacts, mut finding: Finding) -> Finding {
    let Some(unit) = &finding.culprit.unit else {
        return finding;
    };
    // Advice for this node, such as how to resume the process, stays first.
    let at = usize::from(matches!(finding.advice.first(), Some(Cow::Owned(_))));
    let restart = restart(facts, &format!("`systemctl restart {unit}`"));
    let advice = format!("read its log with `journalctl -u {unit} -n 100`; {restart}");
    finding.advice.insert(at, advice.into());
    finding
}

fn unasked(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    let why = match (&probes.agent, probes.endpoint.is_empty()) {
        // The agent may report that both lists hang.
        (Some(_), _) => match lists(facts) {
            found @ Opinion::Found(_) => return found,
            _ => "the runtime has not answered the agent on this node yet",
        },
        (None, true) => "no container runtime was found; set its socket with --runtime-endpoint",
        (None, false) => NOT_PROBED,
    };
    Opinion::CannotTell(why.to_owned())
}

fn refused(facts: &NodeFacts, version: &Probe, why: &Unreachable) -> Opinion {
    let at = &facts.probes.endpoint;
    let (confidence, sentence) = match why.cause {
        NoConnection::Forbidden => {
            return Opinion::CannotTell(format!("only root can open {at}: {why}"));
        }
        NoConnection::NoSocket => (
            Confidence::High,
            format!(
                "no container runtime listens on {at}: it is not running, or its socket is \
                 elsewhere"
            ),
        ),
        NoConnection::Refused => (
            Confidence::Certain,
            format!(
                "the container runtime at {at} is gone: its socket exists, but no process listens \
                 on it"
            ),
        ),
        NoConnection::NotASocket => (
            Confidence::High,
            format!("no container runtime listens on {at}: {why}"),
        ),
        NoConnection::QueueFull => (
            Confidence::Certain,
            format!(
                "the container runtime at {at} accepts no connections: its accept queue is full"
            ),
        ),
        NoConnection::Lost | NoConnection::Other => (
            Confidence::High,
            format!("the container runtime at {at} cannot be reached: {why}"),
        ),
    };
    let mut finding = finding(facts, confidence, sentence);
    finding.evidence.push(format!(
        "a connection to {at} failed{}: {why}",
        version.source()
    ));
    for probe in facts.probes.went_away.calls().iter().take(MAX_EXAMPLES) {
        let call = probe.call;
        let who = subject(probe);
        let went = format!("it went away while {call} of {who} was outstanding");
        finding.evidence.push(went);
    }
    finding.evidence.extend(queue(facts));
    Opinion::Found(vec![finding])
}

fn silent(facts: &NodeFacts, version: &Probe) -> Finding {
    let at = &facts.probes.endpoint;
    let listener = facts.runtime_process();
    let stopped = listener.filter(|process| process.is_stopped());
    let frozen = listener.and_then(|process| facts.host.frozen_group(process));
    let (confidence, sentence) = match (stopped, listener) {
        (_, Some(who)) if frozen.is_some() => {
            let who = who.label();
            let sentence = format!("the container runtime {who} is frozen: every call hangs");
            (Confidence::Certain, sentence)
        }
        (Some(who), _) => {
            let who = who.label();
            let sentence = format!("the container runtime {who} is stopped: every call hangs");
            (Confidence::Certain, sentence)
        }
        (None, Some(who)) => {
            let who = who.label();
            let sentence = format!("the container runtime {who} does not answer any call");
            (Confidence::High, sentence)
        }
        (None, None) => {
            let sentence = format!("the container runtime at {at} does not answer any call");
            (Confidence::High, sentence)
        }
    };
    let mut finding = finding(facts, confidence, sentence);
    let waited = go(version.seconds);
    finding.evidence.push(match version.by_agent {
        true => format!("it has not answered the agent on this node for {waited}"),
        false => format!("it accepted a connection but has not answered Version for {waited}"),
    });
    finding.evidence.extend(queue(facts));
    if let Some(who) = listener {
        finding
            .evidence
            .push(format!("{} {}", who.label(), who.doing()));
    }
    if let Some(group) = frozen {
        let (file, state) = (&group.file, &group.state);
        finding.evidence.push(format!("{file} contains {state}"));
        finding.advise_first(thaw(group));
    } else if let Some(who) = stopped {
        finding.advise_first(resume_daemon(who));
    }
    finding
}

fn nonsense(facts: &NodeFacts, why: &CallError) -> Finding {
    let at = &facts.probes.endpoint;
    let sentence = match why {
        CallError::Unimplemented(_) | CallError::Malformed(_) => {
            format!("the service at {at} does not implement CRI correctly")
        }
        _ => format!("the service at {at} fails Version"),
    };
    let mut finding = finding(facts, Confidence::High, sentence);
    finding.evidence.push(format!("Version failed: {why}"));
    finding
}

/// `Version` is answered, but neither list is, or a list fails.
fn lists(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    let lists = [Rpc::ListPodSandbox, Rpc::ListContainers];
    let bad = |outcome: Outcome| {
        let called = lists.into_iter();
        called.filter(move |call| probes.outcome(*call) == Some(outcome))
    };
    let name = name(probes);
    let (hung, failed) = (bad(Outcome::Hung).count(), bad(Outcome::Error));
    if hung == 2 {
        let node = lists.into_iter().filter_map(|call| probes.node(call));
        let waited = node.clone().map(|probe| probe.seconds);
        let within = go(waited.fold(f64::INFINITY, f64::min).floor());
        let sentence = match probes.node(Rpc::Version) {
            Some(_) => format!("{name} answers Version, but neither list call within {within}"),
            None => format!("{name} answers neither list call within {within}"),
        };
        let mut found = finding(facts, Confidence::High, sentence);
        let one = probes.singled_out(Rpc::ContainerStatus);
        found.evidence.extend(node.chain(one).map(unanswered));
        return Opinion::Found(vec![found]);
    }
    let failed = failed.filter_map(|call| probes.node(call));
    let failed = failed.filter_map(|probe| Some((probe.call.name(), probe.error()?)));
    // A list that is too large is another cause.
    let failed = failed.filter(|(_, why)| !matches!(why, CallError::TooLarge(_)));
    let found = failed.map(|(call, why)| {
        let mut found = finding(facts, Confidence::High, format!("{name} fails {call}"));
        found.evidence.push(format!("{call} failed: {why}"));
        found
    });
    let mut found: Vec<Finding> = found.collect();
    found.extend(refused_to_agent(facts, name));
    found.extend(hung_alone(facts));
    found.extend(nobodys_status(facts, name));
    found.extend(many_statuses(facts, name));
    found.extend(failing::statuses(facts, name));
    found.extend(not_ready(facts));
    found.extend(slow_statuses(facts, name).filter(|_| found.is_empty()));
    match found.is_empty() {
        true => Opinion::Clear,
        false => Opinion::Found(found),
    }
}

/// An agent does not report which of its list calls failed.
fn refused_to_agent(facts: &NodeFacts, name: &str) -> Option<Finding> {
    let failure = facts.probes.agent.as_ref()?.failure.as_ref()?;
    if matches!(failure, CallError::TooLarge(_)) {
        return None;
    }
    let sentence = format!("{name} fails a list call of the agent on this node");
    let mut found = finding(facts, Confidence::High, sentence);
    found
        .evidence
        .push(format!("the list call failed: {failure}"));
    Some(found)
}

/// It answers, but reports that it is not ready.
fn not_ready(facts: &NodeFacts) -> Option<Finding> {
    let probes = &facts.probes;
    let condition = probes.unmet("RuntimeReady")?;
    let why = [&*condition.reason, &*condition.message].join(": ");
    let name = name(probes);
    let sentence = format!("{name} reports that it is not ready ({why})");
    let mut found = finding(facts, Confidence::High, sentence);
    found
        .evidence
        .push(format!("the condition RuntimeReady is false: {why}"));
    Some(found)
}

/// One call for the whole node hangs, and no other cause explains it.
fn hung_alone(facts: &NodeFacts) -> Option<Finding> {
    let probes = &facts.probes;
    let hung = |call: &Rpc| probes.outcome(*call) == Some(Outcome::Hung);
    let explained = |call: &Rpc| match call {
        Rpc::ListContainers => probes.may_be_containerd(),
        // The plugin that it waits for is reported by another judge.
        Rpc::Status => is_any_old(facts),
        _ => false,
    };
    let calls = [Rpc::ListPodSandbox, Rpc::ListContainers, Rpc::Status];
    let mut calls = calls.into_iter().filter(hung);
    let probe = probes.node(calls.find(|call| !explained(call))?)?;
    let call = probe.call.name();
    let name = name(probes);
    let sentence = format!("{name} answers Version, but not {call}");
    let mut found = finding(facts, Confidence::Medium, sentence);
    found.evidence.push(unanswered(probe));
    Some(found)
}

/// No status call of one kind is answered: then no container is singled out.
fn nobodys_status(facts: &NodeFacts, runtime: &str) -> Option<Finding> {
    let probes = &facts.probes;
    if probes.agent.is_some() {
        return None;
    }
    // Under a lock of one of them.
    let is_few = |call: Rpc| probes.hung(call).count() <= MAX_SINGLED_OUT;
    let is_list_hung = probes.outcome(Rpc::ListContainers) == Some(Outcome::Hung);
    let calls = [Rpc::ContainerStatus, Rpc::PodSandboxStatus].into_iter();
    // An error is an answer.
    let fails = |call: Rpc| probes.failures.iter().any(|it| it.call == call);
    let mut silent = calls.filter(|call| probes.cost(*call).is_none() && !fails(*call));
    let call = silent.find(|call| probes.hung(*call).next().is_some())?;
    if is_list_hung && is_few(call) {
        return None;
    }
    let sentence = format!("{runtime} does not answer any {call} call");
    let mut found = finding(facts, Confidence::Medium, sentence);
    let hung = probes.hung(call);
    let longest = hung.map(|probe| probe.seconds).fold(0.0, f64::max);
    let count = probes.hung(call).count();
    found.evidence.push(format!(
        "{count} calls were made and none was answered, the oldest for {}: the runtime is slow, \
         or all of them wait for the same resource",
        go(longest)
    ));
    Some(found)
}

/// Several status calls hang while others are answered: a daemon blocks them, and each id is a
/// victim.
fn many_statuses(facts: &NodeFacts, runtime: &str) -> Option<Finding> {
    let probes = &facts.probes;
    let calls = [Rpc::ContainerStatus, Rpc::PodSandboxStatus].into_iter();
    let mut calls = calls.filter(|call| probes.cost(*call).is_some() || probes.agent.is_some());
    let call = calls.find(|call| probes.hung(*call).count() > MAX_SINGLED_OUT)?;
    let count = probes.hung(call).count();
    let sentence = format!("{runtime} does not answer {call} for {count} ids at the same time");
    let mut found = finding(facts, Confidence::Medium, sentence);
    let examples = probes.hung(call).take(MAX_SINGLED_OUT + 1);
    found.evidence.extend(examples.map(unanswered));
    found.evidence.push(
        "a call that hangs for several ids is usually blocked by a daemon or a disk, not by each \
         container"
            .to_owned(),
    );
    Some(found)
}

/// Status calls are answered, but take seconds each: a kubelet makes one after the other.
fn slow_statuses(facts: &NodeFacts, runtime: &str) -> Option<Finding> {
    let calls = [Rpc::ContainerStatus, Rpc::PodSandboxStatus].into_iter();
    let mut costs = calls.filter_map(|call| facts.probes.cost(call));
    let slow = costs.find(|cost| cost.p50 >= SLOW_SECONDS)?;
    let call = slow.call.name();
    let sentence = format!("{runtime} is slow: {call} takes {}", go(slow.p50));
    let mut found = finding(facts, Confidence::Low, sentence);
    found.evidence.push(format!(
        "of {} {call} calls, half took {} or more, and the slowest {}",
        slow.count,
        go(slow.p50),
        go(slow.max)
    ));
    Some(found)
}

/// Connections that wait to be accepted.
fn queue(facts: &NodeFacts) -> Option<String> {
    let path = facts.probes.endpoint.strip_prefix("unix://")?;
    let queue = facts.host.sockets.value()?.listener_at(path)?;
    (queue.waiting > 0).then(|| {
        format!(
            "{} connections to {path} wait to be accepted; the queue is limited to {}",
            queue.waiting, queue.backlog
        )
    })
}

fn name(probes: &ProbeFacts) -> &str {
    let runtime = probes.runtime.as_ref();
    runtime.map_or("the runtime", |runtime| &runtime.name)
}

fn finding(facts: &NodeFacts, confidence: Confidence, sentence: String) -> Finding {
    let mut finding = Finding::new(Cause::RuntimeUnresponsive, confidence);
    finding.sentence = sentence;
    finding.evidence.extend(stacks(&facts.probes));
    if let Some(listener) = facts.runtime_process() {
        finding.culprit = culprit(listener);
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::process::CgroupPath;
    use crate::facts::host::{FrozenCgroup, Listener, UnixSockets};
    use crate::node::{found, node};
    use causes::finding::Verdict;

    fn refused_by(cause: NoConnection) -> Opinion {
        let facts = node("containerd", "1.7.24").refused(cause);
        judge(&facts.facts())
    }

    #[test]
    fn a_socket_that_nobody_listens_on_is_told_from_one_that_is_not_there() {
        let gone = found(refused_by(NoConnection::Refused));
        assert!(gone[0].sentence.contains("is gone"), "{}", gone[0].sentence);
        let absent = found(refused_by(NoConnection::NoSocket));
        assert!(absent[0].sentence.contains("no container runtime"));
        let full = found(refused_by(NoConnection::QueueFull));
        assert!(full[0].sentence.contains("accept queue is full"));
    }

    #[test]
    fn a_runtime_whose_every_status_takes_seconds_is_not_called_well() {
        let slow = node("containerd", "1.7.24").answered(Rpc::ContainerStatus, 20, 4.8);
        let findings = found(judge(&slow.facts()));
        assert_eq!(findings[0].verdict, Verdict::Suspect);
        let said = "containerd is slow: ContainerStatus takes 4.8s";
        assert_eq!(findings[0].sentence, said);
        let quick = node("containerd", "1.7.24").answered(Rpc::ContainerStatus, 20, 0.8);
        assert_eq!(judge(&quick.facts()), Opinion::Clear);
    }

    #[test]
    fn a_runtime_that_answers_all_but_version_is_not_called_silent() {
        let facts = node("containerd", "1.7.24").call(Rpc::Version, Outcome::Hung, 6.0);
        let others = facts.call(Rpc::ListPodSandbox, Outcome::Ok, 0.002);
        let mut facts = others.facts();
        for (besides, said) in [
            (OtherCalls::Answered, "answers other calls, but not Version"),
            (
                OtherCalls::Unknown,
                "whether it answers other calls now was not seen",
            ),
            (OtherCalls::Hang, "does not answer any call"),
        ] {
            facts.probes.besides_version = besides;
            let sentence = &found(judge(&facts))[0].sentence;
            assert!(sentence.contains(said), "{sentence}");
            assert_eq!(
                facts.probes.may_be_silent(),
                besides != OtherCalls::Answered
            );
        }
    }

    #[test]
    fn a_socket_that_we_may_not_open_says_nothing_of_the_runtime() {
        let Opinion::CannotTell(why) = refused_by(NoConnection::Forbidden) else {
            panic!("it cannot be told");
        };
        assert!(why.contains("root"), "{why}");
    }

    #[test]
    fn a_stopped_runtime_is_named_with_its_process() {
        let facts = node("containerd", "1.7.24")
            .call(Rpc::Version, Outcome::Hung, 2.0)
            .listener(812, "containerd", 'T');
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].confidence, Confidence::Certain);
        assert!(findings[0].sentence.contains("containerd (812) is stopped"));
        assert!(findings[0].advice[0].contains("kill -CONT 812"));
    }

    #[test]
    fn a_runtime_that_was_stopped_after_it_had_answered_is_not_called_well() {
        let facts = node("containerd", "1.7.24").listener(812, "containerd", 'T');
        let findings = found(judge(&facts.facts()));
        assert!(
            findings[0]
                .sentence
                .contains("containerd (812) has been stopped")
        );
        assert!(findings[0].advice[0].contains("kill -CONT 812"));
    }

    #[test]
    fn a_runtime_whose_control_group_is_frozen_is_to_be_thawed() {
        let mut facts = node("containerd", "1.7.24")
            .call(Rpc::Version, Outcome::Hung, 2.0)
            .listener(812, "containerd", 'D')
            .facts();
        let mut processes = facts.host.all_processes().to_vec();
        for process in &mut processes {
            process.cgroups = vec![CgroupPath {
                controllers: "freezer".to_owned(),
                path: "/system.slice/containerd.service".to_owned(),
            }];
        }
        facts.host.processes = Fact::known(processes, "/proc");
        let group = |path: &str| FrozenCgroup {
            path: path.to_owned(),
            file: format!("/sys/fs/cgroup/freezer{path}/freezer.state"),
            state: "FROZEN".to_owned(),
            thaw: "THAWED".to_owned(),
        };
        facts.host.cgroups.frozen = Fact::known(vec![group("/system.slice")], "freezer");
        let findings = found(judge(&facts));
        assert!(findings[0].sentence.contains("containerd (812) is frozen"));
        let thaw = "echo THAWED > /sys/fs/cgroup/freezer/system.slice/freezer.state";
        assert!(findings[0].advice[0].contains(thaw), "{findings:?}");
        facts.host.cgroups.frozen = Fact::known(vec![group("/kubepods/pod1")], "freezer");
        facts.probes.besides_version = OtherCalls::Hang;
        let other = &found(judge(&facts))[0];
        assert!(other.sentence.contains("does not answer any call"));
    }

    #[test]
    fn a_runtime_for_which_systemd_listens_is_named_itself() {
        let mut facts = node("cri-dockerd", "0.3.4")
            .call(Rpc::Version, Outcome::Hung, 2.0)
            .process(900, 1, "cri-dockerd")
            .listener(1, "systemd", 'S')
            .facts();
        let socket = |held_by| UnixSockets {
            listeners: vec![Listener {
                path: "/run/runtime.sock".to_owned(),
                held_by,
                ..Listener::default()
            }],
            ..UnixSockets::default()
        };
        facts.host.sockets = Fact::known(socket(Some(900)), "sock_diag(7)");
        assert_eq!(found(judge(&facts))[0].culprit.pid, Some(900));
        // Where it has not been started yet, or is not visible, nobody is.
        facts.host.sockets = Fact::known(socket(Some(1)), "sock_diag(7)");
        assert_eq!(found(judge(&facts))[0].culprit.pid, None);
    }

    #[test]
    fn the_connections_that_nobody_accepts_are_counted() {
        let mut facts = node("containerd", "1.7.24")
            .refused(NoConnection::QueueFull)
            .facts();
        facts.probes.endpoint = "unix:///var/run/containerd/containerd.sock".to_owned();
        let sockets = UnixSockets {
            listeners: vec![Listener {
                path: "/run/containerd/containerd.sock".to_owned(),
                waiting: 129,
                backlog: 128,
                held_by: None,
            }],
            ..UnixSockets::default()
        };
        facts.host.sockets = Fact::known(sockets, "sock_diag(7)");
        let evidence = found(judge(&facts))[0].evidence.join("\n");
        assert!(evidence.contains("129 connections"), "{evidence}");
    }

    #[test]
    fn one_list_that_hangs_is_not_this_and_two_are() {
        let one = node("containerd", "1.7.24").call(Rpc::ListContainers, Outcome::Hung, 2.0);
        assert_eq!(judge(&one.facts()), Opinion::Clear);
        let two = node("containerd", "1.7.24")
            .call(Rpc::ListContainers, Outcome::Hung, 2.0)
            .call(Rpc::ListPodSandbox, Outcome::Hung, 2.0);
        assert_eq!(found(judge(&two.facts()))[0].verdict, Verdict::Problem);
    }

    #[test]
    fn no_call_for_the_node_hangs_without_a_word() {
        for call in [Rpc::ListPodSandbox, Rpc::ListContainers, Rpc::Status] {
            let facts = node("cri-o", "1.29.1").call(call, Outcome::Hung, 2.0);
            let findings = found(judge(&facts.facts()));
            assert!(findings[0].sentence.contains(call.name()), "{call:?}");
        }
    }

    #[test]
    fn a_runtime_that_says_that_it_is_not_ready_is_believed() {
        let facts = node("containerd", "1.7.24").unmet("RuntimeReady", "disk is gone");
        let findings = found(judge(&facts.facts()));
        assert!(findings[0].sentence.contains("disk is gone"));
    }

    #[test]
    fn a_node_that_answers_is_clear() {
        assert_eq!(judge(&node("containerd", "1.7.24").facts()), Opinion::Clear);
    }
}
