//! Reads everything that can be drawn, and makes a picture of it.
//!
//! ```text
//!   a recording, a snapshot --> entries --fold--> episodes --\
//!   a bundle (or a snapshot's) --> facts --diagnose--> causes +--> Picture
//!   logs, dumps, ... --> analysis --> episodes, causes ------/
//! ```

mod times;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use agent::history_directory;
use analyze::analysis::{Analysis, Analyzer, InputReport};
use analyze::input::{self, NoObserver};
use anyhow::{Context, bail};
use causes::finding::{Finding, Verdict};
use doctor::bundle;
use doctor::diagnosis::diagnose;
use doctor::facts::NodeFacts;
use episodes::{Episode, Source, What};
use pleg::model::wall_time::WallTime;
use pleg::out::words::counted;
use pleg_text::GoDuration;
use recorder::fold::Fold;
use recorder::store::{Range, Skipped, is_being_recorded, is_recording_file};
use timeline::{Advice, Picture};

use self::times::{Times, apart};
use crate::commands::check_permission;
use crate::output::sentence;
use crate::text::printable;

/// The maximum number of causes in the sentence of the summary.
const MAX_CAUSES: usize = 3;

/// The file name that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// Everything that was read.
#[derive(Default)]
struct Read {
    episodes: Vec<Episode>,
    findings: Vec<Finding>,
    /// The summary of a diagnosis or an analysis that found no cause.
    summary: Option<String>,
    sources: Vec<String>,
    notes: Vec<String>,
    /// The names of nodes in the logs.
    nodes: BTreeSet<String>,
    /// The first and the last time in each source that has times.
    times: Vec<Times>,
}

/// Reads all paths; without any, the recording of this node since `since`. An error if there is
/// nothing to draw.
pub fn read(paths: &[String], since: Option<WallTime>, now: WallTime) -> anyhow::Result<Picture> {
    let mut read = Read::default();
    let mut files = Vec::new();
    let own = [history_directory().display().to_string()];
    let paths = if paths.is_empty() { &own } else { paths };
    let range = Range {
        from: since,
        to: None,
    };
    let mut unreadable = Vec::new();
    for path in paths {
        let place = Path::new(path);
        if path != STANDARD_INPUT
            && let Err(error) = check_permission(place)
        {
            unreadable.push(error);
            continue;
        }
        let result = if is_recording_file(place) {
            read.recording(path, range, now)
        } else if recorder::snapshot::is_snapshot(place) {
            read.snapshot(path)
        } else if bundle::is_bundle(place) {
            read.bundle(path)
        } else {
            files.push(path.clone());
            Ok(())
        };
        unreadable.extend(result.err());
    }
    if std::ptr::eq(paths, &own) && !files.is_empty() {
        bail!(
            "there is no recording in {}: `pleg agent` and `pleg run` make one; to draw saved files, \
             use --from",
            printable(&own[0])
        );
    }
    if !files.is_empty() {
        unreadable.extend(read.files(&files, now));
    }
    if unreadable.len() == paths.len() {
        return Err(unreadable.remove(0));
    }
    let incomplete = unreadable.iter().map(sentence);
    read.notes
        .extend(incomplete.map(|error| format!("Not complete: {error}.")));
    read.into_picture()
}

impl Read {
    /// Reads a recording: a folder of segments, or one segment.
    fn recording(&mut self, path: &str, range: Range, now: WallTime) -> anyhow::Result<()> {
        let mut entries = recorder::store::read(Path::new(path), range)
            .with_context(|| printable(path).into_owned())?;
        let (mut fold, mut count) = (Fold::default(), 0);
        for entry in &mut entries {
            fold.take(entry);
            count += 1;
        }
        if is_being_recorded(Path::new(path)) {
            fold.runs_at(now);
        }
        self.add_fold(path, fold);
        let count = counted(count, "entry");
        self.sources.push(format!("{path} (recording, {count})"));
        self.notes.extend(skipped(entries.skipped()));
        Ok(())
    }

    fn snapshot(&mut self, path: &str) -> anyhow::Result<()> {
        let mut read = recorder::snapshot::open(Path::new(path))
            .with_context(|| printable(path).into_owned())?;
        let count = counted(read.entries.len(), "entry");
        self.add_fold(path, read.fold());
        self.sources.push(format!("{path} (snapshot, {count})"));
        if !read.is_complete {
            self.notes
                .push(format!("{path} is cut off: its end is missing."));
        }
        if let Some(error) = read.unreadable_bundle {
            let error = sentence(&error.into());
            self.notes
                .push(format!("The bundle in {path} cannot be read: {error}."));
        }
        if let Some(facts) = read.parts.facts {
            self.add_diagnosis(path, &facts);
        }
        Ok(())
    }

    fn bundle(&mut self, path: &str) -> anyhow::Result<()> {
        let facts = bundle::read(Path::new(path)).with_context(|| printable(path).into_owned())?;
        self.sources.push(format!("{path} (bundle)"));
        self.note_times(path, Some(facts.taken), Some(facts.taken));
        self.add_diagnosis(path, &facts);
        Ok(())
    }

