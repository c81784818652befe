//! The health of the services of Talos, as its init logs it. The last line about a service counts.

use std::collections::BTreeMap;

use crate::line::{after, has, text, until};
use crate::series::SECOND;
use crate::table::TableRow;

/// The state of each service, by its last line.
#[derive(Debug, Default)]
pub(super) struct Services {
    /// The failing services, each with the line and the time of its first failure.
    failing: BTreeMap<String, (u64, Option<i64>)>,
    /// A row for each service that is healthy again.
    recovered: Vec<TableRow>,
    /// The time of day, in seconds, in the last line that contains only a date and a time.
    clock: Option<i64>,
}

/// The maximum number of services; Talos has a dozen.
const MAX_SERVICES: usize = 32;
const DAY_SECONDS: i64 = 86_400;

const FAILS: [&str; 2] = ["Health check failed", "going to restart forever"];
/// What ends a failure. A start does, too: after it, checks fail until the service is up.
const HEALTHY: [&str; 3] = ["Health check successful", "Started task", "Finished"];

impl Services {
    /// Reads `05/07/2025 04:29:46`, a line of its own that some viewers write before each log line. Returns
    /// whether the line is of this form.
    pub(super) fn clock(&mut self, line: &[u8]) -> bool {
        let (date, time) = line.split_at(line.len().min(10));
        let is_date = date.len() == 10 && date[2] == b'/' && date[5] == b'/';
        let time = text(time.strip_prefix(b" ").unwrap_or_default());
        let parts = time.split(':').filter_map(|part| part.parse().ok());
        let [hours, minutes, seconds] = parts.collect::<Vec<i64>>()[..] else {
            return false;
        };
        if is_date {
            self.clock = Some((hours * 60 + minutes) * 60 + seconds);
        }
        is_date
    }

    /// Reads a line such as `[talos] service[cri](Running): Health check successful`, which has this time.
    pub(super) fn line(&mut self, line: &[u8], number: u64, time: Option<i64>) {
        let Some(rest) = after(line, "[talos] service[") else {
            return;
        };
        let now = time.map(|time| time / SECOND).or(self.clock);
        let name = text(until(rest, b"]("));
        if HEALTHY.iter().any(|words| has(rest, words)) {
            let failed = self.failing.remove(&name);
            let lasted = failed.and_then(|(line, since)| Some((line, now? - since?)));
            if let Some((line, lasted)) = lasted {
                let minutes = (lasted.rem_euclid(DAY_SECONDS) / 60) as f64;
                let row = TableRow::new("talos-services", line).text("service", &*name);
                self.recovered.push(row.number("minutes", minutes));
            }
        } else if FAILS.iter().any(|words| has(rest, words)) && self.failing.len() < MAX_SERVICES {
            self.failing.entry(name).or_insert((number, now));
        }
    }

    /// Ends the input. Returns rows of the services that recovered, and the problems of those that did not,
    /// each with the line in which it began.
    pub(super) fn end(self) -> (Vec<TableRow>, impl Iterator<Item = (u64, String)>) {
        let failing = self.failing.into_iter().map(|(name, (line, _))| {
            let says = format!("Talos reports its service {name} as unhealthy");
            (line, says)
        });
        (self.recovered, failing)
    }
}
