//! Restarting the kubelet because the node is NotReady resets the three minutes after which its PLEG is
//! unhealthy, and fixes nothing.

use causes::Cause;
use causes::finding::Finding;

use super::Opinion;
use super::restarts::{Restarts, opinion};
use crate::evidence::phrases::duration;
use crate::facts::NodeFacts;
use crate::facts::host::Service;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    opinion(&facts.host, Service::is_kubelet, |restarts| {
        // A kubelet that exits by itself is not in a repair loop.
        (!restarts.exits_at_start()).then(|| loops(restarts))
    })
}

fn loops(restarts: &Restarts) -> Finding {
    let unit = &restarts.service.unit;
    let mut found = restarts.found(Cause::RepairLoop);
    found.evidence.extend(restarts.round.map(|round| {
        let round = duration(round.ceil());
        format!("that is at least one every {round} since the machine started")
    }));
    found.sentence = format!("{}, which fixes nothing", restarts.says());
    found.advise_first(format!(
        "fix whatever else is found on this node, which is the root cause; `journalctl -u {unit}` \
         shows how each run ended: by itself, killed, or by the watchdog"
    ));
    found
}

#[cfg(test)]
mod tests {
    use causes::finding::Confidence;

    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::Process;
    use crate::limits::{MAX_ROUND_SECONDS, MIN_RESTARTS};
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

    /// A node that has been up for this long, with a kubelet of this age.
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
    fn restarts_that_repair_a_kubelet_all_day_fix_nothing() {
        let found = found(judge(&kubelet(DAY, Some(140), 130.0)));
        assert_eq!(found[0].confidence, Confidence::High);
        assert_eq!(
            found[0].said(),
            "systemd has restarted kubelet.service 140 times, the last time 2m10s ago, which fixes \
             nothing"
        );
        assert_eq!(found[0].culprit.pid, Some(600));
        assert_eq!(found[0].culprit.unit.as_deref(), Some("kubelet.service"));
        // 86400 - 130 by 140.
        let every = "that is at least one every 10m17s since the machine started";
        assert_eq!(found[0].evidence[2], every);
        assert!(found[0].advice[0].contains("which is the root"));
    }

    #[test]
    fn restarts_that_may_be_months_old_are_a_suspicion_if_the_last_one_is_recent() {
        let young = found(judge(&kubelet(90.0 * DAY, Some(7), 40.0)));
        assert_eq!(young[0].confidence, Confidence::Medium);
        let old = kubelet(90.0 * DAY, Some(7), MAX_ROUND_SECONDS + 1.0);
        assert_eq!(judge(&old), Opinion::Clear);
    }

    #[test]
    fn a_kubelet_with_few_or_old_restarts_is_no_finding() {
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
    fn a_kubelet_that_has_run_for_longer_than_its_rounds_has_left_the_loop() {
        // Ten starts, one every five minutes; then it ran.
        for (age, clear) in [(5.0, false), (600.0, false), (1000.0, true)] {
            let facts = kubelet(3000.0 + age, Some(10), age);
            assert_eq!(judge(&facts) == Opinion::Clear, clear, "{age}");
        }
        // A kubelet that exits at each start is not in a repair loop.
        assert_eq!(judge(&kubelet(3600.0, Some(300), 1.0)), Opinion::Clear);
    }

    #[test]
    fn a_kubelet_that_waits_for_its_restart_or_has_just_started_is_in_the_loop() {
        let mut waits = kubelet(3600.0, Some(10), 1.0);
        service(&mut waits).main_pid = None;
        service(&mut waits).state = "auto-restart".to_owned();
        let waiting = found(judge(&waits));
        assert!(waiting[0].said().contains("about to restart it again"));
        assert_eq!(waiting[0].culprit.pid, None);

        let mut begins = kubelet(3600.0, Some(10), 1.0);
        service(&mut begins).main_pid = Some(700);
        let began = found(judge(&begins));
        assert!(began[0].evidence[1].contains("was started after"));
        // If there are too many processes, the main process may not have been read.
        let mut crowded = begins.clone();
        if let Fact::Known { value, .. } = &mut crowded.host.processes {
            value.extend((0..19_000).map(|at| process(1000 + at, "app", 9.0)));
        }
        assert_eq!(judge(&crowded), Opinion::Clear);
        // The PIDs of another systemd are not comparable.
        if let Fact::Known { value, .. } = &mut begins.host.processes {
            value[0].comm = "tini".to_owned();
        }
        assert_eq!(judge(&begins), Opinion::Clear);
    }

    #[test]
    fn a_kubelet_that_was_stopped_or_given_up_is_in_no_loop() {
        for state in ["dead", "failed"] {
            let mut facts = kubelet(3600.0, Some(10), 1.0);
            service(&mut facts).main_pid = None;
            service(&mut facts).state = state.to_owned();
            assert_eq!(judge(&facts), Opinion::Clear, "{state}");
        }
    }

    #[test]
    fn without_a_count_of_restarts_nothing_is_known() {
        let mut none = kubelet(DAY, Some(0), DAY);
        none.host.bus.services = Fact::known(Vec::new(), "bus");
        let mut unasked = kubelet(DAY, Some(0), DAY);
        unasked.host.bus.services = Fact::missing("no answer", "bus");
        let mut unseen = kubelet(DAY, Some(0), DAY);
        unseen.host.processes = Fact::missing("denied", "/proc");
        for facts in [kubelet(DAY, None, 10.0), none, unasked, unseen] {
            let opinion = judge(&facts);
            assert!(matches!(opinion, Opinion::Unknown(_)), "{opinion:?}");
        }
    }
}