    fn add_fold(&mut self, path: &str, fold: Fold) {
        self.findings.extend(fold.findings());
        self.note_times(path, fold.read_from(), fold.read_until());
        if let Some(by) = fold.set_back() {
            let by = GoDuration(Duration::from_secs(by.as_secs()));
            self.notes.push(format!(
                "{path}: the clock of the node was set back by {by}; what happened around that time \
                 is shown too short or in the wrong order."
            ));
        }
        let (episodes, dropped) = fold.finish();
        self.note_dropped(path, dropped);
        self.episodes.extend(episodes);
    }

    /// Adds the findings of a bundle, at the time when it was taken.
    fn add_diagnosis(&mut self, path: &str, facts: &NodeFacts) {
        let diagnosis = diagnose(facts, |_| true);
        let source = Source {
            file: path.to_owned(),
            line: None,
            text: String::new(),
        };
        let episodes = diagnosis.findings.iter().map(|finding| {
            let what = What::Finding {
                cause: finding.cause,
                confidence: finding.confidence.as_str().to_owned(),
            };
            Episode::at(facts.taken, what, finding.said())
                .about(finding.culprit.clone())
                .written(source.clone())
        });
        self.episodes.extend(episodes);
        self.add_findings(diagnosis.findings, diagnosis.summary);
    }

    /// Reads logs, dumps and everything else. Returns the errors.
    fn files(&mut self, paths: &[String], now: WallTime) -> Vec<anyhow::Error> {
        let mut analyzer = Analyzer::new();
        let one = NonZeroUsize::MIN;
        let unreadable = input::read(paths, now, one, &mut analyzer, &mut NoObserver);
        let analysis = analyzer.finish();
        let was_read = |input: &&InputReport| input.error.is_none() || input.lines > 0;
        let inputs = analysis.inputs.iter().filter(was_read);
        self.sources.extend(inputs.map(|input| {
            let kind = input.kind.as_str();
            let lines = counted(input.lines as usize, "line");
            format!("{} ({kind}, {lines})", input.path)
        }));
        let is_skipped = |input: &&InputReport| {
            !was_read(input) && unreadable.iter().all(|other| other.path != input.path)
        };
        let skipped = analysis.inputs.iter().filter(is_skipped);
        self.notes.extend(skipped.filter_map(|input| {
            let why = input.error.as_ref()?;
            Some(format!("{} was {why}.", input.path))
        }));
        self.note_dropped("the files", analysis.dropped.episodes);
        let inputs = || analysis.inputs.iter().filter(was_read);
        for input in inputs() {
            self.note_times(&input.path, input.read_from, input.read_until);
        }
        let timeless = inputs().filter(|input| input.read_until.is_none());
        let timeless: Vec<&str> = timeless.map(|input| input.path.as_str()).collect();
        let paths = timeless.join(", ");
        self.notes.extend(match timeless.len() {
            0 => None,
            1 => Some(format!(
                "{paths} has no line with a time: it is not in the picture, only in the causes."
            )),
            _ => Some(format!(
                "{paths} have no line with a time: they are not in the picture, only in the causes."
            )),
        });
        let dateless = inputs().filter(|input| input.lacks_dates && input.read_until.is_some());
        self.notes.extend(dateless.map(|input| {
            let path = &input.path;
            format!(
                "{path} has no dates: each time is taken for the last one before the file was \
                 modified."
            )
        }));
        let yearless = inputs().filter(|input| input.lacks_year);
        self.notes.extend(yearless.filter_map(|input| {
            let (path, year) = (&input.path, input.read_until?.timestamp().strftime("%Y"));
            Some(format!(
                "{path} has no year: {year} is assumed, because of the time at which the file was \
                 modified."
            ))
        }));
        let intervals = analysis.pleg.iter().flat_map(|pleg| &pleg.intervals);
        let hosts = intervals.map(|interval| interval.host.clone());
        self.nodes.extend(hosts.filter(|host| !host.is_empty()));
        let has_problem = analysis.has_problem();
        let Analysis {
            summary,
            findings,
            episodes,
            ..
        } = analysis;
        self.episodes.extend(episodes);
        if has_problem {
            self.add_findings(findings, summary);
        }
        unreadable.into_iter().map(Into::into).collect()
    }

    /// Records the first and the last time in a source.
    fn note_times(&mut self, path: &str, from: Option<WallTime>, until: Option<WallTime>) {
        if let Some((from, until)) = from.zip(until) {
            self.times.push(Times {
                path: path.to_owned(),
                from,
                // Lines of several processes may be out of order.
                until: until.max(from),
            });
        }
    }

    fn add_findings(&mut self, findings: Vec<Finding>, summary: String) {
        if findings.is_empty() && !summary.is_empty() {
            self.summary.get_or_insert(summary);
        }
        self.findings.extend(findings);
    }

    fn note_dropped(&mut self, path: &str, dropped: u64) {
        if dropped > 0 {
            self.notes.push(format!(
                "{path}: there are more episodes than can be kept; the picture lacks {}.",
                counted(dropped as usize, "episode")
            ));
        }
    }

