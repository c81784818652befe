//! The last line: the prompt, or the keys.

use ratatui::text::{Line, Span};

use super::Theme;
use super::format::printable;
use crate::input::Mode;
use crate::state::State;
use crate::state::page::{Prompt, Topic};

pub fn line(state: &State, theme: &Theme) -> Line<'static> {
    match &state.prompt {
        Some(Prompt::Filter(typed)) => typing("/", typed, "enter keeps it, esc removes it", theme),
        Some(Prompt::Time { typed, error }) => {
            let hint = error.as_deref().unwrap_or("14:33:52, +30s or -2m");
            typing("time: ", typed, hint, theme)
        }
        None => keys(state, theme),
    }
}

fn typing(label: &str, typed: &str, hint: &str, theme: &Theme) -> Line<'static> {
    Line::from(vec![
        Span::styled(label.to_owned(), theme.bold()),
        Span::raw(printable(typed, 60)),
        Span::styled("█", theme.dim()),
        Span::styled(format!("  {}", printable(hint, 60)), theme.dim()),
    ])
}

fn keys(state: &State, theme: &Theme) -> Line<'static> {
    let shown = state.pages.last().map(|page| &page.topic);
    let keys: &[(&str, &str)] = match (shown, state.mode()) {
        (Some(Topic::Help), _) => &[("esc", "back"), ("↑↓", "scroll"), ("q", "quit")],
        (Some(_), Mode::Replay) => &[
            ("esc", "back"),
            ("j k", "step"),
            ("t", "time"),
            ("↑↓", "scroll"),
            ("?", "help"),
            ("q", "quit"),
        ],
        (Some(_), _) => &[
            ("esc", "back"),
            ("↑↓", "scroll"),
            ("?", "help"),
            ("q", "quit"),
        ],
        (None, Mode::Replay) => &[
            ("j k", "step"),
            ("t", "time"),
            ("/", "filter"),
            ("^z", "faults"),
            ("tab", "table"),
            ("enter", "open"),
            ("?", "help"),
            ("q", "quit"),
        ],
        (None, _) => &[
            ("/", "filter"),
            ("^z", "faults"),
            ("tab", "table"),
            ("enter", "open"),
            ("d", "doctor"),
            ("?", "help"),
            ("q", "quit"),
        ],
    };
    let mut spans = Vec::new();
    if !state.filter.is_empty() {
        let text = format!("/{}", printable(&state.filter.to_string(), 30));
        spans.push(Span::styled(text, theme.warning()));
        spans.push(Span::raw("  "));
    }
    for (key, meaning) in keys {
        spans.push(Span::styled((*key).to_owned(), theme.bold()));
        spans.push(Span::styled(format!(" {meaning}  "), theme.dim()));
    }
    Line::from(spans)
}
