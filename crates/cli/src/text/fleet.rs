//! The table and the page of `kubectl pleg`.

use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

use causes::Cause;
use cluster::Culprit;
use cluster::fleet::{FleetEvent, FleetState, NodeView};
use comfy_table::Table;
use pleg::model::wall_time::WallTime;
use pleg::out::health::{Reason, short};

use super::{BAD, BOLD, DIM, GOOD, WARN, aligned, printable, sentence, styled, wrap};

/// The maximum number of characters of a message in a column.
const MAX_MESSAGE: usize = 60;

/// The maximum number of events on the page of a node.
const MAX_EVENTS: usize = 20;

/// Which parts of the table are shown.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Whether the header is shown.
    pub header: bool,
    /// Whether the columns of the wide output are shown.
    pub wide: bool,
}

/// A row for each node, in their order.
pub fn table(nodes: &[NodeView], columns: Columns, now: WallTime) -> String {
    if nodes.is_empty() && columns.header {
        return "No nodes found.\n".to_owned();
    }
    let mut table = Table::new();
    if columns.header {
        let header = "NODE READY PLEG SINCE CAUSE CULPRIT GUARDED".split(' ');
        let wide = ["CONFIRMED", "MESSAGE"].into_iter();
        table.set_header(header.chain(wide.filter(|_| columns.wide)));
    }
    for node in nodes {
        let known = |time: Option<WallTime>| time.map_or_else(none, |time| age(now.since(time)));
        let row = [
            printable(&node.node).into_owned(),
            printable(&node.ready).into_owned(),
            node.state.as_str().to_owned(),
            known(node.since),
            cause(node),
            culprit(node),
            if node.guarded { "yes" } else { "no" }.to_owned(),
        ];
        let message = node.message.as_deref().unwrap_or_default();
        let wide = [known(node.heartbeat), sentence(message).into_owned()];
        let wide = wide.into_iter().filter(|_| columns.wide);
        table.add_row(row.into_iter().chain(wide));
    }
    aligned(table)
}

/// The line of a node that is gone.
pub fn gone(node: &str) -> String {
    format!("{} is gone\n", printable(node))
}

fn none() -> String {
    "-".to_owned()
}

/// The cause that a diagnosis found, or else the reason of the condition unless the node is healthy.
fn cause(node: &NodeView) -> String {
    let reason = node.reason.as_deref();
    let reason = reason.filter(|reason| *reason != Reason::AllSeen.as_str());
    let cause = node.cause.as_deref().or(reason);
    cause.map_or_else(none, |cause| printable(cause).into_owned())
}

/// The first culprit, or the message of the condition if the annotation names no stuck call. A call for
/// the whole node blames no container.
fn culprit(node: &NodeView) -> String {
    let mut names = node.culprits.iter().filter_map(name_of);
    if let Some(first) = names.next() {
        return match names.count() + node.more {
            0 => first,
            more => format!("{first} (+{more})"),
        };
    }
    match (&node.message, node.state) {
        _ if !node.culprits.is_empty() => none(),
        (Some(message), FleetState::Unhealthy | FleetState::Degraded) => {
            let message = sentence(message);
            match message.char_indices().nth(MAX_MESSAGE) {
                Some((end, _)) => format!("{}…", &message[..end]),
                None => message.into_owned(),
            }
        }
        _ => none(),
    }
}

/// namespace/pod/container, or the id of a container whose pod is unknown; `None` for a call for the whole
/// node.
fn name_of(culprit: &Culprit) -> Option<String> {
    let parts = [&culprit.namespace, &culprit.pod, &culprit.container];
    let parts = parts.into_iter().flatten().map(|part| printable(part));
    let name = parts.collect::<Vec<_>>().join("/");
    let id = culprit
        .id
        .as_ref()
        .map(|id| printable(short(id)).into_owned());
    Some(name).filter(|name| !name.is_empty()).or(id)
}

