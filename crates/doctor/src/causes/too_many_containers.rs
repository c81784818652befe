//! More to inspect than one relist gets done in time: arithmetic on measured calls.

use super::Opinion;
use super::who::go;
use crate::cause::Cause;
use crate::facts::NodeFacts;
use crate::facts::probes::{Cost, Method, Outcome, ProbeFacts};
use crate::finding::{Confidence, Finding};

/// How long a kubelet may go without a relist.
const THRESHOLD: f64 = 180.0;

/// An inspection of all that takes longer is slow on any node.
const SLOW: f64 = 60.0;

/// What one relist costs a kubelet, which makes its calls one after the other.
struct Price {
    /// Both lists.
    lists: f64,
    /// The inspection of one pod.
    pod: f64,
    pods: f64,
}

/// The tell: time per call, times what there is to call for.
pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let probes = &facts.probes;
    let Some(price) = price(probes) else {
        return Opinion::CannotTell(
            "it takes both lists and the status of a few containers and sandboxes".to_owned(),
        );
    };
    let all = price.lists + price.pod * price.pods;
    let confidence = match all {
        _ if all >= THRESHOLD || price.lists >= THRESHOLD => Confidence::High,
        _ if all >= SLOW || price.lists >= THRESHOLD / 6.0 => Confidence::Medium,
        _ => return Opinion::Clear,
    };
    let mut finding = Finding::new(Cause::TooManyContainers, confidence);
    let carries = ((THRESHOLD - price.lists).max(0.0) / price.pod).floor();
    finding.sentence = format!(
        "inspecting all {} pods of this node takes a kubelet about {}; more than {carries} that \
         change at once cost it its threshold of {}",
        price.pods,
        go(all),
        go(THRESHOLD),
    );
    finding.evidence.push(format!(
        "one relist needs {} for the lists and {} for each pod that has changed",
        go(price.lists),
        go(price.pod)
    ));
    finding
        .evidence
        .extend(probes.costs.iter().map(percentiles));
    if let Some(rows) = &probes.rows {
        finding.evidence.push(format!(
            "{} sandboxes ({} dead) and {} containers ({} exited); a kubelet that starts inspects all",
            rows.sandboxes, rows.dead_sandboxes, rows.containers, rows.exited
        ));
    }
    Opinion::Found(vec![finding])
}

fn price(probes: &ProbeFacts) -> Option<Price> {
    let rows = probes.rows.as_ref()?;
    let list = |call| {
        let probe = probes.node(call)?;
        (probe.outcome == Outcome::Ok).then_some(probe.seconds)
    };
    let containers_list = list(Method::ListContainers)?;
    let lists = list(Method::ListPodSandbox)? + containers_list;
    let pods = rows.sandboxes.max(1) as f64;
    let sandbox = each(probes.cost(Method::PodSandboxStatus)?);
    let container = match rows.containers {
        0 => 0.0,
        _ => each(probes.cost(Method::ContainerStatus)?),
    };
    // For each pod the kubelet asks for a filtered list too, which costs the runtime all of it.
    let pod = sandbox + containers_list + container * rows.containers as f64 / pods;
    Some(Price { lists, pod, pods })
}

/// What one call costs when no other is made: else the median, which at eight at once is
/// rather too much.
fn each(cost: &Cost) -> f64 {
    cost.alone.unwrap_or(cost.p50)
}

fn percentiles(cost: &Cost) -> String {
    format!(
        "{}: {} calls, p50 {}, p95 {}, p99 {}, max {}",
        cost.call.as_str(),
        cost.count,
        go(cost.p50),
        go(cost.p95),
        go(cost.p99),
        go(cost.max)
    )
}

#[cfg(test)]
mod tests {
    use super::super::node::{found, node};
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn a_node_whose_inspection_takes_minutes_says_how_many_pods_it_carries() {
        let facts = node("containerd", "1.7.24")
            .rows(360, 765)
            .call(Method::ListContainers, Outcome::Ok, 0.1)
            .answered(Method::PodSandboxStatus, 360, 0.05)
            .answered(Method::ContainerStatus, 765, 0.2);
        let findings = found(judge(&facts.facts()));
        // (0.05 + 0.1 + 0.2 x 765 / 360) x 360 = 207 s
        assert_eq!(findings[0].verdict, Verdict::Problem);
        assert!(
            findings[0].sentence.contains("about 3m27"),
            "{}",
            findings[0].sentence
        );
        assert!(
            findings[0].sentence.contains("more than 312"),
            "{}",
            findings[0].sentence
        );
    }

    #[test]
    fn a_node_of_a_common_size_is_clear() {
        let facts = node("containerd", "1.7.24")
            .rows(100, 200)
            .answered(Method::PodSandboxStatus, 100, 0.001)
            .answered(Method::ContainerStatus, 200, 0.002);
        assert_eq!(judge(&facts.facts()), Opinion::Clear);
    }

    #[test]
    fn a_list_that_hangs_leaves_nothing_to_reckon_with() {
        let facts = node("containerd", "1.7.24").call(Method::ListContainers, Outcome::Hung, 2.0);
        assert!(matches!(judge(&facts.facts()), Opinion::CannotTell(_)));
    }
}
