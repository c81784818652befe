//! The page of a finding: title, evidence, advice.

use ratatui::style::Style;
use ratatui::text::Line;

use super::Theme;
use super::findings::style;
use super::format::{indented, wrapped};
use crate::state::State;

pub fn lines(state: &State, place: usize, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let Some(finding) = state.findings().get(place) else {
        let why = match state.position {
            Some(_) => "At this time, no finding was recorded.",
            None => "The doctor has run again since.",
        };
        return wrapped(why, width, theme.dim());
    };
    let mut lines = wrapped(finding.text(), width, style(finding, theme));
    let about = format!(
        "{}, {} confidence; `pleg explain {}` describes it",
        finding.verdict, finding.confidence, finding.cause
    );
    lines.extend(wrapped(&about, width, theme.dim()));
    // A recorded finding of an older version has only its sentence.
    if !finding.evidence.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled("Evidence", theme.bold()));
    }
    for evidence in &finding.evidence {
        lines.extend(indented(evidence, width, "  - ", Style::new()));
    }
    if !finding.advice.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled("What to do now", theme.bold()));
    }
    for (number, advice) in finding.advice.iter().enumerate() {
        let mark = format!("  {}. ", number + 1);
        lines.extend(indented(advice, width, &mark, Style::new()));
    }
    lines
}
