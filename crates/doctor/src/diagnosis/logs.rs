//! Adds what the logs show. Recent lines support what was found, or are findings of their own. A finding
//! of the logs is past if a judge shows that it is over, or if no recent line shows it.

use std::collections::BTreeSet;

use analyze::analysis::Analyzer;
use causes::Cause;
use causes::finding::{Finding, MAX_HEADLINE};
use pleg::model::wall_time::WallTime;

use crate::facts::NodeFacts;
use crate::facts::host::Process;
use crate::facts::logs::{LogFacts, LogLine};
use crate::limits::{MAX_ROUND_OF_EXITS_SECONDS, RECENT};

/// How many lines of the logs are added to a finding of a judge.
const MAX_EVIDENCE: usize = 3;

/// Whether the opinion `Clear` shows that a logged problem is over, and not only that it pauses.
pub(super) fn can_be_seen_to_be_over(facts: &NodeFacts, cause: Cause) -> bool {
    match cause {
        // systemd does not count restarts that others request.
        Cause::RepairLoop | Cause::RuntimeRestartLoop => false,
        // A kubelet that exits after each start runs in between.
        Cause::KubeletNotRunning => {
            let mut kubelets = facts.host.all_processes().iter();
            let is_old = |it: &Process| it.age_seconds > MAX_ROUND_OF_EXITS_SECONDS;
            kubelets.any(|process| process.is_kubelet() && is_old(process))
        }
        _ => true,
    }
}

/// Adds what recent lines of the logs show about the causes that are `wanted`. Returns the findings that
/// are past: those of causes for which `is_over` is true, and those that only earlier lines show.
pub(super) fn add(
    facts: &NodeFacts,
    findings: &mut Vec<Finding>,
    wanted: impl Fn(Cause) -> bool,
    is_over: impl Fn(Cause) -> bool,
) -> Vec<Finding> {
    let Some(logs) = facts.host.logs.value() else {
        return Vec::new();
    };
    let since = facts.taken.before(RECENT);
    let is_recent = |line: &&LogLine| line.time.is_none_or(|time| time >= since);
    let (recent, earlier): (Vec<_>, Vec<_>) = logs.lines.iter().partition(is_recent);
    let mut past = Vec::new();
    for said in of(recent, facts.taken) {
        if !wanted(said.cause) {
            continue;
        }
        match findings.iter_mut().find(|seen| seen.is_same_fault(&said)) {
            Some(seen) => support(seen, said),
            None if is_over(said.cause) => past.push(said),
            None => findings.push(said),
        }
    }
    for said in of(earlier, facts.taken) {
        let mut known = findings.iter().chain(&past);
        if wanted(said.cause) && !known.any(|known| known.cause == said.cause) {
            past.push(said);
        }
    }
    past.into_iter().map(|said| as_past(said, logs)).collect()
}

/// What these lines show.
fn of(lines: Vec<&LogLine>, taken: WallTime) -> Vec<Finding> {
    let mut analyzer = Analyzer::new();
    let mut log = None;
    let mut names = BTreeSet::new();
    for line in lines {
        if log != Some(&line.log) {
            analyzer.begin(&line.log, taken);
            log = Some(&line.log);
            names.insert(&*line.log);
        }
        analyzer.line(line.text.as_bytes(), false);
    }
    let mut findings = analyzer.finish().findings;
    let evidence = findings.iter_mut().flat_map(|found| &mut found.evidence);
    for said in evidence {
        if let Some(unnumbered) = names.iter().find_map(|log| without_number(said, log)) {
            *said = unnumbered;
        }
    }
    findings
}

/// Removes the line number from evidence: most lines of the log were not kept, so it is not the line's
/// number in the log.
fn without_number(said: &str, log: &str) -> Option<String> {
    let line = said.strip_prefix(log)?.strip_prefix(':')?;
    let text = line.trim_start_matches(|char: char| char.is_ascii_digit());
    (text.len() < line.len()).then(|| format!("{log}{text}"))
}

/// Adds to the finding of a judge what the logs show about the same fault.
fn support(seen: &mut Finding, said: Finding) {
    // Only the last error of a kubelet shows why it exits.
    if seen.cause == Cause::KubeletNotRunning && !said.sentence.is_empty() {
        let both = [
            format!("{}; {}", seen.said(), said.sentence),
            format!("no kubelet is running: {}", said.sentence),
        ];
        let fits = |both: &String| both.chars().count() <= MAX_HEADLINE;
        seen.evidence.push(seen.said().to_owned());
        seen.sentence = both.into_iter().find(fits).unwrap_or(said.sentence);
    }
    seen.evidence
        .extend(said.evidence.into_iter().take(MAX_EVIDENCE));
    seen.culprit.learn(said.culprit);
    if said.confidence > seen.confidence {
        seen.confidence = said.confidence;
        seen.verdict = said.verdict;
    }
}

fn as_past(said: Finding, logs: &LogFacts) -> Finding {
    let minutes = logs.seconds / 60;
    Finding {
        past: true,
        sentence: format!("in the log of the last {minutes} minutes: {}", said.said()),
        ..said
    }
}
