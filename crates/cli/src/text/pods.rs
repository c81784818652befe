//! The table of `pleg pods`.

use std::borrow::Cow;

use comfy_table::Table;
use pleg::model::id::Id;
use pleg::model::listed::ContainerState;
use pleg::model::status::ContainerStatus;
use pleg::model::wall_time::WallTime;
use pleg::out::health::{StuckCall, short};
use pleg::out::pods::{PodReport, StaticContainerReport, Waiting};
use pleg::runtime::Rpc;

use super::{aligned, printable};

/// Marks the state of a pod that could not be inspected.
const LAST_KNOWN: &str = "last known";

/// The state of a container whose first status call is stuck.
const UNKNOWN: &str = "unknown";

/// A row for each container, and one for a pod without containers. For static pods, there are also rows
/// for containers that have not been created yet, and columns for readiness and the reason for waiting.
/// A container that is known only by its stuck status call has a row, too. If the runtime has answered
/// no call since `unresponsive_since`, older states are marked as last known.
pub fn table(
    pods: &[PodReport],
    unresponsive_since: Option<WallTime>,
    stuck: &[StuckCall],
) -> String {
    if pods.is_empty() {
        return "No pods found.\n".to_owned();
    }
    let has_static_pods = pods.iter().any(|pod| pod.static_pod.is_some());
    let mut table = Table::new();
    let header = "NAMESPACE POD IP CONTAINER STATE ATTEMPT ID".split(' ');
    let of_static_pods = ["READY", "WAITING"].into_iter().filter(|_| has_static_pods);
    table.set_header(header.chain(of_static_pods));
    for report in pods {
        let pod = &report.status;
        let is_observed = unresponsive_since.is_none_or(|since| report.as_of >= Some(since));
        let is_last_known = !is_observed || report.error.is_some();
        let ip = pod.ips().first().map(ToString::to_string);
        let ip = ip.unwrap_or_default();
        let mut add = |container: &str, state: &str, attempt: &str, id: &str, more: Vec<String>| {
            let names = [&pod.namespace, &pod.name, &*ip, container].map(printable);
            let cells = names
                .into_iter()
                .chain([state.into(), attempt.into(), printable(id)]);
            table.add_row(cells.map(Cow::into_owned).chain(more));
        };
        for container in &pod.containers {
            let state = state(container, is_last_known);
            let (attempt, id) = (container.attempt.to_string(), short(&container.id));
            let more = readiness(report, container);
            add(&container.name, &state, &attempt, id, more);
        }
        let not_created = not_created(report);
        for its in &not_created {
            let more = vec!["no".to_owned(), waiting(its.waiting.as_ref())];
            add(&its.name, "", "", "", more);
        }
        let unknown = unknown(report, stuck);
        for (name, id) in &unknown {
            add(name, UNKNOWN, "", short(id), Vec::new());
        }
        if pod.containers.is_empty() && not_created.is_empty() && unknown.is_empty() {
            let state = if is_last_known { LAST_KNOWN } else { "" };
            let pod = report.static_pod.as_ref();
            let more = pod.map(|pod| vec![String::new(), waiting(pod.waiting.as_ref())]);
            add("", state, "", "", more.unwrap_or_default());
        }
    }
    aligned(table)
}

/// The containers of a pod that are known only by their stuck status calls.
fn unknown<'a>(report: &PodReport, stuck: &'a [StuckCall]) -> Vec<(&'a str, &'a Id)> {
    let status = &report.status;
    let unknown = stuck.iter().filter_map(|call| {
        let (pod, id) = (call.pod.as_ref()?, call.id.as_ref()?);
        let is_unknown = call.call == Rpc::ContainerStatus
            && pod.uid == status.uid
            && status.container(id).is_none();
        is_unknown.then(|| (call.container.as_deref().unwrap_or_default(), id))
    });
    unknown.collect()
}

/// The containers of a static pod that are not created yet.
fn not_created(report: &PodReport) -> Vec<&StaticContainerReport> {
    let all = report.static_pod.iter().flat_map(|pod| &pod.containers);
    let missing = all.filter(|its| {
        let mut created = report.status.containers.iter();
        its.waiting.is_some() && !created.any(|container| *container.name == *its.name)
    });
    missing.collect()
}

