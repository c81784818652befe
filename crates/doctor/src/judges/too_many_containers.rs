//! More pods than a relist can inspect in time, computed from measured calls.

use causes::Cause;
use causes::finding::{Confidence, Finding};
use causes::versions::Version;
use cri::Rpc;
use pleg::out::health::RELIST_THRESHOLD;

use super::Opinion;
use crate::evidence::phrases::duration;
use crate::facts::NodeFacts;
use crate::facts::probes::{Cost, End, ProbeFacts, Rows};

/// How long a kubelet may go without a relist.
const THRESHOLD_SECONDS: f64 = RELIST_THRESHOLD.as_secs_f64();

/// If inspecting all pods takes longer, the node is slow.
const SLOW_SECONDS: f64 = 60.0;

/// From this version on, a kubelet requests no lists to inspect a single pod.
const WITHOUT_LISTS: &str = "1.36.0";

/// The cost of a relist for a kubelet, which makes its calls one after the other.
struct Price {
    sandboxes_list: f64,
    containers_list: f64,
    sandbox: f64,
    container: f64,
    pods: f64,
    containers: f64,
    /// Whether the inspection of a pod begins with both lists, filtered.
    lists_again: bool,
}

/// The symptom: the time per call, times the number of calls.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    let Some((rows, price)) = priced(facts) else {
        return Opinion::unknown(
            "this check needs both lists and the status of some containers and sandboxes",
        );
    };
    let all = price.lists() + price.pod() * price.pods;
    // There are only one or two samples of each list, so a busy moment would be multiplied by the number of
    // pods. There are many samples of status calls.
    let statuses = price.statuses() * price.pods;
    let confidence = match all {
        _ if all >= THRESHOLD_SECONDS && statuses >= SLOW_SECONDS / 2.0 => Confidence::High,
        _ if all >= THRESHOLD_SECONDS || statuses >= SLOW_SECONDS => Confidence::Medium,
        _ => return Opinion::Clear,
    };
    let mut finding = Finding::new(Cause::TooManyContainers, confidence);
    finding.sentence = format!(
        "a kubelet needs about {1} to inspect all {0} pods of this node; {2}",
        price.pods,
        duration(all),
        price.capacity(),
    );
    finding.evidence = price.evidence();
    finding.evidence.extend(measured(probes));
    finding.evidence.push(format!(
        "{} sandboxes ({} dead) and {} containers ({} exited); a kubelet inspects all of them \
         when it starts",
        rows.sandboxes, rows.dead_sandboxes, rows.containers, rows.exited
    ));
    Opinion::Found(vec![finding])
}

fn priced(facts: &NodeFacts) -> Option<(&Rows, Price)> {
    let probes = &facts.probes;
    let rows = probes.rows.as_ref()?;
    let list = |call| {
        let probe = probes.node(call)?;
        // Of two samples, the smaller one: the other may have been taken in a busy moment.
        let seconds = probes.cost(call).map_or(probe.seconds, |cost| cost.p50);
        (probe.end == End::Answered).then_some(seconds)
    };
    let kubelet = facts.host.versions.package("kubelet");
    let kubelet = kubelet.and_then(Version::parse);
    let price = Price {
        sandboxes_list: list(Rpc::ListPodSandbox)?,
        containers_list: list(Rpc::ListContainers)?,
        sandbox: each(probes.cost(Rpc::PodSandboxStatus)?),
        container: match rows.containers {
            0 => 0.0,
            _ => each(probes.cost(Rpc::ContainerStatus)?),
        },
        pods: rows.sandboxes.max(1) as f64,
        containers: rows.containers as f64,
        // If the kubelet's version is not known, it is probably one of the many that request these lists.
        lists_again: kubelet.is_none_or(|it| Some(it) < Version::parse(WITHOUT_LISTS)),
    };
    Some((rows, price))
}

impl Price {
    /// The cost of a relist without changes, in seconds.
    fn lists(&self) -> f64 {
        self.sandboxes_list + self.containers_list
    }

