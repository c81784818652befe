//! The events, newest first.

use pleg::model::event::{Event, EventType};
use pleg::model::wall_time::WallTime;
use pleg::records::diff::Subject;
use ratatui::layout::Constraint;
use ratatui::style::Style;
use ratatui::widgets::Cell;

use super::Theme;
use super::format::{
    age, clock, dated_clock, dated_precise_clock, fit, is_same_day, precise_clock, printable,
};
use super::table::Table;
use crate::state::State;
use crate::state::events::{Entry, Happened};
use crate::state::page::Panel;

/// From this width on there is space for milliseconds.
const WIDE_FROM: u16 = 100;

pub fn table<'a>(state: &'a State, width: u16, theme: &'a Theme) -> Table<'a> {
    let is_wide = width >= WIDE_FROM;
    let clock = event_clock(state, is_wide);
    let time_width = clock(state.now).len() as u16;
    let rest = usize::from(width.saturating_sub(time_width + 16 + 6));
    let detail_width = rest * 2 / 5;
    let subject_width = rest - detail_width;
    let events = state.events();
    let count = events.len();
    let all = state.node.events.count();
    Table {
        title: match (count as u64) == all {
            true => format!("Events {all}"),
            false => format!("Events {count} of {all}"),
        },
        header: None,
        widths: vec![
            Constraint::Length(time_width),
            Constraint::Length(16),
            Constraint::Length(subject_width as u16),
            Constraint::Length(detail_width as u16),
        ],
        count,
        row: Box::new(move |place| {
            let Entry { happened, .. } = events[place];
            let time = clock(happened.time());
            let (what, subject, detail, style) = cells(happened, theme);
            vec![
                Cell::from(time).style(theme.dim()),
                Cell::from(what).style(style),
                Cell::from(printable(&subject, subject_width)),
                Cell::from(fit(&pleg_text::escape::sentence(&detail), detail_width)),
            ]
        }),
        selected: state.selected(Panel::Events),
    }
}

/// How the time of an event is shown: with the date if the recording has several days, or if an
/// event of a live screen is not of today.
pub fn event_clock(state: &State, is_wide: bool) -> fn(WallTime) -> String {
    let is_dated = match state.position {
        Some(position) => !is_same_day(position.first, position.last),
        None => {
            let is_of_today = |entry: &Entry| is_same_day(entry.happened.time(), state.now);
            !state.node.events.iter().all(is_of_today)
        }
    };
    match (is_dated, is_wide) {
        (false, false) => clock,
        (false, true) => precise_clock,
        (true, false) => dated_clock,
        (true, true) => dated_precise_clock,
    }
}

/// The texts of an entry (the event, its object, the details), and the style.
pub fn cells(happened: &Happened, theme: &Theme) -> (String, String, String, Style) {
    match happened {
        Happened::Event { event, latency } => {
            let mut detail = detail(event);
            if let Some(latency) = latency {
                detail.push_str(&format!(", {} late", age(*latency)));
            }
            let subject = match &event.container {
                Some(container) => format!("{} {container}", event.pod),
                None if event.subject == Some(Subject::Sandbox) => {
                    format!("{} (sandbox)", event.pod)
                }
                None => event.pod.to_string(),
            };
            let what = event.event_type.as_str().to_owned();
            (what, subject, detail, style(event, theme))
        }
        Happened::Health(health) => (
            health.state.to_string(),
            health.message.clone(),
            health.reason.to_string(),
            theme.health(health.state),
        ),
        Happened::Gap { conflated, .. } => (
            "Gap".to_owned(),
            format!("{conflated} events were merged"),
            String::new(),
            theme.warning(),
        ),
    }
}

fn detail(event: &Event) -> String {
    let by = format!("by {}", event.source.as_str());
    match (event.exit_code, &event.reason) {
        (Some(code), Some(reason)) => format!("exit {code} ({reason}), {by}"),
        (Some(code), None) => format!("exit {code}, {by}"),
        (None, _) => by,
    }
}

fn style(event: &Event, theme: &Theme) -> Style {
    match event.event_type {
        EventType::ContainerStarted => theme.good(),
        EventType::ContainerDied if event.exit_code.is_some_and(|code| code != 0) => theme.bad(),
        EventType::ContainerDied => theme.warning(),
        EventType::ContainerRemoved | EventType::PodSync => Style::new(),
    }
}
