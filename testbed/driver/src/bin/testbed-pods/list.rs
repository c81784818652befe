//! The table of `list`: a line for each container, and for each pod without containers.

use std::io::Write;

use testbed_driver::{Container, ContainerState, Driver, Error, Pod};

/// The number of characters of an id that crictl shows.
const SHORT_ID: usize = 13;

type Row = [String; 7];

pub(crate) async fn list(driver: &Driver, full: bool) -> Result<(), Error> {
    let pods = driver.pods().await?;
    let table = table(&pods, full);
    // A reader may close its end early, for example in `list | head`.
    let _ = std::io::stdout().write_all(table.as_bytes());
    Ok(())
}

fn table(pods: &[Pod], full: bool) -> String {
    let head = [
        "POD",
        "UID",
        "SANDBOX",
        "CONTAINER",
        "ATTEMPT",
        "STATE",
        "ID",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for pod in pods {
        match pod.containers.as_slice() {
            [] => rows.push(row(pod, None, full)),
            some => rows.extend(some.iter().map(|one| row(pod, Some(one), full))),
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let line = |row: &Row| {
        let cells = row.iter().zip(widths);
        let padded: String = cells
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        format!("{}\n", padded.trim_end())
    };
    rows.iter().map(line).collect()
}

fn row(pod: &Pod, container: Option<&Container>, full: bool) -> Row {
    let id = |id: &str| match full {
        true => id.to_owned(),
        false => id.chars().take(SHORT_ID).collect(),
    };
    let of = |text: fn(&Container) -> String| container.map_or_else(|| "-".into(), text);
    [
        format!("{}/{}", pod.namespace, pod.name),
        id(&pod.uid),
        format!(
            "{}{}",
            id(&pod.sandbox_id),
            if pod.ready { "" } else { " (stopped)" }
        ),
        of(|one| one.name.clone()),
        of(|one| one.attempt.to_string()),
        of(|one| state(one.state).into()),
        container.map_or_else(|| "-".into(), |one| id(&one.id)),
    ]
}

fn state(state: ContainerState) -> &'static str {
    match state {
        ContainerState::ContainerCreated => "created",
        ContainerState::ContainerRunning => "running",
        ContainerState::ContainerExited => "exited",
        ContainerState::ContainerUnknown => "unknown",
    }
}