    /// The cost of inspecting one pod, in seconds. A filtered list costs as much as a whole one.
    fn pod(&self) -> f64 {
        match self.lists_again {
            true => self.statuses() + self.lists(),
            false => self.statuses(),
        }
    }

    /// The cost of the status calls for one pod, in seconds.
    fn statuses(&self) -> f64 {
        self.sandbox + self.container * self.containers / self.pods
    }

    /// How many pods may change at once.
    fn capacity(&self) -> String {
        let threshold = duration(THRESHOLD_SECONDS);
        let pods = (THRESHOLD_SECONDS - self.lists()) / self.pod();
        let pods = pods.max(0.0).floor();
        match pods < self.pods {
            true => {
                format!(
                    "if more than {pods} change at once, it exceeds its threshold of {threshold}"
                )
            }
            false => format!("all of them can change at once within its threshold of {threshold}"),
        }
    }

    fn evidence(&self) -> Vec<String> {
        let again = match self.lists_again {
            true => format!(
                "both lists again, filtered ({}; not since kubelet 1.36), ",
                duration(self.lists())
            ),
            false => String::new(),
        };
        vec![
            format!(
                "one relist needs {} when nothing has changed: ListPodSandbox {}, ListContainers {}",
                duration(self.lists()),
                duration(self.sandboxes_list),
                duration(self.containers_list)
            ),
            format!(
                "and {} for each pod that has changed: {again}PodSandboxStatus {}, \
                 ContainerStatus {} for each of {:.1} containers",
                duration(self.pod()),
                duration(self.sandbox),
                duration(self.container),
                self.containers / self.pods
            ),
        ]
    }
}

/// The cost of a call that is made alone, or else the median, which is too high if calls were made at the
/// same time as others.
fn each(cost: &Cost) -> f64 {
    cost.alone.unwrap_or(cost.p50)
}

/// The calls of a relist, under the names of the kubelet's metrics.
fn measured(probes: &ProbeFacts) -> Vec<String> {
    let costs = probes.costs.iter();
    let of_a_relist = costs.filter(|cost| {
        cost.call.is_list() || matches!(cost.call, Rpc::PodSandboxStatus | Rpc::ContainerStatus)
    });
    let mut lines: Vec<String> = of_a_relist.map(percentiles).collect();
    lines.push(
        "compare with the kubelet's quantiles 0.5, 0.9 and 0.99: \
         kubelet_runtime_operations_duration_seconds by operation_type, and for the whole relist \
         kubelet_pleg_relist_duration_seconds (before 1.14 \
         kubelet_runtime_operations_latency_microseconds and \
         kubelet_pleg_relist_latency_microseconds)"
            .to_owned(),
    );
    lines
}

