//! The records of the remedies, in a file beside the guard's state.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use causes::finding::Remedy;
use pleg::model::id::Id;
use pleg::model::wall_time::WallTime;
use serde::{Deserialize, Serialize};

/// A record of one step of a remedy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record<'a> {
    pub time: WallTime,
    #[serde(flatten)]
    pub remedy: &'a Remedy,
    pub id: &'a Id,
    pub step: Step,
}

/// The part of a record that is read back.
#[derive(Debug, Deserialize)]
struct Last {
    time: WallTime,
}

/// A step of a remedy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Step {
    Announced,
    Done,
    /// No signal was sent, for this reason.
    LeftAlone(String),
}

/// The time of the last record, or `None` if there is no readable record.
pub(super) fn last_in(records: &Path) -> Option<WallTime> {
    let text = fs::read_to_string(records).ok()?;
    let last: Last = serde_json::from_str(text.lines().last()?).ok()?;
    Some(last.time)
}

pub(super) fn write(records: &Path, record: &Record) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.create(true).append(true).mode(0o600);
    let mut file = options.open(records)?;
    Ok(writeln!(file, "{}", serde_json::to_string(record)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This limits remedies to one per hour, even if the agent restarts.
    #[test]
    fn the_time_of_the_last_record_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let records = directory.path().join("remedies");
        assert_eq!(last_in(&records), None);
        let mut record = Record {
            time: WallTime::from_unix_nanos(1).unwrap(),
            remedy: &Remedy::EndRunc([8]),
            id: &"c1".into(),
            step: Step::Announced,
        };
        write(&records, &record).unwrap();
        record.time = WallTime::from_unix_nanos(2).unwrap();
        record.step = Step::LeftAlone("it ended".to_owned());
        write(&records, &record).unwrap();
        assert_eq!(last_in(&records), Some(record.time));
        let text = fs::read_to_string(&records).unwrap();
        assert!(text.contains(r#""action":"endRunc","pids":[8]"#), "{text}");
    }
}
