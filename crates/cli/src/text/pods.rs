//! The table of `pleg pods`.

use comfy_table::Table;
use pleg::model::listed::ContainerState;
use pleg::model::status::ContainerStatus;
use pleg::out::health::short;
use pleg::out::pods::PodReport;

use super::{aligned, printable};

/// Marks the state of what could not be inspected.
const LAST_KNOWN: &str = "last known";

/// A row for each container, and one for a pod without.
pub fn table(pods: &[PodReport]) -> String {
    if pods.is_empty() {
        return "No pods found.\n".to_owned();
    }
    let mut table = Table::new();
    table.set_header([
        "NAMESPACE",
        "POD",
        "IP",
        "CONTAINER",
        "STATE",
        "ATTEMPT",
        "ID",
    ]);
    for report in pods {
        let pod = &report.status;
        let ip = pod.ips().first().map(ToString::to_string);
        let named = |cells: [String; 4]| {
            let names = [&*pod.namespace, &*pod.name].map(|name| printable(name).into_owned());
            let ip = ip.clone().unwrap_or_default();
            names
                .into_iter()
                .chain([ip])
                .chain(cells)
                .collect::<Vec<_>>()
        };
        for container in &pod.containers {
            table.add_row(named([
                printable(&container.name).into_owned(),
                state(container, report.error.is_some()),
                container.attempt.to_string(),
                printable(short(&container.id)).into_owned(),
            ]));
        }
        if pod.containers.is_empty() {
            let state = report.error.as_ref().map(|_| LAST_KNOWN.to_owned());
            let state = state.unwrap_or_default();
            table.add_row(named([String::new(), state, String::new(), String::new()]));
        }
    }
    aligned(table)
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
