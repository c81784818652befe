//! A recording, or the one in a snapshot, for `pleg top --from`.

use std::path::Path;

use anyhow::{Context, bail};
use doctor::diagnosis::diagnose;
use doctor::facts::NodeFacts;
use pleg::model::wall_time::WallTime;
use recorder::store::{Range, is_recording_file};
use recorder::{Entry, replay};
use top::recording::Recording;
use top::state::events::MAX_ENTRIES;
use top::update::{Source, Update};

use crate::commands::check_permission;
use crate::text::printable_path;

/// What was recorded.
struct Recorded {
    recording: replay::Recording,
    /// The diagnosis of the bundle in a snapshot.
    findings: Option<Update>,
}

/// Reads a recording, or the one in a snapshot.
pub fn read(path: &Path) -> anyhow::Result<impl Recording + Send + use<>> {
    let place = printable_path(path);
    check_permission(path)?;
    let (entries, facts) = if is_recording_file(path) {
        let entries = recorder::store::read(path, Range::default());
        (entries.context(place.clone())?.collect(), None)
    } else if recorder::snapshot::is_snapshot(path) {
        let read = recorder::snapshot::open(path).context(place.clone())?;
        let seen = read.observed();
        let entries: Vec<Entry> = read.entries.into_iter().chain(seen).collect();
        (entries, read.parts.facts)
    } else {
        path.metadata().context(place.clone())?;
        bail!("{place} is neither a recording of an agent nor a snapshot of `pleg snapshot`");
    };
    let recording = replay::Recording::new(entries)
        .with_context(|| format!("{place} has no recording to step through"))?;
    let findings = facts.as_ref().map(findings).transpose()?;
    Ok(Recorded {
        recording,
        findings,
    })
}

/// The diagnosis of a bundle, as `pleg doctor --from` prints it.
fn findings(facts: &NodeFacts) -> anyhow::Result<Update> {
    let diagnosis = serde_json::to_value(diagnose(facts, |_| true))?;
    Ok(Update::Findings {
        taken: facts.taken,
        result: Ok(serde_json::from_value(diagnosis)?),
    })
}

impl Recording for Recorded {
    fn span(&self) -> (WallTime, WallTime) {
        self.recording.span()
    }

    fn opening(&self) -> WallTime {
        self.recording.opening()
    }

    fn next_after(&self, time: WallTime) -> Option<WallTime> {
        self.recording.next_after(time)
    }

    fn previous_before(&self, time: WallTime) -> Option<WallTime> {
        self.recording.previous_before(time)
    }

    fn at(&self, time: WallTime) -> Vec<Update> {
        let parts = self.recording.at(time, MAX_ENTRIES).into_iter();
        let parts = parts.map(|part| match part {
            replay::Update::NotRecorded(unrecorded) => Update::Source(Source::Disconnected {
                since: unrecorded.since,
                why: unrecorded.to_string(),
            }),
            replay::Update::Status { taken, report } => Update::Status { taken, report },
            replay::Update::Published(published) => Update::Recorded {
                record: published.record,
                happened: published.happened,
            },
            replay::Update::Pods { listed, pods } => Update::Pods {
                taken: listed,
                pods,
            },
        });
        // The diagnosis was made at the end of the recording, so earlier times do not show it.
        let is_last = time >= self.recording.span().1;
        let findings = self.findings.iter().filter(|_| is_last);
        parts.chain(findings.cloned()).collect()
    }
}
