//! The runtime as a whole does not respond: it is stopped, has ended, accepts no connection, or
//! answers no call.

use std::borrow::Cow;

use causes::Cause;
use causes::finding::{Confidence, Finding};
use pleg::out::words::counted;
use pleg::runtime::{CallError, NoConnection, Rpc, Unreachable};

use super::Opinion;
use crate::evidence::culprit;
use crate::evidence::lack::NOT_PROBED;
use crate::evidence::phrases::{MAX_EXAMPLES, name_of_call, stacks, with_state};
use crate::evidence::remedy::resume_daemon;
use crate::evidence::runc::restart;
use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::probes::{End, OtherCalls, Probe};

mod behind;
mod failing;
mod lists;
mod starting;
mod version_hangs;

use lists::lists;
use starting::starting;
use version_hangs::{all_but_version, is_kept_from_running, no_call_answered, perhaps_all};

/// The symptom: `Version`, which takes no lock, is not answered.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    if let Some(finding) = behind::judge(facts) {
        return Opinion::Found(vec![with_unit(facts, finding)]);
    }
    let Some(version) = probes.node(Rpc::Version) else {
        return unasked(facts);
    };
    let findings = match &version.end {
        End::Failed(CallError::Unavailable(why)) => match refused(facts, version, why) {
            Ok(finding) => vec![finding],
            Err(why) => return Opinion::Unknown(why),
        },
        End::Failed(error) => vec![version_fails(facts, error)],
        End::Hung => vec![match probes.while_version_hangs() {
            Some(OtherCalls::Answered) => all_but_version(facts, version),
            Some(OtherCalls::Unknown) if !is_kept_from_running(facts) => {
                perhaps_all(facts, version)
            }
            _ => no_call_answered(facts, version),
        }],
        End::Answered => {
            // Only state T counts: a debugger (state t) stops the runtime for a moment, again and again.
            let runtime = facts.runtime_process();
            let stopped = runtime.filter(|process| process.state == 'T');
            let stopped = stopped.map(|process| stopped_since(facts, process));
            stopped.into_iter().chain(lists(facts)).collect()
        }
    };
    let findings = findings.into_iter();
    Opinion::of(findings.map(|finding| with_unit(facts, finding)), [])
}

/// The runtime answered `Version`, and was stopped afterwards.
fn stopped_since(facts: &NodeFacts, process: &Process) -> Finding {
    let label = process.label();
    let sentence = format!("the container runtime {label} has been stopped since it was called");
    let answered = "it answered Version at first".to_owned();
    let evidence = [answered, with_state(process)];
    finding(facts, Confidence::High, sentence, evidence).advising(resume_daemon(process))
}

/// Adds advice about the systemd unit of the runtime.
fn with_unit(facts: &NodeFacts, mut finding: Finding) -> Finding {
    let Some(unit) = &finding.culprit.unit else {
        return finding;
    };
    // Advice for this node, such as how to resume the process, stays first.
    let at = usize::from(matches!(finding.advice.first(), Some(Cow::Owned(_))));
    let restart = restart(facts, &format!("run `systemctl restart {unit}`"));
    let advice = format!("read its log with `journalctl -u {unit} -n 100`; {restart}");
    finding.advice.insert(at, advice.into());
    finding
}

fn unasked(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    let (found, why) = match (&probes.agent, probes.endpoint.is_empty()) {
        // The agent may report that both lists hang.
        (Some(_), _) => (
            lists(facts),
            "the runtime has not answered the agent on this node yet",
        ),
        (None, true) => (
            Vec::new(),
            "no container runtime was found; set its socket with --runtime-endpoint",
        ),
        (None, false) => (Vec::new(), NOT_PROBED),
    };
    Opinion::of(found, [Some(why.to_owned())])
}

