//! `/proc/pressure`: for which part of the time tasks waited for a resource.

use causes::Cause;
use causes::facts::facts;
use causes::finding::Confidence;

use super::Seen;
use crate::proof::Proof;

/// Of which resource the next lines tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressure {
    Cpu,
    Memory,
    Io,
}

/// Percent of the last minute in which all tasks waited: certainly too much.
const MOST_PERCENT: f64 = 50.0;

impl Pressure {
    /// The file of `cat /proc/pressure/io`, or of the line `==> /proc/pressure/io <==` that `tail`
    /// prints.
    pub(super) fn named(text: &str) -> Option<Self> {
        let (_, name) = text.split_once("/proc/pressure/")?;
        let end = name.find(|letter: char| !letter.is_ascii_lowercase());
        match &name[..end.unwrap_or(name.len())] {
            "cpu" => Some(Self::Cpu),
            "memory" => Some(Self::Memory),
            "io" => Some(Self::Io),
            _ => None,
        }
    }

    /// Whether such a line begins what a file contains.
    pub(super) fn begins(text: &str) -> Option<Self> {
        let is_headline = text.starts_with("==> ") || text.contains(" avg10=");
        Self::named(text).filter(|_| is_headline)
    }

    /// Reads `full avg10=62.11 avg60=59.02 avg300=31.44 total=712211212`.
    pub(super) fn read(self, text: &str, line: u64, seen: &mut Seen) {
        let mut words = text.rsplit(':').next().unwrap_or(text).split(' ');
        let whose = words.next().unwrap_or_default();
        let percent = words.find_map(|word| word.strip_prefix("avg60="));
        let Some(percent) = percent.and_then(|percent| percent.parse::<f64>().ok()) else {
            return;
        };
        let limits = &facts().limits;
        let (cause, resource) = match (self, whose) {
            (Self::Cpu, "some") if percent >= limits.cpu_pressure_alone => {
                (Cause::CpuStarved, "a CPU")
            }
            (Self::Memory, "full") if percent >= limits.all_wait_percent => {
                (Cause::MemoryThrash, "memory")
            }
            (Self::Io, "full") if percent >= limits.all_wait_percent => {
                (Cause::DiskSaturated, "disks")
            }
            _ => return,
        };
        let who = match whose {
            "some" => "some tasks",
            _ => "all tasks",
        };
        let says = format!("{who} waited for {resource} in {percent} % of the last minute");
        // A pod with a limit waits for a CPU, and one that syncs for a disk, on an idle node too.
        let confidence = match self {
            Self::Memory => Confidence::Medium,
            Self::Io if percent >= MOST_PERCENT => Confidence::Medium,
            Self::Io | Self::Cpu => Confidence::Low,
        };
        seen.proof(Proof::new(cause, confidence, line, says));
    }
}
