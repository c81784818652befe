//! Restarting the kubelet because the node is NotReady resets its timer for three minutes and
//! fixes nothing. The same applies to a runtime that is restarted again and again.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::owner::culprit;
use crate::evidence::who::go;
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Process, Service};

/// systemd's own limit for starts in quick succession (DefaultStartLimitBurst).
const MIN_RESTARTS: u32 = 5;
/// No round of a loop takes longer: PLEG is unhealthy 3 minutes after the start, `/healthz` fails 5
/// minutes later, the repair cools down for one minute, and a stop may take 90 s.
const MAX_ROUND_SECONDS: f64 = 720.0;
/// A service that has run for this many average rounds has left the loop.
const ROUNDS_TO_RECOVER: f64 = 3.0;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let known = &host.bus.services;
    let services = known.value().map_or(&[][..], Vec::as_slice);
    let nobody = known.value().filter(|services| services.is_empty());
    let nobody = nobody.map(|_| "systemd manages neither a kubelet nor a runtime here".to_owned());
    let uncounted = services.iter().find(|service| service.restarts.is_none());
    let uncounted = uncounted.map(|service| {
        let unit = &service.unit;
        format!(
            "systemd did not report how often it has restarted {unit}; versions before 235 do \
                 not count restarts"
        )
    });
    let found = services.iter().filter_map(|service| again(host, service));
    let missing = [lack(known), nobody, uncounted, lack_of_processes(host)];
    Opinion::of(found, missing)
}

/// What a service does at this moment.
enum Now<'a> {
    /// It has run for so long.
    Runs(&'a Process),
    /// It was started after the processes were read.
    Started(u32),
    /// It has exited, and waits for its restart.
    Waits,
}

impl<'a> Now<'a> {
    fn of(host: &'a HostFacts, service: &Service) -> Option<Self> {
        match (service.main_pid, service.state.as_str()) {
            (_, "auto-restart" | "auto-restart-queued" | "start-pre") => Some(Self::Waits),
            (Some(pid), _) => match host.process(pid) {
                Some(process) => Some(Self::Runs(process)),
                // PIDs are comparable only if that systemd is process 1 here.
                None => (host.process(1)?.comm == "systemd" && host.shows_all_processes())
                    .then_some(Self::Started(pid)),
            },
            // Stopped, or systemd has given up.
            (None, _) => None,
        }
    }

    fn seconds(&self) -> f64 {
        match self {
            Self::Runs(process) => process.age_seconds,
            Self::Started(_) | Self::Waits => 0.0,
        }
    }

    fn says(&self, unit: &str) -> String {
        match self {
            Self::Runs(process) => {
                let age = go(process.age_seconds.floor());
                format!(
                    "its main process, {}, has been running for {age}",
                    process.label()
                )
            }
            Self::Started(pid) => format!(
                "its main process {pid} was started after the processes \
                                           were read"
            ),
            Self::Waits => format!("{unit} has exited and waits for its restart"),
        }
    }
}

