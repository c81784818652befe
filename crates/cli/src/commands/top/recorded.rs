//! A history or a snapshot as a recording, for `pleg top --from`.

use std::path::Path;

use anyhow::{Context, bail};
use pleg::model::wall_time::WallTime;
use recorder::replay;
use recorder::store::{Range, is_history};
use top::recording::Recording;
use top::update::{Source, Update};

use crate::text::printable;

/// What was recorded, and where that was read.
struct Recorded {
    place: String,
    recording: replay::Recording,
}

/// Reads a history, or the one in a snapshot.
pub fn read(path: &Path) -> anyhow::Result<impl Recording + Send + use<>> {
    let place = printable(&path.display().to_string()).into_owned();
    let entries = match () {
        () if is_history(path) => recorder::store::read(path, Range::default())
            .with_context(|| place.clone())?
            .collect(),
        () if snapshot::is_snapshot(path) => {
            snapshot::open(path).with_context(|| place.clone())?.entries
        }
        () => {
            path.metadata().with_context(|| place.clone())?;
            bail!("{place} is neither a history of an agent nor a snapshot of `pleg snapshot`");
        }
    };
    let recording = replay::Recording::new(entries)
        .with_context(|| format!("{place} has no history to step through"))?;
    Ok(Recorded { place, recording })
}

impl Recording for Recorded {
    fn span(&self) -> (WallTime, WallTime) {
        self.recording.span()
    }

    fn next_after(&self, time: WallTime) -> Option<WallTime> {
        self.recording.next_after(time)
    }

    fn previous_before(&self, time: WallTime) -> Option<WallTime> {
        self.recording.previous_before(time)
    }

    fn at(&self, time: WallTime) -> Vec<Update> {
        let to = self.place.clone();
        let source = Update::Source(Source::Connected { to });
        let parts = self.recording.at(time).into_iter().map(|part| match part {
            replay::Update::Status { taken, report } => Update::Status { taken, report },
            replay::Update::Pods { taken, pods } => Update::Pods { taken, pods },
            replay::Update::Record(record) => Update::Record(record),
        });
        std::iter::once(source).chain(parts).collect()
    }
}
