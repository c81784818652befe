//! The report of `pleg doctor`.

use std::collections::BTreeMap;

use causes::finding::{Confidence, Verdict};
use doctor::diagnosis::{Diagnosis, NodeVerdict, NotChecked, NotPermitted};
use doctor::facts::NodeFacts;
use doctor::facts::host::Gaps;
use doctor::facts::probes::GuardFacts;
use pleg::out::status_report::GuardMode;
use pleg::out::words::counted;

use super::finding::{body, head, past, styled_lines, titled};
use super::status::{duration, kubelet};
use super::wrap::{lines, wrap};
use super::{
    BAD, DIM, GOOD, LIMIT_REACHED, NOT_ANSWERED_YET, NOT_CONFIRMED, NOTHING_TO_ANSWER_FROM, WARN,
    sentence,
};

/// The maximum number of findings in the report; JSON has all of them.
const MAX_FINDINGS: usize = 8;
/// The maximum number of files in the report that could not be read; JSON has more.
const MAX_GAPS: usize = 8;

/// The summary first; then, for each finding, the evidence and what to do.
pub fn page(diagnosis: &Diagnosis, facts: &NodeFacts) -> String {
    let mut page = String::new();
    let (style, word) = match (diagnosis.verdict, diagnosis.current().first()) {
        (NodeVerdict::Ok, _) if diagnosis.is_partial => (GOOD, "OK"),
        (NodeVerdict::Ok, _) => (GOOD, "Healthy"),
        (NodeVerdict::Problem, Some(first)) if first.verdict == Verdict::Problem => {
            (BAD, "Problem")
        }
        (NodeVerdict::Problem, _) => (WARN, "Suspect"),
        (NodeVerdict::Unknown, _) => (WARN, "Unknown"),
    };
    titled(&mut page, style, word, &diagnosis.summary);
    for (number, finding) in diagnosis.findings.iter().take(MAX_FINDINGS).enumerate() {
        // The summary already is the sentence of the first problem.
        if number > 0 || finding.past || diagnosis.verdict != NodeVerdict::Problem {
            page.push('\n');
            let past = past(finding);
            let (style, word) = match (finding.verdict, finding.confidence) {
                _ if finding.past => (DIM, &*past),
                (_, Confidence::Low) => (WARN, "Low suspicion"),
                (Verdict::Problem, _) => (BAD, "Also"),
                (Verdict::Suspect, _) => (WARN, "Also suspected"),
            };
            titled(&mut page, style, word, finding.said());
        }
        body(&mut page, finding);
    }
    let more = diagnosis.findings.len().saturating_sub(MAX_FINDINGS);
    if more > 0 {
        let title = format!("And {more} more findings, shown by -o json");
        head(&mut page, &title);
    }
    if let Some(guard) = &facts.probes.guard {
        of_guard(&mut page, guard);
    }
    unread(&mut page, &facts.host.gaps);
    // An OK verdict that rests on an agent's reports lists the causes that were not checked.
    let causes = match diagnosis.verdict != NodeVerdict::Ok || facts.probes.agent.is_some() {
        true => &diagnosis.not_checked[..],
        false => &[],
    };
    // Without root, the same permissions are missing each time; one note at the end says so.
    let rights = match facts.probes.as_root || !causes.is_empty() {
        true => &diagnosis.not_permitted[..],
        false => &[],
    };
    not_checked(&mut page, causes, rights);
    not_as_root(&mut page, facts);
    page
}

/// The state of the guard, which decides what a kubelet behind it observes.
fn of_guard(page: &mut String, guard: &GuardFacts) {
    head(page, "The guard on this node");
    if let Some(unused) = guard.unused_seconds.map(duration) {
        let said = format!("no kubelet uses it: it had no list call for {unused}");
        return wrap(page, "  - ", &said);
    }
    let since = guard.since_seconds.map(duration);
    let does = match (guard.mode, since) {
        (GuardMode::Guard, Some(since)) => {
            format!("it has answered lists in place of the runtime for {since}")
        }
        (GuardMode::Guard, None) if guard.limit_reached => LIMIT_REACHED.to_owned(),
        (GuardMode::Guard, None) if guard.runtime_silent => NOTHING_TO_ANSWER_FROM.to_owned(),
        (GuardMode::Guard, None) if guard.refusing => NOT_CONFIRMED.to_owned(),
        (GuardMode::Guard, None) if guard.waiting => NOT_ANSWERED_YET.to_owned(),
        (GuardMode::Guard, None) => "all list calls currently pass through".to_owned(),
        (GuardMode::Shadow, _) => {
            "it only compares: all calls pass through (mode shadow)".to_owned()
        }
        (GuardMode::Pass | GuardMode::Off, _) => "all calls pass through (mode pass)".to_owned(),
    };
    wrap(page, "  - ", &does);
    let kubelet = kubelet(guard.kubelet_ready, &guard.kubelet);
    let kubelet = anstream::adapter::strip_str(&kubelet);
    wrap(page, "  - ", &format!("a kubelet behind it {kubelet}"));
}

/// The causes that could not be judged, by reason, and what could not be read without permission.
fn not_checked(page: &mut String, causes: &[NotChecked], rights: &[NotPermitted]) {
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for not in causes {
        let causes = by_reason.entry(not.why.clone()).or_default();
        causes.push(not.cause.id());
    }
    // A cause that was not judged may have the same reason.
    let rights = rights.iter().map(|right| {
        let why = right.sentence();
        let causes = by_reason.remove(&why).unwrap_or_default();
        (format!("{why}; needs {}", right.needs), causes)
    });
    let rights: Vec<_> = rights.collect();
    if by_reason.is_empty() && rights.is_empty() {
        return;
    }
    head(page, "Not checked");
    // Reasons that concern few causes come first.
    let mut by_reason: Vec<_> = by_reason.into_iter().chain(rights).collect();
    by_reason.sort_by_key(|(_, causes)| causes.len());
    for (why, causes) in by_reason {
        let said = match causes.is_empty() {
            true => sentence(&why).into_owned(),
            false => format!("{}: {}", causes.join(", "), sentence(&why)),
        };
        let mut part = String::new();
        wrap(&mut part, "  - ", &said);
        styled_lines(page, DIM, part.lines());
    }
}

/// The files of processes that could not be read in time.
fn unread(page: &mut String, gaps: &Gaps) {
    if gaps.is_empty() {
        return;
    }
    head(page, "Not read");
    for gap in gaps.files.iter().take(MAX_GAPS) {
        let said = format!("{}: {}", gap.file, gap.why);
        wrap(page, "  - ", &sentence(&said));
    }
    let more = gaps.files.len().saturating_sub(MAX_GAPS) + gaps.more;
    if more > 0 {
        let said = format!("{} of other processes", counted(more, "file"));
        wrap(page, "  - ", &said);
    }
    if gaps.processes > 0 {
        let said = format!("{} (time limit)", counted(gaps.processes, "process"));
        wrap(page, "  - ", &said);
    }
}

fn not_as_root(page: &mut String, facts: &NodeFacts) {
    if facts.probes.as_root || facts.probes.endpoint.is_empty() {
        return;
    }
    let hidden = match facts.probes.agent {
        Some(_) => {
            "the state of the runtime is reported by the agent on this node, and other users' \
             processes were mostly hidden"
        }
        None => "other users' processes, such as shims and CNI plugins, were mostly hidden",
    };
    let said = format!("Not run as root: {hidden}. Run it as root to see more.");
    page.push('\n');
    styled_lines(page, DIM, lines(&said));
}