fn again(host: &HostFacts, service: &Service) -> Option<Finding> {
    let unit = &service.unit;
    let restarts = service
        .restarts
        .filter(|restarts| *restarts >= MIN_RESTARTS)?;
    let now = Now::of(host, service)?;
    let lasts = now.seconds();
    // An upper bound: the restarts may have begun long after the machine started.
    let round = host
        .uptime_seconds
        .value()
        .map(|up| (up - lasts).max(0.0) / f64::from(restarts));
    if lasts > MAX_ROUND_SECONDS || round.is_some_and(|round| lasts > ROUNDS_TO_RECOVER * round) {
        return None;
    }
    let mut evidence = vec![
        format!("NRestarts of {unit} is {restarts}; it counts restarts by systemd itself"),
        now.says(unit),
    ];
    let round = round.filter(|round| *round <= MAX_ROUND_SECONDS);
    let confidence = match round {
        Some(round) => {
            let round = go(round.ceil());
            evidence.push(format!(
                "that is at least one every {round} since the machine started"
            ));
            Confidence::High
        }
        // Some of the restarts may be old.
        None => Confidence::Medium,
    };
    let who = match &now {
        Now::Runs(process) => culprit(process),
        Now::Started(_) | Now::Waits => Culprit::default(),
    };
    let who = Culprit {
        unit: Some(unit.clone()),
        ..who
    };
    let mut found = finding(Cause::RepairLoop, confidence, who, evidence);
    let last = match now {
        Now::Runs(_) => format!("the last time {} ago", go(lasts.floor())),
        Now::Started(_) => "most recently just now".to_owned(),
        Now::Waits => "and is about to restart it again".to_owned(),
    };
    found.sentence = format!(
        "systemd has restarted {unit} {restarts} times, {last}; restarts do not fix this node"
    );
    found.advise_first(format!(
        "fix whatever else is found on this node, which is the root cause; `journalctl -u {unit}` \
         shows how each run ended: by itself, killed, or by the watchdog"
    ));
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::node::{found, node};

    const DAY: f64 = 86_400.0;

    fn process(pid: u32, comm: &str, age_seconds: f64) -> Process {
        Process {
            pid,
            comm: comm.to_owned(),
            age_seconds,
            ..Process::default()
        }
    }

    /// A node that has been up for so long, whose kubelet is so old.
    fn kubelet(uptime: f64, restarts: Option<u32>, age: f64) -> NodeFacts {
        let mut facts = node("containerd", "1.7.24").facts();
        let processes = vec![process(1, "systemd", uptime), process(600, "kubelet", age)];
        facts.host.uptime_seconds = Fact::known(uptime, "/proc/uptime");
        facts.host.processes = Fact::known(processes, "/proc");
        facts.host.bus.services = Fact::known(
            vec![Service {
                unit: "kubelet.service".to_owned(),
                state: "running".to_owned(),
                main_pid: Some(600),
                restarts,
            }],
            "bus",
        );
        facts
    }

    fn service(facts: &mut NodeFacts) -> &mut Service {
        match &mut facts.host.bus.services {
            Fact::Known { value, .. } => &mut value[0],
            Fact::Missing { .. } => panic!("no service"),
        }
    }

    #[test]
    fn a_kubelet_that_is_repaired_all_day_is_said_not_to_be_cured_by_it() {
        let found = found(judge(&kubelet(DAY, Some(140), 130.0)));
        assert_eq!(found[0].confidence, Confidence::High);
        assert_eq!(
            found[0].said(),
            "systemd has restarted kubelet.service 140 times, the last time 2m10s ago; restarts \
             do not fix this node"
        );
        assert_eq!(found[0].culprit.pid, Some(600));
        assert_eq!(found[0].culprit.unit.as_deref(), Some("kubelet.service"));
        // 86400 - 130 by 140.
        let every = "that is at least one every 10m17s since the machine started";
        assert_eq!(found[0].evidence[2], every);
        assert!(found[0].advice[0].contains("which is the root"));
    }

    #[test]
    fn restarts_that_may_lie_months_apart_are_a_suspicion_while_the_last_is_fresh() {
        let young = found(judge(&kubelet(90.0 * DAY, Some(7), 40.0)));
        assert_eq!(young[0].confidence, Confidence::Medium);
        let old = kubelet(90.0 * DAY, Some(7), MAX_ROUND_SECONDS + 1.0);
        assert_eq!(judge(&old), Opinion::Clear);
    }

    #[test]
    fn a_kubelet_that_was_restarted_now_and_then_is_left_alone() {
        for (restarts, age) in [
            (0, 30.0),
            (2, 30.0),
            (MIN_RESTARTS - 1, 1.0),
            (2, 30.0 * DAY),
        ] {
            let facts = kubelet(90.0 * DAY, Some(restarts), age);
            assert_eq!(judge(&facts), Opinion::Clear, "{restarts} {age}");
        }
    }

    #[test]
    fn a_kubelet_that_waited_for_its_configuration_at_boot_has_come_out_of_it() {
        // Thirty starts, one every ten seconds; then it ran.
        for (age, clear) in [(5.0, false), (40.0, true), (600.0, true)] {
            let facts = kubelet(300.0 + age, Some(30), age);
            assert_eq!(judge(&facts) == Opinion::Clear, clear, "{age}");
        }
    }

    #[test]
    fn a_kubelet_that_is_between_two_starts_or_has_just_begun_is_in_the_loop() {
        let mut waits = kubelet(3600.0, Some(300), 1.0);
        service(&mut waits).main_pid = None;
        service(&mut waits).state = "auto-restart".to_owned();
        let waiting = found(judge(&waits));
        assert!(waiting[0].said().contains("about to restart it again"));
        assert_eq!(waiting[0].culprit.pid, None);

        let mut begins = kubelet(3600.0, Some(300), 1.0);
        service(&mut begins).main_pid = Some(700);
        let began = found(judge(&begins));
        assert!(began[0].evidence[1].contains("was started after"));
        // Of too many processes it may be one that was not read.
        let mut crowded = begins.clone();
        if let Fact::Known { value, .. } = &mut crowded.host.processes {
            value.extend((0..19_000).map(|at| process(1000 + at, "app", 9.0)));
        }
        assert_eq!(judge(&crowded), Opinion::Clear);
        // Another systemd's numbers are not ours.
        if let Fact::Known { value, .. } = &mut begins.host.processes {
            value[0].comm = "tini".to_owned();
        }
        assert_eq!(judge(&begins), Opinion::Clear);
    }

    #[test]
    fn one_that_was_stopped_or_given_up_is_in_no_loop() {
        for state in ["dead", "failed"] {
            let mut facts = kubelet(3600.0, Some(300), 1.0);
            service(&mut facts).main_pid = None;
            service(&mut facts).state = state.to_owned();
            assert_eq!(judge(&facts), Opinion::Clear, "{state}");
        }
    }

    #[test]
    fn where_nobody_counts_it_is_not_called_well() {
        let mut none = kubelet(DAY, Some(0), DAY);
        none.host.bus.services = Fact::known(Vec::new(), "bus");
        let mut unasked = kubelet(DAY, Some(0), DAY);
        unasked.host.bus.services = Fact::missing("silent", "bus");
        let mut unseen = kubelet(DAY, Some(0), DAY);
        unseen.host.processes = Fact::missing("denied", "/proc");
        for facts in [kubelet(DAY, None, 10.0), none, unasked, unseen] {
            let opinion = judge(&facts);
            assert!(matches!(opinion, Opinion::CannotTell(_)), "{opinion:?}");
        }
    }
}
