//! `/proc/pressure`: the share of time in which tasks waited for a resource.

use super::Seen;
use crate::table::TableRow;

/// The resource of the next lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressure {
    Cpu,
    Memory,
    Io,
}

impl Pressure {
    /// The resource in `cat /proc/pressure/io`, or in the line `==> /proc/pressure/io <==` that `tail`
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

    /// The resource, if this line begins the contents of its file.
    pub(super) fn begins(text: &str) -> Option<Self> {
        let is_headline = text.starts_with("==> ") || text.contains(" avg10=");
        Self::named(text).filter(|_| is_headline)
    }

    /// Reads `full avg10=62.11 avg60=59.02 avg300=31.44 total=712211212`.
    pub(super) fn read(self, text: &str, line: u64, seen: &mut Seen) {
        let mut words = text.rsplit(':').next().unwrap_or(text).split(' ');
        let tasks = words.next();
        let percent = words.find_map(|word| word.strip_prefix("avg60="));
        let resource = match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        };
        if let Some(percent) = percent.and_then(|percent| percent.parse::<f64>().ok()) {
            let row = TableRow::new("pressure", line).text("resource", resource);
            seen.row(row.text("tasks", tasks).number("percent", percent));
        }
    }
}
