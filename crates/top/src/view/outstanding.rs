//! The outstanding calls, with a bar for the age of each.
//!
//! ```text
//!   0  │overdue 2m     a quarter of the bar: until the call is overdue
//!   ███│████░░░░░░     the rest: until a kubelet gives up on it
//! ```

use std::time::Duration;

use pleg::out::health::short;
use ratatui::layout::Constraint;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row};

use super::Theme;
use super::format::{age, printable};
use super::table::Table;
use crate::state::State;
use crate::state::outstanding::{KUBELET_TIMEOUT, Outstanding};
use crate::state::page::Panel;

pub fn table<'a>(state: &'a State, width: u16, theme: &'a Theme) -> Table<'a> {
    let (call_width, id_width, bar_width) = match width {
        0..100 => (16, 8, 14),
        _ => (24, 13, 24),
    };
    let calls = state.outstanding();
    let count = calls.len();
    let fixed = call_width + id_width + 7 + bar_width + 8;
    let pod_width = usize::from(width).saturating_sub(fixed);
    let title = match (count, &state.node.status) {
        (_, None) => "Outstanding: not known yet".to_owned(),
        (0, Some(_)) => "Outstanding: no call".to_owned(),
        (_, Some(_)) => format!("Outstanding {count}"),
    };
    Table {
        title,
        header: Some(Row::new([
            "CALL".to_owned(),
            "ID".to_owned(),
            "POD, CONTAINER".to_owned(),
            "AGE".to_owned(),
            scale(bar_width),
        ])),
        widths: vec![
            Constraint::Length(call_width as u16),
            Constraint::Length(id_width as u16),
            Constraint::Fill(1),
            Constraint::Length(7),
            Constraint::Length(bar_width as u16),
        ],
        count,
        row: Box::new(move |place| {
            let call = calls[place];
            let style = match call.is_stuck {
                true => theme.bad(),
                false => Style::new(),
            };
            vec![
                Cell::from(printable(call.call.name(), call_width)).style(style),
                Cell::from(printable(
                    call.id.as_ref().map_or("-", |id| short(id)),
                    id_width,
                )),
                Cell::from(printable(&subject(call), pod_width)),
                Cell::from(age(call.age)).style(style),
                Cell::from(bar(call.age, call.overdue(), bar_width, theme)),
            ]
        }),
        selected: state.selected(Panel::Outstanding),
    }
}

/// The object of a call.
pub fn subject(call: &Outstanding) -> String {
    match (&call.pod, &call.container) {
        (Some(pod), Some(container)) => format!("{pod} {container}"),
        (Some(pod), None) => pod.to_string(),
        (None, _) if call.id.is_none() => "the whole node".to_owned(),
        (None, _) => "-".to_owned(),
    }
}

/// The scale above the bars.
fn scale(width: usize) -> String {
    let mark = width / 4;
    let end = "2m";
    let room = width - mark - 1 - end.len();
    format!("{:<mark$}│{:<room$}{end}", "0", "overdue")
}

/// A bar that shows how much of the time has passed until a kubelet gives up on a call.
fn bar(age: Duration, overdue: Duration, width: usize, theme: &Theme) -> Line<'static> {
    let mark = width / 4;
    let part = |age: Duration, of: Duration, cells: usize| {
        let share = age.as_secs_f64() / of.as_secs_f64();
        ((share * cells as f64) as usize).min(cells)
    };
    let first = part(age, overdue, mark);
    let rest = width - mark - 1;
    let late = age.saturating_sub(overdue);
    let second = part(late, KUBELET_TIMEOUT - overdue, rest);
    // An overdue call shows at least one mark.
    let second = second.max(usize::from(!late.is_zero()));
    let cells = |filled, of| format!("{}{}", "█".repeat(filled), "░".repeat(of - filled));
    Line::from(vec![
        Span::styled(cells(first, mark), theme.warning()),
        Span::raw("│"),
        Span::styled(cells(second, rest), theme.bad()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_both_limits() {
        let theme = Theme::new(false);
        let drawn = |seconds| {
            let age = Duration::from_secs_f64(seconds);
            bar(age, Duration::from_secs(5), 14, &theme).to_string()
        };
        assert_eq!(drawn(0.0), "░░░│░░░░░░░░░░");
        assert_eq!(drawn(4.0), "██░│░░░░░░░░░░");
        assert_eq!(drawn(5.1), "███│█░░░░░░░░░");
        assert_eq!(drawn(62.5), "███│█████░░░░░");
        assert_eq!(drawn(500.0), "███│██████████");
        assert_eq!(scale(14), "0  │overdue 2m");
    }
}
