//! The runtime does not stay up: systemd starts it again and again.

use causes::Cause;

use super::Opinion;
use super::restarts::opinion;
use crate::facts::NodeFacts;
use crate::facts::host::Service;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let is_runtime = |service: &Service| !service.is_kubelet();
    opinion(&facts.host, is_runtime, |restarts| {
        let mut found = restarts.found(Cause::RuntimeRestartLoop);
        found.sentence = restarts.says();
        let unit = &restarts.service.unit;
        found.advise_first(format!(
            "run `journalctl -u {unit} -n 200`: the last error before each start says why it ends"
        ));
        Some(found)
    })
}

#[cfg(test)]
mod tests {
    use causes::finding::Confidence;

    use super::*;
    use crate::facts::Fact;
    use crate::node::{found, node};

    /// A node that has been up for an hour, with a runtime of this age.
    fn containerd(restarts: u32, age: f64) -> NodeFacts {
        let node = node("containerd", "1.7.24").aged(10, age);
        let mut facts = node.facts();
        facts.host.uptime_seconds = Fact::known(3600.0, "/proc/uptime");
        let service = |unit: &str, restarts| Service {
            unit: unit.to_owned(),
            state: "running".to_owned(),
            main_pid: Some(10),
            restarts: Some(restarts),
        };
        let services = vec![
            service("containerd.service", restarts),
            service("kubelet.service", 300),
        ];
        facts.host.bus.services = Fact::known(services, "bus");
        facts
    }

    #[test]
    fn a_runtime_that_systemd_starts_every_ten_seconds_is_named_with_its_unit() {
        let found = found(judge(&containerd(350, 4.0)));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].confidence, Confidence::High);
        assert_eq!(
            found[0].sentence,
            "systemd has restarted containerd.service 350 times, the last time 4s ago"
        );
        assert_eq!(found[0].culprit.unit.as_deref(), Some("containerd.service"));
        assert!(found[0].advice[0].starts_with("run `journalctl -u containerd.service"));
    }

    #[test]
    fn a_runtime_that_was_restarted_twice_or_has_stayed_up_since_is_no_finding() {
        assert_eq!(judge(&containerd(2, 4.0)), Opinion::Clear);
        assert_eq!(judge(&containerd(350, 900.0)), Opinion::Clear);
    }
}
