//! No kubelet runs on a machine that is set up to run one, or it exits soon after each start.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding, headline};
use pleg::out::words::counted;

use super::Opinion;
use super::opinion::advised;
use super::restarts::Restarts;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::{known, kubelet};
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Service};

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    if is_running(facts) {
        return Opinion::of(exits_at_start(host), []);
    }
    if let Some(why) = lack_of_processes(host) {
        return Opinion::Unknown(why);
    }
    if !host.shows_all_processes() {
        return Opinion::unknown("there are too many processes to read all of them");
    }
    // In a container, the node's processes may not be visible.
    let hidden = kubelet_unit(host).and_then(|unit| {
        let pid = unit.main_pid?;
        let unit = &unit.unit;
        Some(format!("process {pid}, which {unit} runs, is not visible"))
    });
    match hidden {
        Some(why) => Opinion::Unknown(why),
        None => Opinion::of(not_running(host), [lack(&host.kubelet_files)]),
    }
}

/// Whether a process has the name of a kubelet, or one of another name answers at the kubelet's address.
fn is_running(facts: &NodeFacts) -> bool {
    kubelet(&facts.host).is_some() || facts.probes.kubelet.value().is_some()
}

fn kubelet_unit(host: &HostFacts) -> Option<&Service> {
    let mut services = known(&host.bus.services).iter();
    services.find(|service| service.is_kubelet())
}

/// A finding about a kubelet that runs now, but only for a few seconds after each start.
fn exits_at_start(host: &HostFacts) -> Option<Finding> {
    let unit = kubelet_unit(host)?;
    let restarts = Restarts::of(host, unit).filter(Restarts::exits_at_start)?;
    let mut found = restarts.found(Cause::KubeletNotRunning);
    found.sentence = headline(&format!("{}: it does not stay up", restarts.says()));
    Some(found.advising(read_last_error(&unit.unit)))
}

fn read_last_error(unit: &str) -> String {
    format!("run `journalctl -u {unit} -n 50`: the last error of the kubelet says why it exits")
}

/// Whether the machine is known not to be set up for a kubelet, and runs none.
pub(crate) fn has_no_kubelet(facts: &NodeFacts) -> bool {
    matches!(judge(facts), Opinion::Clear) && !is_running(facts)
}

fn not_running(host: &HostFacts) -> Option<Finding> {
    let unit = kubelet_unit(host);
    let files = host.kubelet_files.value();
    let files = files.map_or(&[][..], |files| &files.paths);
    // Without a unit, the first file shows that a kubelet belongs here.
    let sentence = match (unit, files.first()) {
        (Some(unit), _) => format!("no kubelet is running: {}", says(unit)),
        (None, Some(path)) => format!("no kubelet is running, although {path} exists"),
        (None, None) => return None,
    };
    let mut evidence = vec!["no process of this machine is a kubelet".to_owned()];
    evidence.extend(unit.map(|unit| format!("systemd reports: {}", says(unit))));
    evidence.extend(files.iter().map(|path| format!("{path} exists")));
    let confidence = match unit {
        Some(_) => Confidence::Certain,
        None => Confidence::High,
    };
    let found = Finding {
        sentence,
        culprit: Culprit {
            process: Some("kubelet".to_owned()),
            unit: unit.map(|unit| unit.unit.clone()),
            ..Culprit::default()
        },
        evidence,
        ..Finding::new(Cause::KubeletNotRunning, confidence)
    };
    Some(advised(found, unit.map(|unit| read_last_error(&unit.unit))))
}

