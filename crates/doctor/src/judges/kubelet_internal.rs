//! The runtime answers, but the kubelet's own loop makes no progress.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use cri::Rpc;

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::NOT_PROBED;
use crate::evidence::phrases::{duration, with_state};
use crate::evidence::remedy::resume_daemon;
use crate::evidence::{culprit, kubelet};
use crate::facts::host::{ApiServer, Lease, Process};
use crate::facts::probes::Outcome;
use crate::facts::{Fact, NodeFacts};
use crate::limits::{LEASE_OVERDUE_SECONDS, SLOW_CALL_SECONDS};

/// The HTTP status of a lease that does not exist.
const NOT_FOUND: u16 = 404;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    if let Some(found) = stopped(facts) {
        return Opinion::Found(vec![found]);
    }
    match (sync_loop(facts), reporting(facts)) {
        (Opinion::Found(found), _) => Opinion::Found(found),
        (_, Some(found)) => Opinion::Found(vec![found]),
        (other, None) => other,
    }
}

/// A kubelet that is stopped, unless another one answers at its address.
fn stopped(facts: &NodeFacts) -> Option<Finding> {
    let health = &facts.probes.kubelet;
    let mut processes = facts.host.all_processes().iter();
    let stopped = processes.find(|process| process.is_kubelet() && process.is_stopped())?;
    let confidence = match health {
        Fact::Known { value, .. } if value.code.is_some() => return None,
        Fact::Known { .. } => Confidence::Certain,
        Fact::Missing { .. } => Confidence::High,
    };
    let mut evidence = vec![with_state(stopped)];
    if let Fact::Known { value, source } = health {
        evidence.push(format!("{source} {}", value.says()));
    }
    Some(Finding {
        sentence: format!("{} is stopped", stopped.label()),
        culprit: culprit::of_process(stopped),
        evidence,
        // Neither its goroutines nor its version is the cause, so other advice and fixes are left out.
        advice: vec![resume_daemon(stopped).into()],
        fixed_in: Vec::new(),
        ..Finding::new(Cause::KubeletInternal, confidence)
    })
}

/// A kubelet that has run for a while, and does not renew its lease although the API server answers.
fn reporting(facts: &NodeFacts) -> Option<Finding> {
    let host = &facts.host;
    let kubelet = kubelet(host)?;
    let server = host.api_server.value()?;
    if kubelet.age_seconds < LEASE_OVERDUE_SECONDS as f64 {
        return None;
    }
    match server.lease.value()? {
        Lease::Renewed { seconds_ago } if *seconds_ago >= LEASE_OVERDUE_SECONDS => {
            Some(lease_overdue(facts, kubelet, server, *seconds_ago))
        }
        Lease::Other(NOT_FOUND) => Some(unregistered(facts, kubelet, server)),
        _ => None,
    }
}

/// A finding about a kubelet whose node does not exist. A kubelet creates a missing lease again, but only
/// if its node exists, and it creates the node only when it starts (`tryRegisterWithAPIServer`, and
/// `ensureLease` of `component-helpers`, Kubernetes 1.36).
fn unregistered(facts: &NodeFacts, kubelet: &Process, server: &ApiServer) -> Finding {
    let certificate = facts.host.client_certificate.value();
    let node = certificate.and_then(|certificate| certificate.node.as_deref());
    let node = node.unwrap_or("NODE");
    let restart = match kubelet.service() {
        Some(unit) => format!("`systemctl restart {unit}`"),
        None => "a restart of the kubelet".to_owned(),
    };
    Finding {
        sentence: format!(
            "{} runs, but the API server has no lease of node {node}: the node was deleted there, or \
             was never registered",
            kubelet.label()
        ),
        culprit: culprit::of_process(kubelet),
        evidence: vec![format!(
            "the API server at {} answered 404 for the lease of node {node} in the namespace \
             kube-node-lease",
            server.address
        )],
        // Neither its goroutines nor its version is the cause, so other advice and fixes are left out.
        advice: vec![
            format!(
                "run `kubectl get node {node}`: if it is not found, {restart} creates it, because a \
                 kubelet registers its node only when it starts"
            )
            .into(),
            "find out what has deleted the node: a cloud controller or an autoscaler does so when it \
             believes that the machine is gone"
                .into(),
        ],
        fixed_in: Vec::new(),
        ..Finding::new(Cause::KubeletInternal, Confidence::Medium)
    }
}

