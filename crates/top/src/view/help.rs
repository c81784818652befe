//! The keys, and how to read the screen.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Theme;
use super::format::wrapped;
use crate::state::State;

/// The key that runs the doctor.
const DOCTOR_KEY: &str = "d";

/// The effects of the keys. `pleg top --help` lists the same.
pub const KEYS: &[(&str, &str)] = &[
    ("↑ ↓  j k", "move; in a recording j and k step"),
    ("PgUp PgDn  g G", "move by a page, to the first or last row"),
    ("tab  shift-tab", "next table, previous table"),
    ("enter", "the pod's history, or the finding"),
    ("esc", "back; then remove the filter"),
    ("/", "filter by pod, container, call or id"),
    ("!  /!text", "filter that leaves out what it matches"),
    ("ctrl-z", "faults only, or all"),
    (
        "S N T A L",
        "sort pods by state, name, restarts, last change, latency",
    ),
    (DOCTOR_KEY, "run the doctor on this node"),
    ("t", "in a recording: go to a time"),
    ("?", "this page"),
    ("q  ctrl-c", "quit"),
];

const READING_HELP: &[&str] = &[
    "CHANGED is the time since anything happened in the pod. LATENCY is the time from a \
     container's start or end, by the runtime's clock, to the event that reports it.",
    "A bar shows how long a call has not been answered: its first quarter is the time until \
     the call is overdue, the rest the time until a kubelet gives up on it, two minutes \
     by default.",
    "A filter does not hide what concerns the whole node: lists, changes of health, findings.",
    "Grey text is not current: the first lines say since when, and why.",
];

pub fn lines(state: &State, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled("Keys", theme.bold())];
    let is_recording = state.position.is_some();
    // The doctor cannot examine a node of the past.
    let keys = KEYS
        .iter()
        .filter(|(key, _)| !(is_recording && *key == DOCTOR_KEY));
    for (key, meaning) in keys {
        lines.push(Line::from(vec![
            Span::styled(format!("  {key:<16}"), theme.warning()),
            Span::raw(*meaning),
        ]));
    }
    if let Some(position) = state.position {
        let (first, last) = (position.first, position.last);
        lines.push(Line::default());
        let text = format!("This recording begins at {first} and ends at {last}.");
        lines.extend(wrapped(&text, width, Style::new()));
    }
    for text in READING_HELP {
        lines.push(Line::default());
        lines.extend(wrapped(text, width, Style::new()));
    }
    lines
}
