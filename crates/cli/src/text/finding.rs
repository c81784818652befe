//! A finding, as all commands show it: the sentence, the evidence, the advice.

use std::fmt;

use anstyle::Style;
use causes::finding::{Finding, Verdict};

use super::wrap::{lines, wrap};
use super::{BOLD, sentence, styled};

/// The maximum number of lines of evidence; JSON has all of them.
const MAX_EVIDENCE: usize = 16;

/// Adds `word` in this style, then `text`.
pub fn titled(page: &mut String, style: Style, word: &str, text: &str) {
    let whole = format!("{word}: {}", sentence(text));
    for (number, line) in lines(&whole).into_iter().enumerate() {
        match line.strip_prefix(word).filter(|_| number == 0) {
            Some(rest) => page.push_str(&format!("{}{rest}\n", styled(style, word))),
            None => page.push_str(&format!("{line}\n")),
        }
    }
}

/// The word before a past finding.
pub fn past(finding: &Finding) -> String {
    let note = finding.past_note();
    match finding.verdict {
        Verdict::Problem => format!("Problem ({note})"),
        Verdict::Suspect => format!("Suspect ({note})"),
    }
}

/// Adds a heading.
pub fn head(page: &mut String, title: &str) {
    page.push('\n');
    styled_lines(page, BOLD, lines(title));
}

/// Adds lines in this style.
pub fn styled_lines(page: &mut String, style: Style, lines: impl IntoIterator<Item: fmt::Display>) {
    for line in lines {
        page.push_str(&styled(style, line));
        page.push('\n');
    }
}

/// Adds evidence, advice and fixed versions of a finding.
pub fn body(page: &mut String, finding: &Finding) {
    let sure = finding.confidence.as_str();
    head(page, &format!("Evidence ({}, {sure})", finding.cause));
    for evidence in finding.evidence.iter().take(MAX_EVIDENCE) {
        wrap(page, "  - ", &sentence(evidence));
    }
    if let Some(culprit) = finding.culprit.named_beside(finding.said()) {
        wrap(page, "  - ", &format!("culprit: {}", sentence(&culprit)));
    }
    match finding.past {
        _ if finding.advice.is_empty() => {}
        true => head(page, "What to do if it happens again"),
        false => head(page, "What to do now"),
    }
    for (number, advice) in finding.advice.iter().enumerate() {
        wrap(page, &format!("  {}. ", number + 1), &sentence(advice));
    }
    head(page, "Permanent fix");
    // A version that this node already has is not listed, because it does not fix this fault.
    if finding.cause.about().fixed_in.is_empty() {
        wrap(page, "  - ", "no version is known to fix it");
    }
    for version in &finding.fixed_in {
        wrap(page, "  - ", version);
    }
    let more = format!("`pleg explain {}` shows the details", finding.cause);
    wrap(page, "  - ", &more);
}
