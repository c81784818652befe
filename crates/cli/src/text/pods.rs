//! The table of `pleg pods`.

use comfy_table::{Table, presets};
use pleg::health::short;
use pleg::listed::ContainerState;
use pleg::status::{ContainerStatus, PodStatus};

use super::printable;

/// A row for each container, and one for a pod without.
pub fn table(pods: &[PodStatus]) -> String {
    if pods.is_empty() {
        return "No pods found.\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "NAMESPACE",
        "POD",
        "IP",
        "CONTAINER",
        "STATE",
        "ATTEMPT",
        "ID",
    ]);
    for pod in pods {
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
                state(container),
                container.attempt.to_string(),
                printable(short(&container.id)).into_owned(),
            ]));
        }
        if pod.containers.is_empty() {
            table.add_row(named(Default::default()));
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

fn state(container: &ContainerStatus) -> String {
    let state = container.state.as_str();
    match (container.state, container.exit_code) {
        (ContainerState::Exited, Some(code)) => format!("{state} ({code})"),
        _ => state.to_owned(),
    }
}
