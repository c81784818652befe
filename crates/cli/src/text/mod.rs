//! Text for people: aligned, calm colours, and nothing that a runtime could disturb a
//! terminal with.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};
use pleg::health::HealthState;

pub mod analyze;
pub mod doctor;
pub mod npd;
pub mod pods;
pub mod status;
pub mod watch;

mod wrap;
pub use wrap::wrap;

pub const DIM: Style = Style::new().dimmed();
pub const BOLD: Style = Style::new().bold();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const WARN: Style = AnsiColor::Yellow.on_default();
pub const BAD: Style = AnsiColor::Red.on_default();

/// The longest name that is shown whole; Kubernetes allows 253.
const LONGEST: usize = 253;

/// The longest sentence that is shown whole: a few names, each at its longest.
const LONGEST_SENTENCE: usize = 2000;

/// A name of the runtime's as it may be shown: control characters escaped, and cut where
/// no name can be that long.
pub fn printable(name: &str) -> Cow<'_, str> {
    shown(name, LONGEST)
}

/// The same for a sentence, which may hold several names.
pub fn sentence(text: &str) -> Cow<'_, str> {
    shown(text, LONGEST_SENTENCE)
}

fn shown(text: &str, longest: usize) -> Cow<'_, str> {
    let long = text.chars().nth(longest).is_some();
    if !long && !text.chars().any(is_unprintable) {
        return text.into();
    }
    let mut shown: String = text
        .chars()
        .take(longest)
        .map(|character| match is_unprintable(character) {
            true => character.escape_default().to_string(),
            false => character.to_string(),
        })
        .collect();
    if long {
        shown.push('…');
    }
    shown.into()
}

/// Control characters, and those that turn the direction of writing.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The colour of a state of health.
pub fn health_style(state: HealthState) -> Style {
    match state {
        HealthState::Healthy => GOOD,
        HealthState::Starting | HealthState::Degraded => WARN,
        HealthState::Unhealthy => BAD,
    }
}

/// The text in a style.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_disturb_a_terminal() {
        assert_eq!(printable("web-0"), "web-0");
        assert_eq!(printable("a\u{1b}[2Jb\r\n"), "a\\u{1b}[2Jb\\r\\n");
        assert_eq!(printable("\u{202e}evil"), "\\u{202e}evil");
        assert_eq!(printable(&"x".repeat(10_000)).chars().count(), LONGEST + 1);
    }
}
