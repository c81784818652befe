//! What the logs say beside what is seen now: lines of the last minutes support what is found, or are
//! findings of their own. What a judge sees not to be so any more, or what no recent line says, is past.

use std::time::Duration;

use analyze::analysis::Analyzer;
use causes::Cause;
use causes::finding::Finding;
use pleg::model::wall_time::WallTime;

use crate::facts::NodeFacts;
use crate::facts::logs::{LogFacts, LogLine};

/// A problem that no line reports for so long may be over.
const RECENT: Duration = Duration::from_secs(5 * 60);

/// As many lines of a log as are added to what is seen.
const MAX_EVIDENCE: usize = 3;

/// Adds what the logs say of the causes that are `wanted`, of which those that are `clear` are seen not
/// to be so now. Gives what is past.
pub(super) fn add(
    facts: &NodeFacts,
    findings: &mut Vec<Finding>,
    wanted: impl Fn(Cause) -> bool,
    is_clear: impl Fn(Cause) -> bool,
) -> Vec<Finding> {
    let Some(logs) = facts.host.logs.value() else {
        return Vec::new();
    };
    let since = facts.taken.before(RECENT);
    let recent = |line: &&LogLine| line.time.is_none_or(|time| time >= since);
    let mut past = Vec::new();
    for said in of(logs.lines.iter().filter(recent), facts.taken) {
        if !wanted(said.cause) {
            continue;
        }
        match findings.iter_mut().find(|seen| seen.is_same_fault(&said)) {
            Some(seen) => support(seen, said),
            None if is_clear(said.cause) => past.push(said),
            None => findings.push(said),
        }
    }
    let earlier = of(logs.lines.iter(), facts.taken).into_iter();
    let is_new = |said: &Finding| {
        let mut known = findings.iter().chain(&past);
        wanted(said.cause) && !known.any(|known| known.cause == said.cause)
    };
    let earlier: Vec<Finding> = earlier.filter(is_new).collect();
    past.extend(earlier);
    past.into_iter().map(|said| as_past(said, logs)).collect()
}

/// What these lines say.
fn of<'a>(lines: impl Iterator<Item = &'a LogLine>, taken: WallTime) -> Vec<Finding> {
    let mut analyzer = Analyzer::new();
    let mut log = None;
    for line in lines {
        if log != Some(&line.log) {
            analyzer.begin(&line.log, taken);
            log = Some(&line.log);
        }
        analyzer.line(line.text.as_bytes(), false);
    }
    analyzer.finish().findings
}

/// What is seen, and its log says so too.
fn support(seen: &mut Finding, said: Finding) {
    // Why a kubelet exits only its own last error tells.
    if seen.cause == Cause::KubeletNotRunning && !said.sentence.is_empty() {
        seen.sentence = format!("{}; {}", seen.said(), said.sentence);
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