/// A kubelet that does not renew its lease. Its clock may have been set, so this is only a suspicion.
fn lease_overdue(
    facts: &NodeFacts,
    kubelet: &Process,
    server: &ApiServer,
    seconds_ago: u64,
) -> Finding {
    let for_long = duration(seconds_ago as f64);
    let mut evidence = vec![format!(
        "the API server at {} shows that the lease of this node was renewed {for_long} ago; a \
         kubelet renews it every 10 s",
        server.address
    )];
    let wrote = facts.host.logs.value().map(|logs| logs.kubelet_wrote);
    let logs_nothing = match wrote {
        Some(Some(wrote)) => {
            let ago = facts.taken.since(wrote).as_secs();
            let line = format!("its last log line was written {} ago", duration(ago as f64));
            evidence.push(line);
            ago >= LEASE_OVERDUE_SECONDS
        }
        Some(None) => {
            evidence.push("no line of it is in the logs that were read".to_owned());
            true
        }
        None => false,
    };
    let and_logs = match logs_nothing {
        true => " and logs nothing",
        false => "",
    };
    let culprit = culprit::of_process(kubelet);
    let mut found = finding(
        Cause::KubeletInternal,
        Confidence::Medium,
        culprit,
        evidence,
    );
    found.sentence = format!(
        "{} runs, but has not renewed its lease for {for_long}{and_logs}",
        kubelet.label()
    );
    found.advising(abort(kubelet.pid))
}

fn abort(pid: u32) -> String {
    format!(
        "run `kill -ABRT {pid}`: the kubelet writes its goroutines to its log and exits, and \
         systemd restarts it"
    )
}