fn percentiles(cost: &Cost) -> String {
    let operation = cost.call.operation_type();
    match cost.count {
        // A list is requested once, and one sample has no percentiles.
        1 => format!("{operation}: 1 call, {}", duration(cost.max)),
        count => format!(
            "{operation}: {count} calls, p50 {}, p90 {}, p99 {}, max {}",
            duration(cost.p50),
            duration(cost.p90),
            duration(cost.p99),
            duration(cost.max)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::probes::Outcome;
    use crate::node::{Node, found, node};
    use causes::finding::Verdict;

    /// The node of a report: 360 pods with 765 containers.
    fn crowded() -> Node {
        node("containerd", "1.7.24")
            .rows(360, 765)
            .call(Rpc::ListPodSandbox, Outcome::Ok, 0.025)
            .answered(Rpc::ListPodSandbox, 1, 0.025)
            .call(Rpc::ListContainers, Outcome::Ok, 0.075)
            .answered(Rpc::PodSandboxStatus, 360, 0.05)
            .answered(Rpc::ContainerStatus, 765, 0.2)
    }

    #[test]
    fn a_node_whose_inspection_takes_minutes_is_reported_with_how_many_pods_may_change() {
        let findings = found(judge(&crowded().facts()));
        // 0.1 + (0.1 + 0.05 + 0.2 x 765 / 360) x 360 = 207.1 s
        assert_eq!(findings[0].verdict, Verdict::Problem);
        let said = &findings[0].sentence;
        assert!(said.contains("about 3m27.1s"), "{said}");
        // (180 - 0.1) / 0.575
        assert!(said.contains("more than 312"), "{said}");
        let evidence = findings[0].evidence.join("\n");
        for part in [
            "needs 100ms when nothing has changed: ListPodSandbox 25ms, ListContainers 75ms",
            "and 575ms for each pod that has changed",
            "list_podsandbox: 1 call, 25ms",
            "container_status: 765 calls, p50 200ms, p90 200ms, p99 200ms",
            "kubelet_runtime_operations_duration_seconds",
        ] {
            assert!(evidence.contains(part), "{part:?} in {evidence}");
        }
    }

    #[test]
    fn the_smaller_of_two_measured_durations_of_a_list_counts() {
        let mut facts = crowded().facts();
        for probe in &mut facts.probes.calls {
            if probe.call.is_list() {
                probe.seconds = 11.0;
            }
        }
        let lists = [(Rpc::ListPodSandbox, 0.025), (Rpc::ListContainers, 0.075)];
        facts.probes.costs.retain(|cost| !cost.call.is_list());
        for (call, seconds) in lists {
            facts.probes.costs.push(Cost {
                call,
                count: 2,
                p50: seconds,
                p90: 11.0,
                p99: 11.0,
                max: 11.0,
                alone: None,
            });
        }
        let said = &found(judge(&facts))[0].sentence;
        assert!(said.contains("about 3m27.1s"), "{said}");
    }

    #[test]
    fn for_a_kubelet_that_requests_no_lists_for_a_pod_more_pods_may_change() {
        let findings = found(judge(&crowded().package("kubelet", "1.36.2-1.1").facts()));
        // 0.1 + (0.05 + 0.2 x 765 / 360) x 360 = 171.1 s
        assert_eq!(findings[0].verdict, Verdict::Suspect);
        let said = &findings[0].sentence;
        assert!(said.contains("about 2m51.1s"), "{said}");
        // (180 - 0.1) / 0.475 is more pods than there are.
        assert!(said.contains("all of them can change at once"), "{said}");
        assert!(!said.contains("more than"), "{said}");
        let evidence = findings[0].evidence.join("\n");
        assert!(!evidence.contains("again, filtered"), "{evidence}");
    }

    #[test]
    fn a_node_of_a_common_size_is_clear() {
        let facts = node("containerd", "1.7.24")
            .rows(100, 200)
            .answered(Rpc::PodSandboxStatus, 100, 0.001)
            .answered(Rpc::ContainerStatus, 200, 0.002);
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    #[test]
    fn one_slow_sample_of_each_list_is_no_finding() {
        let busy = |list: f64| {
            node("containerd", "1.7.24")
                .rows(110, 220)
                .call(Rpc::ListPodSandbox, Outcome::Ok, list)
                .call(Rpc::ListContainers, Outcome::Ok, list)
                .answered(Rpc::PodSandboxStatus, 110, 0.005)
                .answered(Rpc::ContainerStatus, 220, 0.005)
        };
        // 0.55 + (0.55 + 0.015) x 110 = 62.7 s
        assert_eq!(judge(&busy(0.275).facts()), Opinion::Clear);
        // Beyond the threshold, slow lists count, but they are only a suspicion, because there are few
        // samples of them.
        let findings = found(judge(&busy(0.9).facts()));
        assert_eq!(findings[0].verdict, Verdict::Suspect);
    }

    #[test]
    fn nothing_is_computed_if_a_list_hangs() {
        let facts = node("containerd", "1.7.24").call(Rpc::ListContainers, Outcome::Hung, 2.0);
        assert!(matches!(judge(&facts.facts()), Opinion::Unknown(_)));
    }
}