    fn into_picture(mut self) -> anyhow::Result<Picture> {
        self.findings
            .sort_by_key(|finding| (finding.past, Reverse(finding.confidence)));
        let mut findings: Vec<Finding> = Vec::new();
        for finding in self.findings {
            // If several findings are about one fault, keep the first. Current ones come before past
            // ones, then those of the highest confidence.
            let is_again = |known: &Finding| match finding.found_at {
                Some(_) => known.is_same_fault(&finding),
                None => known.cause == finding.cause && known.said() == finding.said(),
            };
            if !findings.iter().any(is_again) {
                findings.push(finding);
            }
        }
        self.findings = findings;
        let advice: Vec<Advice> = self.findings.iter().map(advice).collect();
        let until = self.times.iter().map(|times| times.until).max();
        self.notes.extend(apart(self.times));
        if self.nodes.len() > 1 {
            let nodes: Vec<&str> = self.nodes.iter().map(String::as_str).collect();
            self.notes.push(format!(
                "The logs are of several nodes, which are drawn as if they were one: {}.",
                printable(&nodes.join(", "))
            ));
        }
        let Some(picture) = Picture::new(String::new(), self.episodes) else {
            let sources = match self.sources.is_empty() {
                true => &self.notes,
                false => &self.sources,
            };
            let read = printable(&sources.join(", ")).into_owned();
            match until {
                Some(_) => bail!(
                    "there is nothing to draw: {read} shows no stuck call, and no effect on the node; \
                     `pleg analyze` may find more"
                ),
                None => bail!(
                    "there is nothing to draw: no line has a time that can be read in {read}; `pleg \
                     analyze` reads what has no times"
                ),
            }
        };
        let picture = picture.read_until(until);
        let happened = timeline::summary(&picture.episodes);
        let without_cause = self.summary.filter(|_| happened.is_none());
        let cause = probable(&self.findings, happened.is_some()).or(without_cause);
        let sentences: Vec<String> = happened.into_iter().chain(cause).collect();
        let nothing = "No call was stuck, and nothing shows that the node was affected.";
        Ok(Picture {
            summary: match sentences.is_empty() {
                true => nothing.to_owned(),
                false => sentences.join(" "),
            },
            // If the logs are of several nodes, the picture has no node.
            node: self.nodes.pop_first().filter(|_| self.nodes.is_empty()),
            advice,
            sources: self.sources,
            notes: self.notes,
            ..picture
        })
    }
}

/// The causes that are as probable as the first one, in one sentence. If episodes already explain what
/// happened, suspected causes appear only in the list of causes.
fn probable(findings: &[Finding], has_episode_summary: bool) -> Option<String> {
    let first = findings.first()?;
    let is_as_probable = |it: &&Finding| (it.past, it.confidence) == (first.past, first.confidence);
    let mut said: Vec<&str> = Vec::new();
    for finding in findings.iter().take_while(is_as_probable) {
        if !said.contains(&finding.said()) {
            said.push(finding.said());
        }
    }
    let more = match said.len().saturating_sub(MAX_CAUSES) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    said.truncate(MAX_CAUSES);
    let which = match (first.verdict, said.len()) {
        (Verdict::Suspect, _) if has_episode_summary => return None,
        (Verdict::Suspect, _) => "Suspected",
        (Verdict::Problem, 1) => "Cause",
        (Verdict::Problem, _) => "Causes",
    };
    let which = match first.past {
        true => format!("{which} ({})", first.past_note()),
        false => which.to_owned(),
    };
    Some(format!("{which}: {}{more}.", said.join("; ")))
}

fn advice(finding: &Finding) -> Advice {
    Advice {
        cause: finding.cause.id().to_owned(),
        confidence: finding.confidence.as_str().to_owned(),
        past: finding.past_note(),
        sentence: finding.said().to_owned(),
        culprit: finding.culprit.named_beside(""),
        evidence: finding.evidence.first().cloned(),
        steps: finding.advice.iter().map(ToString::to_string).collect(),
    }
}

/// A sentence about the parts of a recording that could not be read.
fn skipped(skipped: Skipped) -> Option<String> {
    let Skipped {
        damaged_bytes,
        // A torn segment is normal: its writer is still writing, or was killed.
        torn_segments: _,
        unknown_entries,
        newer_segments,
        removed_segments,
        unreadable_segments,
    } = skipped;
    let parts = [
        (damaged_bytes, "damaged byte", ""),
        (unknown_entries, "entry", " of a newer pleg"),
        (newer_segments, "segment", " of a newer pleg"),
        (removed_segments, "segment", " removed meanwhile"),
        (unreadable_segments, "unreadable segment", ""),
    ];
    let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
    let parts = parts.map(|(count, noun, more)| counted(count as usize, noun) + more);
    let list = parts.collect::<Vec<_>>().join(", ");
    (!list.is_empty()).then(|| format!("Skipped in the recording: {list}."))
}
