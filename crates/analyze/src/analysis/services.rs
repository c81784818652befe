//! How the services of Talos are: each line of its init reports one, and the last one counts.

use std::collections::BTreeMap;

use crate::line::{after, has, text, until};
use crate::series::SECOND;
use crate::table::TableRow;

/// What the last line of each service says.
#[derive(Debug, Default)]
pub(super) struct Services {
    /// Those that fail, since which line and time.
    failing: BTreeMap<String, (u64, Option<i64>)>,
    /// Those that are healthy again.
    over: Vec<TableRow>,
    /// The time in the last line that has nothing else, in seconds of its day.
    clock: Option<i64>,
}

/// Talos has a dozen.
const MAX_SERVICES: usize = 32;
const DAY_SECONDS: i64 = 86_400;

const FAILS: [&str; 2] = ["Health check failed", "going to restart forever"];
/// At a start the first checks fail, until the service is up.
const IS_WELL: [&str; 3] = ["Health check successful", "Started task", "Finished"];

impl Services {
    /// Reads `05/07/2025 04:29:46`, as some viewers write it in front of each line. Says whether it is
    /// one.
    pub(super) fn clock(&mut self, line: &[u8]) -> bool {
        let (date, time) = line.split_at(line.len().min(10));
        let is_date = date.len() == 10 && date[2] == b'/' && date[5] == b'/';
        let time = text(time.strip_prefix(b" ").unwrap_or_default());
        let parts: Vec<i64> = time
            .split(':')
            .filter_map(|part| part.parse().ok())
            .collect();
        if let (true, [hours, minutes, seconds]) = (is_date, &parts[..]) {
            self.clock = Some((hours * 60 + minutes) * 60 + seconds);
        }
        is_date && parts.len() == 3
    }

    /// Reads `[talos] service[cri](Running): Health check successful`, of this time.
    pub(super) fn line(&mut self, line: &[u8], number: u64, time: Option<i64>) {
        let Some(rest) = after(line, "[talos] service[") else {
            return;
        };
        let now = time.map(|time| time / SECOND).or(self.clock);
        let name = text(until(rest, b"]("));
        if IS_WELL.iter().any(|words| has(rest, words)) {
            let failed = self.failing.remove(&name);
            let lasted = failed.and_then(|(line, since)| Some((line, now? - since?)));
            if let Some((line, lasted)) = lasted {
                let minutes = (lasted.rem_euclid(DAY_SECONDS) / 60) as f64;
                let row = TableRow::new("talos-services", line).text("service", &*name);
                self.over.push(row.number("minutes", minutes));
            }
        } else if FAILS.iter().any(|words| has(rest, words)) && self.failing.len() < MAX_SERVICES {
            self.failing.entry(name).or_insert((number, now));
        }
    }

    /// The services that failed and are healthy again.
    pub(super) fn take_over(&mut self) -> Vec<TableRow> {
        std::mem::take(&mut self.over)
    }

    /// What is wrong at the end, and in which line it began.
    pub(super) fn end(self) -> impl Iterator<Item = (u64, String)> {
        let failing = self.failing.into_iter();
        failing.map(|(name, (line, _))| {
            let says = format!("Talos reports its service {name} as unhealthy");
            (line, says)
        })
    }
}
