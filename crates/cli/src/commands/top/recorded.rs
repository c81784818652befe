//! A history or a snapshot as a recording, for `pleg top --from`.

use std::path::Path;

use anyhow::{Context, bail};
use pleg::model::wall_time::WallTime;
use recorder::replay;
use recorder::store::{Range, is_history};
use top::recording::Recording;
use top::state::events::MAX_ENTRIES;
use top::update::Update;

use crate::text::printable;

/// What was recorded.
struct Recorded(replay::Recording);

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
    Ok(Recorded(recording))
}

impl Recording for Recorded {
    fn span(&self) -> (WallTime, WallTime) {
        self.0.span()
    }

    fn opening(&self) -> WallTime {
        self.0.opening()
    }

    fn next_after(&self, time: WallTime) -> Option<WallTime> {
        self.0.next_after(time)
    }

    fn previous_before(&self, time: WallTime) -> Option<WallTime> {
        self.0.previous_before(time)
    }

    fn at(&self, time: WallTime) -> Vec<Update> {
        let parts = self.0.at(time, MAX_ENTRIES).into_iter();
        let parts = parts.map(|part| match part {
            replay::Update::Status { taken, report } => Update::Status { taken, report },
            replay::Update::Told(told) => Update::Recorded {
                record: told.record,
                happened: told.happened,
            },
            replay::Update::Pods { listed, pods } => Update::Pods {
                taken: listed,
                pods,
            },
        });
        parts.collect()
    }
}
