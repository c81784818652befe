//! The pods, by default stuck first.

use std::time::Duration;

use pleg::model::listed::ContainerState;
use ratatui::layout::Constraint;
use ratatui::style::Style;
use ratatui::widgets::{Cell, Row};

use super::Theme;
use super::table::Table;
use super::words::{age, name, whole_age};
use crate::state::State;
use crate::state::pods::{Condition, Pod};
use crate::state::sort::Column;

/// From this width on there is room for how many containers run.
const WIDE: u16 = 100;

/// Pods are listed when something has happened, and twice a minute otherwise.
const LONG_AGO: Duration = Duration::from_secs(45);

pub fn table<'a>(state: &'a State, width: u16, theme: &'a Theme) -> Table<'a> {
    let is_wide = width >= WIDE;
    let pods = state.pods();
    let count = pods.len();
    let selected = state.selected_among(&pods);
    let (state_width, time_width) = if is_wide { (22, 9) } else { (16, 8) };
    let mut widths = vec![
        Constraint::Fill(1),
        Constraint::Length(state_width),
        Constraint::Length(9),
        Constraint::Length(time_width),
        Constraint::Length(time_width),
    ];
    let mut header = vec![
        heading(state, "POD", Column::Name),
        heading(state, "STATE", Column::State),
        heading(state, "RESTARTS", Column::Restarts),
        heading(state, "CHANGED", Column::Changed),
        heading(state, "LATENCY", Column::Latency),
    ];
    let fixed: u16 = state_width + 9 + 2 * time_width + 8;
    let mut name_width = usize::from(width.saturating_sub(fixed));
    if is_wide {
        widths.insert(2, Constraint::Length(7));
        header.insert(2, Cell::from("RUNNING"));
        name_width = name_width.saturating_sub(9);
    }
    Table {
        title: title(state, count),
        header: Some(Row::new(header)),
        widths,
        count,
        row: Box::new(move |place| {
            let pod = pods[place];
            let condition = state.node.condition(pod);
            let mut cells = vec![
                Cell::from(name(&pod.report.status.pod().to_string(), name_width)),
                Cell::from(condition_text(condition, state_width.into()))
                    .style(style(condition, theme)),
                Cell::from(pod.restarts.to_string()),
                Cell::from(pod.changed.map_or_else(unknown, |changed| {
                    whole_age(state.known_until().since(changed))
                })),
                Cell::from(pod.latency.map_or_else(unknown, age)),
            ];
            if is_wide {
                cells.insert(2, Cell::from(running(pod)));
            }
            cells
        }),
        selected,
    }
}

fn unknown() -> String {
    "-".to_owned()
}

fn title(state: &State, shown: usize) -> String {
    let all = state.node.pods.count();
    let mut title = match shown == all {
        true if all == 0 && !state.has_seen_pods() => "Pods: not known yet".to_owned(),
        true => format!("Pods {all}"),
        false => format!("Pods {shown} of {all}"),
    };
    if let Some(namespace) = &state.namespace {
        title.push_str(&format!(" ─ namespace {}", escape::printable(namespace)));
    }
    let listed = state.node.pods_taken.map(|taken| state.now.since(taken));
    if let Some(ago) = listed.filter(|ago| *ago > LONG_AGO && state.position.is_none()) {
        title.push_str(&format!(" ─ listed {} ago", whole_age(ago)));
    }
    if state.is_faults_only {
        title.push_str(" ─ faults only");
    }
    title
}

fn heading(state: &State, text: &str, column: Column) -> Cell<'static> {
    let mark = match (state.sort.column == column, state.sort.is_reversed) {
        (false, _) => "",
        (true, false) => "▼",
        (true, true) => "▲",
    };
    Cell::from(format!("{text}{mark}"))
}

fn running(pod: &Pod) -> String {
    let running = pod
        .current()
        .filter(|it| it.state == ContainerState::Running);
    format!("{}/{}", running.count(), pod.current().count())
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
        Condition::Waiting { reason } => name(reason, width),
        Condition::Starting => "Starting".to_owned(),
        Condition::Running => "Running".to_owned(),
        Condition::Completed => "Completed".to_owned(),
        Condition::Stopped => "Stopped".to_owned(),
    }
}

/// How a condition is set off.
pub fn style(condition: &Condition, theme: &Theme) -> Style {
    match condition {
        Condition::Stuck | Condition::Failing | Condition::Failed { .. } => theme.bad(),
        Condition::Unknown | Condition::Waiting { .. } | Condition::Starting => theme.warning(),
        Condition::Running => theme.good(),
        Condition::Completed | Condition::Stopped => theme.dim(),
    }
}
