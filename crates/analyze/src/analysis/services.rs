//! How the services of Talos are: each line of its init tells of one, and the last one counts.

use std::collections::BTreeMap;

use crate::line::{after, has, text, until};

/// The services that fail, and the line since which they do.
#[derive(Debug, Default)]
pub(super) struct Services(BTreeMap<String, u64>);

/// Talos has a dozen.
const MAX_SERVICES: usize = 32;

const FAILS: [&str; 2] = ["Health check failed", "going to restart forever"];
/// At a start the first checks fail, until the service is up.
const IS_WELL: [&str; 3] = ["Health check successful", "Started task", "Finished"];

impl Services {
    /// Reads `[talos] service[cri](Running): Health check successful`.
    pub(super) fn line(&mut self, line: &[u8], number: u64) {
        let Some(rest) = after(line, "[talos] service[") else {
            return;
        };
        let name = text(until(rest, b"]("));
        if IS_WELL.iter().any(|words| has(rest, words)) {
            self.0.remove(&name);
        } else if FAILS.iter().any(|words| has(rest, words)) && self.0.len() < MAX_SERVICES {
            self.0.entry(name).or_insert(number);
        }
    }

    /// What is wrong at the end, and in which line it began.
    pub(super) fn end(self) -> impl Iterator<Item = (u64, String)> {
        let says = |(name, line)| {
            (
                line,
                format!("Talos reports its service {name} as unhealthy"),
            )
        };
        self.0.into_iter().map(says)
    }
}
