//! The doctor's findings, after it was run.

use pleg::model::wall_time::WallTime;
use ratatui::layout::Constraint;
use ratatui::style::Style;
use ratatui::widgets::Cell;

use super::Theme;
use super::format::{clock_at, fit, printable, rounded_age};
use super::table::Table;
use crate::diagnosis::{Diagnosis, Finding};
use crate::state::State;
use crate::state::node::Examination;
use crate::state::page::Panel;

pub fn table<'a>(state: &'a State, width: u16, theme: &'a Theme) -> Table<'a> {
    let findings = state.findings();
    let rest = usize::from(width.saturating_sub(7 + 8 + 4));
    Table {
        title: title(state),
        header: None,
        widths: vec![
            Constraint::Length(7),
            Constraint::Length(8),
            Constraint::Fill(1),
        ],
        count: findings.len(),
        row: Box::new(move |place| {
            let finding = &findings[place];
            vec![
                Cell::from(printable(&finding.verdict, 7)).style(style(finding, theme)),
                Cell::from(printable(&finding.confidence, 8)),
                Cell::from(fit(&pleg_text::escape::sentence(finding.text()), rest)),
            ]
        }),
        selected: state.selected(Panel::Findings),
    }
}

fn title(state: &State) -> String {
    let ago = |at| rounded_age(state.now.since(at));
    match &state.node.examination {
        // The doctor cannot examine a node of the past.
        Examination::NotRun if state.position.is_some() => {
            "Doctor: no finding was recorded".to_owned()
        }
        Examination::NotRun => "Doctor: press d to run it".to_owned(),
        Examination::Running { since } => {
            format!(
                "Doctor: examining the node for {}, at most 30s",
                ago(*since)
            )
        }
        // A snapshot is taken after the end of its recording.
        Examination::Done { at, diagnosis } if *at > state.now => {
            let at = clock_at(*at, state.now);
            format!("Doctor, at {at}{}", summary(diagnosis))
        }
        Examination::Done { at, diagnosis } => {
            let then = match is_past(state, *at) {
                true => ", before the health changed",
                false => "",
            };
            format!("Doctor, {} ago{then}{}", ago(*at), summary(diagnosis))
        }
        Examination::Failed { at, why } => {
            let why = pleg_text::escape::sentence(why);
            format!("Doctor, {} ago, failed: {why}", ago(*at))
        }
    }
}

/// The summary for the title, unless a row already shows it.
fn summary(diagnosis: &Diagnosis) -> String {
    let mut findings = diagnosis.findings.iter();
    match findings.any(|finding| finding.text() == diagnosis.summary) {
        true => String::new(),
        false => format!(": {}", pleg_text::escape::sentence(&diagnosis.summary)),
    }
}

/// Whether the node's health has changed since the diagnosis.
fn is_past(state: &State, at: WallTime) -> bool {
    let status = state.node.status.as_ref();
    status.is_some_and(|status| status.value.health.since > at)
}

/// The style of a finding.
pub fn style(finding: &Finding, theme: &Theme) -> Style {
    match finding.verdict.as_str() {
        "problem" => theme.bad(),
        _ => theme.warning(),
    }
}