/// The page of one node.
pub fn page(node: &NodeView, events: &[FleetEvent], now: WallTime) -> String {
    let mut page = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{} {value}", styled(BOLD, format_args!("{name:<9}")));
    };
    line("Node", printable(&node.node).into_owned());
    let ready = match node.ready.as_str() {
        "True" => styled(GOOD, "Ready"),
        "False" => styled(BAD, "NotReady"),
        _ => styled(BAD, "Ready is Unknown"),
    };
    line("Kubelet", ready);
    let state = styled(state_style(node.state), node.state.as_str());
    let reason = node.reason.as_deref().map(printable);
    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let since = node.since.map(|since| age(now.since(since)));
    let since = since.map_or_else(String::new, |since| format!(", for {since}"));
    line("PLEG", format!("{state}{reason}{since}"));
    if let Some(message) = &node.message {
        line("", sentence(message).into_owned());
    }
    match node.heartbeat.map(|time| age(now.since(time))) {
        Some(age) => line("Confirmed", format!("{age} ago")),
        None => line("Confirmed", "never: no agent reports".to_owned()),
    }
    if node.guarded {
        line("Guard", styled(WARN, "answers in place of the runtime"));
    }
    for culprit in &node.culprits {
        let id = culprit.id.as_ref().filter(|_| culprit.pod.is_some());
        let id = id.map_or_else(String::new, |id| format!(" ({})", printable(short(id))));
        let what = match name_of(culprit) {
            Some(name) => format!("{} of {name}{id}", culprit.call),
            None => culprit.call.to_string(),
        };
        line("Stuck", styled(BAD, what));
    }
    if node.more > 0 {
        line("", format!("and {} more", node.more));
    }
    advice(&mut page, node);
    history(&mut page, events, now);
    page
}

fn state_style(state: FleetState) -> anstyle::Style {
    match state {
        FleetState::Healthy => GOOD,
        FleetState::Degraded | FleetState::Stale => WARN,
        FleetState::NotReported => DIM,
        FleetState::Unhealthy => BAD,
    }
}

/// What to do: the advice of the cause, if one is known.
fn advice(page: &mut String, node: &NodeView) {
    let node_name = printable(&node.node);
    let cause = node.cause.as_deref();
    let known = cause.and_then(|id| Cause::from_str(id).ok());
    let steps: Vec<String> = match (known, node.state) {
        (Some(cause), _) => {
            let about = cause.about();
            let steps = about.advice.iter().map(|advice| advice.text.clone());
            let more = format!("Details: pleg explain {}", cause.id());
            let _ = writeln!(page, "\n{}: {}", styled(BOLD, cause.id()), about.title);
            steps.chain([more]).collect()
        }
        (None, FleetState::Healthy) => return,
        (None, FleetState::NotReported) => vec![format!(
            "Install the agent on {node_name}, or check whether it is running: kubectl -n pleg \
             get pods -o wide"
        )],
        (None, FleetState::Stale) => vec![format!(
            "Check whether the agent on {node_name} is running, and check its log for errors of \
             the API server"
        )],
        (None, FleetState::Degraded | FleetState::Unhealthy) => vec![
            format!("Run pleg doctor on {node_name}: it identifies the cause, and is harmless"),
            "Do not restart the runtime or the node first: that destroys the evidence".to_owned(),
        ],
    };
    let _ = writeln!(page, "\n{}", styled(BOLD, "What to do"));
    for (number, step) in steps.iter().enumerate() {
        wrap(page, &format!("  {}. ", number + 1), step);
    }
}

fn history(page: &mut String, events: &[FleetEvent], now: WallTime) {
    if events.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n{}", styled(BOLD, "Events, newest first"));
    let mut table = Table::new();
    for event in events.iter().take(MAX_EVENTS) {
        let when = event.time.map_or_else(none, |time| age(now.since(time)));
        table.add_row([
            format!("  {when}"),
            printable(&event.kind).into_owned(),
            printable(&event.reason).into_owned(),
            printable(&event.regarding).into_owned(),
            sentence(&event.note).into_owned(),
        ]);
    }
    page.push_str(&aligned(table));
    if events.len() > MAX_EVENTS {
        let _ = writeln!(page, "  and {} older events", events.len() - MAX_EVENTS);
    }
}

/// The age in kubectl's form.
fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let with = |big: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{small_unit}"),
    };
    match (seconds, minutes, hours, days) {
        (..120, ..) => format!("{seconds}s"),
        (_, ..10, ..) => with(minutes, "m", seconds % 60, "s"),
        (_, ..180, ..) => format!("{minutes}m"),
        (_, _, ..8, _) => with(hours, "h", minutes % 60, "m"),
        (_, _, ..48, _) => format!("{hours}h"),
        (.., ..8) => with(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_shown_as_kubectl_shows_them() {
        let shown = |seconds| age(Duration::from_secs(seconds));
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (233, "3m53s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (176_400, "2d1h"),
            (900_000, "10d"),
        ] {
            assert_eq!(shown(seconds), expected);
        }
    }
}