/// The state of the kubelet's unit, as a phrase.
fn says(service: &Service) -> String {
    let unit = &service.unit;
    let restarts = match service.restarts {
        None | Some(0) => String::new(),
        Some(count) => format!(" after {}", counted(count as usize, "restart")),
    };
    match service.state.as_str() {
        "failed" => format!("{unit} has failed{restarts}"),
        "dead" => format!("{unit} is not started"),
        "auto-restart" | "auto-restart-queued" => {
            format!("{unit} has exited, and systemd is about to restart it{restarts}")
        }
        state => format!("{unit} is {state}{restarts}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::{KubeletFiles, Process};
    use crate::node::{found, node};

    fn without_kubelet(paths: &[&str], units: &[(&str, &str, u32)]) -> NodeFacts {
        let mut facts = node("containerd", "1.7.24").facts();
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        facts.host.kubelet_files = Fact::known(KubeletFiles { paths }, "files");
        let units = units.iter().map(|(unit, state, restarts)| Service {
            unit: (*unit).to_owned(),
            state: (*state).to_owned(),
            main_pid: None,
            restarts: Some(*restarts),
        });
        facts.host.bus.services = Fact::known(units.collect(), "bus");
        facts
    }

    #[test]
    fn a_kubelet_whose_unit_failed_is_a_problem_although_the_runtime_responds() {
        let facts = without_kubelet(&[], &[("kubelet.service", "failed", 5)]);
        let found = &found(judge(&facts))[0];
        assert_eq!(found.confidence, Confidence::Certain);
        assert_eq!(
            found.sentence,
            "no kubelet is running: kubelet.service has failed after 5 restarts"
        );
        assert_eq!(found.culprit.unit.as_deref(), Some("kubelet.service"));
        assert!(found.advice[0].contains("journalctl -u kubelet.service"));
    }

    #[test]
    fn a_kubelet_that_exits_at_each_start_is_not_running() {
        let facts = without_kubelet(&[], &[("k3s-agent.service", "auto-restart", 12)]);
        let said = &found(judge(&facts))[0].sentence;
        assert!(
            said.contains("has exited, and systemd is about to restart it"),
            "{said}"
        );
    }

    /// A kubelet of this age, on a machine that has been up for an hour.
    fn running(restarts: u32, age: f64) -> NodeFacts {
        let mut facts = without_kubelet(&[], &[("kubelet.service", "running", restarts)]);
        facts.host.uptime_seconds = Fact::known(3600.0, "/proc/uptime");
        if let Fact::Known { value, .. } = &mut facts.host.processes {
            value.push(Process {
                pid: 600,
                comm: "kubelet".to_owned(),
                age_seconds: age,
                ..Process::default()
            });
        }
        if let Fact::Known { value, .. } = &mut facts.host.bus.services {
            value[0].main_pid = Some(600);
        }
        facts
    }

    #[test]
    fn a_kubelet_that_runs_for_seconds_after_each_start_does_not_stay_up() {
        let found = &found(judge(&running(300, 2.0)))[0];
        assert_eq!(found.confidence, Confidence::High);
        assert_eq!(
            found.sentence,
            "systemd has restarted kubelet.service 300 times, the last time 2s ago: it does not \
             stay up"
        );
        assert!(found.advice[0].contains("journalctl -u kubelet.service"));
        // The kubelet has recovered, or something repairs it every few minutes.
        assert_eq!(judge(&running(300, 60.0)), Opinion::Clear);
        assert_eq!(judge(&running(12, 2.0)), Opinion::Clear);
    }

    #[test]
    fn a_machine_that_is_set_up_for_a_kubelet_and_runs_none_is_a_problem() {
        let facts = without_kubelet(&["/var/lib/kubelet/config.yaml"], &[]);
        let found = &found(judge(&facts))[0];
        assert_eq!(found.confidence, Confidence::High);
        let said = &found.sentence;
        assert!(
            said.ends_with("although /var/lib/kubelet/config.yaml exists"),
            "{said}"
        );
        assert!(!has_no_kubelet(&facts));
    }

    #[test]
    fn a_machine_that_is_not_set_up_for_a_kubelet_is_judged_by_its_runtime() {
        let facts = without_kubelet(&[], &[("containerd.service", "running", 0)]);
        assert_eq!(judge(&facts), Opinion::Clear);
        assert!(has_no_kubelet(&facts));
    }

    #[test]
    fn a_kubelet_that_runs_or_answers_is_running() {
        let mut facts = without_kubelet(
            &["/var/lib/kubelet/config.yaml"],
            &[("kubelet.service", "running", 0)],
        );
        if let Fact::Known { value, .. } = &mut facts.host.processes {
            value.push(Process {
                pid: 500,
                comm: "kubelet".to_owned(),
                ..Process::default()
            });
        }
        assert_eq!(judge(&facts), Opinion::Clear);
        assert!(!has_no_kubelet(&facts));
        let mut other = without_kubelet(&["/var/lib/kubelet/config.yaml"], &[]);
        other.probes.kubelet = Fact::known(Default::default(), "healthz");
        assert_eq!(judge(&other), Opinion::Clear);
    }

    #[test]
    fn in_a_container_it_is_unknown_whether_the_node_runs_a_kubelet() {
        let mut facts = without_kubelet(&[], &[]);
        facts.host.kubelet_files = Fact::missing("the doctor runs in a container", "files");
        assert!(matches!(judge(&facts), Opinion::Unknown(_)));
        assert!(!has_no_kubelet(&facts));
    }
}