/// The symptom: all calls of the doctor are quick, but `/healthz` reports that the sync loop fails, or does
/// not respond.
fn sync_loop(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    if probes.outcome(Rpc::ListContainers).is_none() {
        return Opinion::unknown(NOT_PROBED);
    }
    let health = match &probes.kubelet {
        Fact::Known { value, .. } => value,
        Fact::Missing { why, source } => {
            return Opinion::Unknown(format!("no kubelet answers at {source}: {why}"));
        }
    };
    let syncloop = health.failed.iter().any(|check| check == "syncloop");
    let is_overdue = health.code.is_none();
    let slowest = probes.costs.iter().map(|cost| cost.max).fold(0.0, f64::max);
    // An agent reports no single calls, but the duration of its last relist.
    let relist = probes.agent.as_ref().map(|agent| agent.relist_seconds);
    let slowest = relist.map_or(slowest, |relist| relist.unwrap_or(f64::MAX));
    let quick = !probes.any_hung()
        && probes.outcome(Rpc::ListContainers) == Some(Outcome::Ok)
        && probes.outcome(Rpc::ListPodSandbox) == Some(Outcome::Ok)
        && slowest < SLOW_CALL_SECONDS;
    if !quick || !(syncloop || is_overdue) {
        return Opinion::Clear;
    }
    let (confidence, what) = match syncloop {
        true => (
            Confidence::High,
            "the kubelet's sync loop makes no progress",
        ),
        false => (Confidence::Medium, "the kubelet does not respond"),
    };
    let mut finding = Finding::new(Cause::KubeletInternal, confidence);
    finding.sentence = format!("the runtime answers every call at once, but {what}");
    finding.culprit = Culprit {
        process: Some("kubelet".to_owned()),
        ..kubelet(&facts.host)
            .map(culprit::of_process)
            .unwrap_or_default()
    };
    if let Some(pid) = finding.culprit.pid {
        finding.advise_first(abort(pid));
    }
    let says = format!("{} {}", probes.kubelet.source(), health.says());
    finding.evidence.push(says);
    let calls: usize = probes.costs.iter().map(|cost| cost.count).sum();
    let slowest = duration(slowest);
    finding.evidence.push(match relist {
        Some(_) => format!("the last relist of the agent on this node took {slowest}"),
        None => {
            format!("the runtime answered {calls} calls of the doctor, the slowest in {slowest}")
        }
    });
    Opinion::Found(vec![finding])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pleg::model::wall_time::WallTime;

    use super::*;
    use crate::facts::host::{ApiAnswer, ClientCertificate};
    use crate::facts::kubelet::KubeletHealth;
    use crate::facts::logs::LogFacts;
    use crate::node::{found, node};

    #[test]
    fn a_sync_loop_without_progress_is_the_fault_of_the_kubelet_if_the_runtime_is_quick() {
        let facts = node("containerd", "1.7.24").kubelet(500, &["syncloop"]);
        let findings = found(judge(&facts.facts()));
        assert_eq!(findings[0].confidence, Confidence::High);
    }

    #[test]
    fn a_stopped_kubelet_is_resumed_and_not_aborted() {
        let mut facts = node("containerd", "1.7.24")
            .process(500, 1, "kubelet")
            .in_state(500, 'T')
            .call(Rpc::ListContainers, Outcome::Hung, 2.0)
            .facts();
        facts.probes.kubelet = Fact::known(KubeletHealth::default(), "healthz");
        let finding = &found(judge(&facts))[0];
        assert_eq!(finding.confidence, Confidence::Certain);
        assert_eq!(finding.sentence, "kubelet (500) is stopped");
        let advice = finding.advice.join("\n");
        assert!(advice.starts_with("run `kill -CONT 500`"), "{advice}");
        assert!(
            !advice.contains("ABRT") && !advice.contains("restart"),
            "{advice}"
        );
        // The kubelet at that address answers, so the stopped one is another kubelet.
        let other = node("containerd", "1.7.24")
            .process(500, 1, "kubelet")
            .in_state(500, 'T')
            .kubelet(200, &[]);
        assert_eq!(judge(&other.facts()), Opinion::Clear);
    }

    #[test]
    fn a_stopped_program_that_contains_a_kubelet_is_found_without_healthz_and_without_a_runtime() {
        let k3s = node("containerd", "1.7.24")
            .process(500, 1, "k3s-agent")
            .in_state(500, 'T');
        let finding = &found(judge(&k3s.unasked().facts()))[0];
        assert_eq!(finding.confidence, Confidence::High);
        assert_eq!(finding.sentence, "k3s-agent (500) is stopped");
    }

    /// A kubelet of this age, which renewed its lease `renewed` seconds ago and wrote its last log line
    /// `wrote` seconds ago.
    fn reporting(age: f64, renewed: u64, wrote: Option<u64>) -> NodeFacts {
        let mut facts = node("containerd", "1.7.24")
            .kubelet(200, &[])
            .process(500, 1, "kubelet")
            .aged(500, age)
            .facts();
        facts.taken = WallTime::now();
        let ago = |seconds| facts.taken.before(Duration::from_secs(seconds));
        let logs = LogFacts {
            kubelet_wrote: wrote.map(ago),
            ..LogFacts::default()
        };
        facts.host.logs = Fact::known(logs, "the journal");
        let server = ApiServer {
            address: "https://10.0.0.1:6443".to_owned(),
            answer: ApiAnswer::Answered,
            clock: None,
            lease: Fact::known(
                Lease::Renewed {
                    seconds_ago: renewed,
                },
                "lease",
            ),
        };
        facts.host.api_server = Fact::known(server, "lease");
        facts
    }

    #[test]
    fn a_kubelet_that_neither_renews_its_lease_nor_logs_anything_is_suspected() {
        let finding = &found(judge(&reporting(5000.0, 340, Some(360))))[0];
        assert_eq!(finding.confidence, Confidence::Medium);
        assert_eq!(
            finding.sentence,
            "kubelet (500) runs, but has not renewed its lease for 5m40s and logs nothing"
        );
        assert_eq!(
            finding.evidence[1],
            "its last log line was written 6m0s ago"
        );
        assert!(finding.advice[0].starts_with("run `kill -ABRT 500`"));
        let logs = &found(judge(&reporting(5000.0, 340, Some(2))))[0];
        assert!(logs.sentence.ends_with("for 5m40s"), "{}", logs.sentence);
    }

    #[test]
    fn a_kubelet_that_renews_its_lease_or_was_just_started_is_not_reported() {
        // A healthy kubelet may log nothing for a long time.
        for (age, renewed, wrote) in [(5000.0, 12, None), (20.0, 340, None)] {
            let opinion = judge(&reporting(age, renewed, wrote));
            assert_eq!(opinion, Opinion::Clear, "{age} {renewed}");
        }
    }

    #[test]
    fn a_kubelet_whose_lease_does_not_exist_is_reported_as_not_registered() {
        let without_lease = |age| {
            let mut facts = reporting(age, 4, None);
            let certificate = ClientCertificate {
                not_before: facts.taken,
                not_after: facts.taken,
                node: Some("worker-1".to_owned()),
            };
            facts.host.client_certificate = Fact::known(certificate, "certificate");
            if let Fact::Known { value, .. } = &mut facts.host.api_server {
                value.lease = Fact::known(Lease::Other(404), "lease");
            }
            judge(&facts)
        };
        let finding = &found(without_lease(5000.0))[0];
        assert_eq!(finding.confidence, Confidence::Medium);
        assert!(
            finding.sentence.contains("has no lease of node worker-1"),
            "{}",
            finding.sentence
        );
        assert!(finding.advice[0].starts_with("run `kubectl get node worker-1`"));
        // A kubelet that has just been started registers its node.
        assert_eq!(without_lease(20.0), Opinion::Clear);
    }

    #[test]
    fn a_kubelet_that_is_healthy_or_waits_for_a_runtime_is_not_at_fault() {
        let healthy = node("containerd", "1.7.24").kubelet(200, &[]);
        assert_eq!(judge(&healthy.facts()), Opinion::Clear);
        let waits = node("containerd", "1.7.24")
            .kubelet(500, &["syncloop"])
            .call(Rpc::ListContainers, Outcome::Hung, 2.0);
        assert_eq!(judge(&waits.facts()), Opinion::Clear);
        let none = judge(&node("containerd", "1.7.24").facts());
        assert!(matches!(none, Opinion::Unknown(_)));
    }
}