/// There is no connection to the runtime; `Err` if only root can open its socket.
fn refused(facts: &NodeFacts, version: &Probe, why: &Unreachable) -> Result<Finding, String> {
    let at = &facts.probes.endpoint;
    let (confidence, sentence) = match why.cause {
        NoConnection::Forbidden => return Err(format!("only root can open {at}: {why}")),
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
    let starts = starting(facts, why.cause);
    let mut finding = starts.unwrap_or_else(|| finding(facts, confidence, sentence, []));
    finding.evidence.push(format!(
        "a connection to {at} failed{}: {why}",
        version.source()
    ));
    let lost = facts.probes.went_away.calls().iter().take(MAX_EXAMPLES);
    let lost = lost.map(|probe| {
        let call = name_of_call(probe);
        format!("it went away while {call} was outstanding")
    });
    finding.evidence.extend(lost.chain(queue(facts)));
    Ok(finding)
}

fn version_fails(facts: &NodeFacts, why: &CallError) -> Finding {
    let at = &facts.probes.endpoint;
    let sentence = match why {
        CallError::Unimplemented(_) | CallError::Malformed(_) => {
            format!("the service at {at} does not implement CRI correctly")
        }
        _ => format!("the service at {at} fails Version"),
    };
    let failed = format!("Version failed: {why}");
    finding(facts, Confidence::High, sentence, [failed])
}

/// Connections that wait to be accepted.
fn queue(facts: &NodeFacts) -> Option<String> {
    let path = facts.probes.endpoint.strip_prefix("unix://")?;
    let queue = facts.host.sockets.value()?.listener_at(path)?;
    let waiting = counted(queue.waiting as usize, "connection");
    let limit = queue.backlog;
    let says = format!("not accepted yet: {waiting} to {path}; the queue is limited to {limit}");
    (queue.waiting > 0).then_some(says)
}

/// A finding about the runtime's process, with its goroutines as the first evidence if they are known.
fn finding(
    facts: &NodeFacts,
    confidence: Confidence,
    sentence: String,
    evidence: impl IntoIterator<Item = String>,
) -> Finding {
    let culprit = facts.runtime_process().map(culprit::of_process);
    Finding {
        sentence,
        culprit: culprit.unwrap_or_default(),
        evidence: stacks(&facts.probes).into_iter().chain(evidence).collect(),
        ..Finding::new(Cause::RuntimeUnresponsive, confidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::process::CgroupPath;
    use crate::facts::host::{FrozenCgroup, Listener, UnixSockets};
    use crate::facts::probes::Outcome;
    use crate::node::{found, node};
    use causes::finding::Verdict;

    fn refused_by(cause: NoConnection) -> Opinion {
        let facts = node("containerd", "1.7.24").refused(cause);
        judge(&facts.facts())
    }

    #[test]
    fn a_socket_without_a_listener_differs_from_one_that_is_not_there() {
        let gone = found(refused_by(NoConnection::Refused));
        assert!(gone[0].sentence.contains("is gone"), "{}", gone[0].sentence);
        let absent = found(refused_by(NoConnection::NoSocket));
        assert!(absent[0].sentence.contains("no container runtime"));
        let full = found(refused_by(NoConnection::QueueFull));
        assert!(full[0].sentence.contains("accept queue is full"));
    }

    #[test]
    fn a_runtime_that_answers_all_but_version_is_not_called_unresponsive() {
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
                facts.probes.may_be_unresponsive(),
                besides != OtherCalls::Answered
            );
        }
    }

    #[test]
    fn a_socket_that_only_root_can_open_is_no_evidence_about_the_runtime() {
        let Opinion::Unknown(why) = refused_by(NoConnection::Forbidden) else {
            panic!("it cannot be judged");
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
    fn a_runtime_that_was_stopped_after_it_had_answered_is_a_finding() {
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
    fn the_runtime_is_named_and_not_systemd_that_listens_for_it() {
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
        // Where it has not been started yet, or is not visible, there is no culprit.
        facts.host.sockets = Fact::known(socket(Some(1)), "sock_diag(7)");
        assert_eq!(found(judge(&facts))[0].culprit.pid, None);
    }

    #[test]
    fn connections_that_are_not_accepted_are_counted() {
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
    fn one_list_that_hangs_is_no_finding_and_two_are() {
        let one = node("containerd", "1.7.24").call(Rpc::ListContainers, Outcome::Hung, 2.0);
        assert_eq!(judge(&one.facts()), Opinion::Clear);
        let two = node("containerd", "1.7.24")
            .call(Rpc::ListContainers, Outcome::Hung, 2.0)
            .call(Rpc::ListPodSandbox, Outcome::Hung, 2.0);
        assert_eq!(found(judge(&two.facts()))[0].verdict, Verdict::Problem);
    }

    #[test]
    fn each_call_for_the_node_that_hangs_is_reported() {
        for call in [Rpc::ListPodSandbox, Rpc::ListContainers, Rpc::Status] {
            let facts = node("cri-o", "1.29.1").call(call, Outcome::Hung, 2.0);
            let findings = found(judge(&facts.facts()));
            assert!(findings[0].sentence.contains(call.name()), "{call:?}");
        }
    }

    #[test]
    fn a_runtime_that_reports_that_it_is_not_ready_is_a_finding() {
        let facts = node("containerd", "1.7.24").unmet("RuntimeReady", "disk is gone");
        let findings = found(judge(&facts.facts()));
        assert!(findings[0].sentence.contains("disk is gone"));
    }

    #[test]
    fn a_node_that_answers_is_clear() {
        assert_eq!(judge(&node("containerd", "1.7.24").facts()), Opinion::Clear);
    }
}
