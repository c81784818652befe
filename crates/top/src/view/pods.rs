//! The pods, by default the stuck ones first.

use std::time::Duration;

use pleg::model::listed::ContainerState;
use pleg::model::status::ContainerStatus;
use ratatui::layout::Constraint;
use ratatui::style::Style;
use ratatui::widgets::{Cell, Row};

use super::Theme;
use super::format::{age, printable, rounded_age};
use super::table::Table;
use crate::state::State;
use crate::state::pods::{Condition, Pod};
use crate::state::sort::Column;

/// From this width of the screen on, the columns are wider.
const WIDE_FROM: u16 = 100;

/// From this age on, the title shows the age of the list. Pods are listed after events,
/// otherwise twice a minute.
const STALE_AFTER: Duration = Duration::from_secs(45);

/// The space between two columns.
const SPACING: u16 = 2;

/// The content of a column.
#[derive(Clone, Copy)]
enum Shown {
    Sorted(Column),
    Running,
}

/// The columns after the name. On a narrow screen the least important ones are left out, so that there
/// is room for the name, without which a row is useless.
fn columns(width: u16) -> Vec<(Shown, u16)> {
    let (state, time) = if width >= WIDE_FROM { (22, 9) } else { (16, 8) };
    let all = [
        (0, Shown::Sorted(Column::State), state),
        (WIDE_FROM, Shown::Running, 7),
        (52, Shown::Sorted(Column::Restarts), 9),
        (62, Shown::Sorted(Column::Changed), time),
        (72, Shown::Sorted(Column::Latency), time),
    ];
    let shown = all.into_iter().filter(|(from, ..)| width >= *from);
    shown.map(|(_, what, columns)| (what, columns)).collect()
}

pub fn table<'a>(state: &'a State, width: u16, theme: &'a Theme) -> Table<'a> {
    let pods = state.pods();
    let count = pods.len();
    let selected = state.selected_among(&pods);
    let columns = columns(width);
    let others: u16 = columns.iter().map(|(_, width)| width + SPACING).sum();
    let name_width = width.saturating_sub(others);
    let name = (Shown::Sorted(Column::Name), name_width);
    let columns: Vec<_> = std::iter::once(name).chain(columns).collect();
    let headings = columns.iter().map(|(shown, _)| heading(state, *shown));
    let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
    Table {
        title: title(state, count),
        header: Some(Row::new(headings.collect::<Vec<_>>())),
        widths: widths.collect(),
        count,
        row: Box::new(move |place| {
            let cells = columns.iter();
            cells
                .map(|(shown, width)| cell(state, pods[place], *shown, usize::from(*width), theme))
                .collect()
        }),
        selected,
    }
}

fn cell(state: &State, pod: &Pod, shown: Shown, width: usize, theme: &Theme) -> Cell<'static> {
    let column = match shown {
        Shown::Running => return Cell::from(running(pod)),
        Shown::Sorted(column) => column,
    };
    match column {
        Column::Name => Cell::from(printable(&pod.report.status.pod().to_string(), width)),
        Column::State => {
            let condition = state.node.condition(pod);
            Cell::from(condition_text(condition, width)).style(style(condition, theme))
        }
        Column::Restarts => Cell::from(pod.restarts.to_string()),
        Column::Changed => Cell::from(pod.changed.map_or_else(unknown, |changed| {
            rounded_age(state.known_until().since(changed))
        })),
        Column::Latency => Cell::from(pod.latency.map_or_else(unknown, age)),
    }
}

fn unknown() -> String {
    "-".to_owned()
}

fn title(state: &State, shown: usize) -> String {
    let all = state.node.pods.count();
    let mut title = match shown == all {
        true if all == 0 && !state.has_observed_pods() => "Pods: not known yet".to_owned(),
        true => format!("Pods {all}"),
        false => format!("Pods {shown} of {all}"),
    };
    if let Some(namespace) = &state.namespace {
        let namespace = pleg_text::escape::printable(namespace);
        title.push_str(&format!(" ─ namespace {namespace}"));
    }
    let listed = state.node.pods_taken.map(|taken| state.now.since(taken));
    if let Some(ago) = listed.filter(|ago| *ago > STALE_AFTER && state.position.is_none()) {
        title.push_str(&format!(" ─ listed {} ago", rounded_age(ago)));
    }
    if state.is_faults_only {
        title.push_str(" ─ faults only");
    }
    title
}

fn heading(state: &State, shown: Shown) -> Cell<'static> {
    let column = match shown {
        Shown::Running => return Cell::from("RUNNING"),
        Shown::Sorted(column) => column,
    };
    let text = match column {
        Column::Name => "POD",
        Column::State => "STATE",
        Column::Restarts => "RESTARTS",
        Column::Changed => "CHANGED",
        Column::Latency => "LATENCY",
    };
    let mark = match (state.sort.column == column, state.sort.is_reversed) {
        (false, _) => "",
        (true, false) => "▼",
        (true, true) => "▲",
    };
    Cell::from(format!("{text}{mark}"))
}

fn running(pod: &Pod) -> String {
    let is_running = |it: &&ContainerStatus| it.state == ContainerState::Running;
    let running = pod.current().filter(is_running).count();
    format!("{running}/{}", pod.current().count())
}

/// A condition in a word or two.
pub fn condition_text(condition: &Condition, width: usize) -> String {
    match condition {
        Condition::Stuck => "Stuck".to_owned(),
        Condition::Failing => "Failing".to_owned(),
        Condition::Unknown => "Unknown".to_owned(),
        Condition::Failed {
            exit_code: Some(code),
        } => format!("Exited ({code})"),
        Condition::Failed { exit_code: None } => "Exited".to_owned(),
        Condition::Waiting { reason } => printable(reason, width),
        Condition::Starting => "Starting".to_owned(),
        Condition::Running => "Running".to_owned(),
        Condition::Completed => "Completed".to_owned(),
        Condition::Stopped => "Stopped".to_owned(),
    }
}

/// The style of a condition.
pub fn style(condition: &Condition, theme: &Theme) -> Style {
    match condition {
        Condition::Stuck | Condition::Failing | Condition::Failed { .. } => theme.bad(),
        Condition::Unknown | Condition::Waiting { .. } | Condition::Starting => theme.warning(),
        Condition::Running => theme.good(),
        Condition::Completed | Condition::Stopped => theme.dim(),
    }
}
