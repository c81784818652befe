//! What the logs say beside what is seen now: lines of the last minutes support what is found, or are
//! findings of their own. What a judge sees not to be so any more, or what no recent line says, is past.

use std::collections::BTreeSet;

use analyze::analysis::Analyzer;
use causes::Cause;
use causes::finding::{Finding, MAX_HEADLINE};
use pleg::model::wall_time::WallTime;

use crate::facts::NodeFacts;
use crate::facts::logs::{LogFacts, LogLine};
use crate::limits::{MAX_ROUND_OF_EXITS_SECONDS, RECENT};

/// As many lines of a log as are added to what is seen.
const MAX_EVIDENCE: usize = 3;

/// Whether facts show that what was logged is over, although the same may happen again at once.
pub(super) fn can_be_seen_to_be_over(facts: &NodeFacts, cause: Cause) -> bool {
    match cause {
        // systemd does not count restarts that others request.
        Cause::RepairLoop | Cause::RuntimeRestartLoop => false,
        // One that exits at each start runs in between.
        Cause::KubeletNotRunning => {
            let mut kubelets = facts.host.all_processes().iter();
            kubelets.any(|process| {
                process.is_kubelet() && process.age_seconds > MAX_ROUND_OF_EXITS_SECONDS
            })
        }
        _ => true,
    }
}

/// Adds what the logs say of the causes that are `wanted`, of which those that are `over` are seen not to
/// be so now. Gives what is past.
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

/// What these lines say.
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

/// Names only the log: most lines of it were not kept, so the number is not that of the line in it.
fn without_number(said: &str, log: &str) -> Option<String> {
    let line = said.strip_prefix(log)?.strip_prefix(':')?;
    let text = line.trim_start_matches(|char: char| char.is_ascii_digit());
    (text.len() < line.len()).then(|| format!("{log}{text}"))
}

/// What is seen, and its log says so too.
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