/// The readiness of a container of a static pod, and why it waits; nothing for an earlier
/// attempt of the container.
fn readiness(report: &PodReport, container: &ContainerStatus) -> Vec<String> {
    let Some(pod) = &report.static_pod else {
        return Vec::new();
    };
    let is_its = |it: &&StaticContainerReport| {
        *it.name == *container.name && it.restarts == container.attempt
    };
    let its = pod.containers.iter().find(is_its);
    its.map_or_else(Vec::new, |its| {
        let ready = if its.ready { "yes" } else { "no" };
        let waits = its.waiting.as_ref().or(pod.waiting.as_ref());
        vec![ready.to_owned(), waiting(waits)]
    })
}

fn waiting(waiting: Option<&Waiting>) -> String {
    let Some(waiting) = waiting else {
        return String::new();
    };
    let reason = printable(&waiting.reason);
    match waiting.seconds {
        Some(seconds) => format!("{reason} ({seconds:.0} s)"),
        None => reason.into_owned(),
    }
}

fn state(container: &ContainerStatus, is_last_known: bool) -> String {
    let state = container.state.as_str();
    let state = match (container.state, container.exit_code) {
        (ContainerState::Exited, Some(code)) => format!("{state} ({code})"),
        _ => state.to_owned(),
    };
    match is_last_known {
        true => format!("{state}, {LAST_KNOWN}"),
        false => state,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_that_waits_for_its_image_has_a_row_that_says_so() {
        let waits =
            json!({"reason": "ImagePullBackOff", "message": "no such image", "seconds": 7.0});
        let report = json!({
            "uid": "u", "namespace": "default", "name": "web", "sandboxes": [], "containers": [],
            "asOf": null, "error": null,
            "staticPod": {"phase": "Pending", "ready": false, "containers": [
                {"name": "app", "ready": false, "restarts": 0, "waiting": waits},
            ]},
        });
        let report = serde_json::from_value(report).expect("a report");
        let table = table(&[report], None, &[]);
        let row = table.lines().nth(1).expect("one row");
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "default",
                "web",
                "app",
                "no",
                "ImagePullBackOff",
                "(7",
                "s)"
            ]
        );
        assert_eq!(table.lines().count(), 2, "{table}");
    }

    fn web(containers: &serde_json::Value) -> PodReport {
        let report = json!({
            "uid": "u", "namespace": "default", "name": "web", "sandboxes": [],
            "containers": containers, "asOf": null, "error": null,
        });
        serde_json::from_value(report).expect("a report")
    }

    #[test]
    fn states_from_before_a_runtime_became_unresponsive_are_last_known() {
        let runs = json!([{"id": "c1", "name": "app", "state": "running", "attempt": 0,
                           "image": "i"}]);
        let at = |seconds: i64| WallTime::from_unix_nanos(seconds * 1_000_000_000).unwrap();
        let pod = |containers| PodReport {
            as_of: Some(at(10)),
            ..web(containers)
        };
        for (pod, last_known) in [
            (pod(&runs), "running, last known"),
            (pod(&json!([])), "last known"),
        ] {
            for (unresponsive_since, is_marked) in
                [(None, false), (Some(9), false), (Some(11), true)]
            {
                let pods = std::slice::from_ref(&pod);
                let table = table(pods, unresponsive_since.map(at), &[]);
                assert_eq!(table.contains(last_known), is_marked, "{table}");
            }
        }
    }

    #[test]
    fn a_container_that_is_known_only_by_its_stuck_call_is_named() {
        let call = json!({
            "call": "ContainerStatus", "id": "c1", "container": "app", "sinceSeconds": 4.0,
            "pod": {"uid": "u", "namespace": "default", "name": "web"},
        });
        let stuck = [serde_json::from_value(call).expect("a call")];
        let table = table(&[web(&json!([]))], None, &stuck);
        let row = table.lines().nth(1).expect("one row");
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["default", "web", "app", "unknown", "c1"]);
    }
}
