//! `top` and `pidstat`: what the processors do, and for which processes.

use super::Seen;
use super::memory::Memory;
use crate::ps;
use crate::table::TableRow;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    average: f64,
    /// The percentage of time in which the processors had nothing to do.
    idle: f64,
    memory: Memory,
    each: Each,
}

/// `top - 14:31:55 up 3 days, …`, or the header of the processes, if the lines above are missing.
pub(super) fn begins(text: &str, words: &[&str]) -> bool {
    text.starts_with("top - ") && text.contains("load average")
        || text.starts_with("%Cpu(s):")
        || words.starts_with(&["PID", "USER", "PR", "NI", "VIRT", "RES"])
}

impl Load {
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        self.memory.read_top(text, line, seen);
        let processors = text.trim_start_matches('%').strip_prefix("Cpu");
        if processors.is_none() && self.each.count > 0.0 {
            let each = std::mem::take(&mut self.each);
            self.processors(each.mean, line - 1, seen);
        }
        let tasks = text.strip_suffix(" zombie");
        if let Some((_, zombies)) = tasks.and_then(|tasks| tasks.rsplit_once(' ')) {
            seen.figure("zombies", zombies, line);
        }
        if let Some((_, averages)) = text.split_once("load average: ") {
            let first = averages.split([',', ' ']).next();
            self.average = first.and_then(|first| first.parse().ok()).unwrap_or(0.0);
        } else if let Some(number) = processors {
            let is_one = number.starts_with(|first: char| first.is_ascii_digit());
            match Shares::of(text) {
                Some(shares) if is_one => self.each = self.each.and(shares),
                Some(shares) => self.processors(shares, line, seen),
                None => {}
            }
        }
    }

    /// Adds a row about a process: how much of a processor it uses, and whether it waits.
    pub(super) fn process(&self, process: &ps::Row, seen: &mut Seen) {
        let row = TableRow::new("busy-processes", process.line)
            .text("pid", &*process.pid.to_string())
            .text("process", ps::name(process).trim_matches(['[', ']']))
            .text("state", process.state.as_deref())
            .number("cpu", process.busy.map(f64::from));
        seen.row(row.number("load", self.average).number("idle", self.idle));
    }

    fn processors(&mut self, shares: Shares, line: u64, seen: &mut Seen) {
        self.idle = shares.idle;
        let row = TableRow::new("processors", line)
            .number("idle", shares.idle)
            .number("waiting", shares.waiting)
            .number("stolen", shares.stolen)
            .number("kernel", shares.kernel);
        seen.row(row.number("load", self.average));
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Shares {
    idle: f64,
    waiting: f64,
    stolen: f64,
    kernel: f64,
}

impl Shares {
    /// Reads `%Cpu(s):  8.1 us, 90.2 sy,  1.3 ni,  0.2 id,  0.0 wa, …`, or `8.1%us`; `None` if the line does
    /// not show idle time.
    fn of(text: &str) -> Option<Self> {
        let share = |name: &str| {
            let at = text
                .find(&format!(" {name}"))
                .or_else(|| text.find(&format!("%{name}")))?;
            let number = text[..at].rsplit([' ', ',', ':']).next()?;
            number.parse::<f64>().ok()
        };
        Some(Self {
            idle: share("id")?,
            waiting: share("wa").unwrap_or(0.0),
            stolen: share("st").unwrap_or(0.0),
            kernel: share("sy").unwrap_or(0.0),
        })
    }
}

/// The mean of processors that have a line each, as after pressing 1 in `top`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Each {
    count: f64,
    mean: Shares,
}

impl Each {
    fn and(self, next: Shares) -> Self {
        let count = self.count + 1.0;
        let mean = |mean: f64, next: f64| mean + (next - mean) / count;
        let mean = Shares {
            idle: mean(self.mean.idle, next.idle),
            waiting: mean(self.mean.waiting, next.waiting),
            stolen: mean(self.mean.stolen, next.stolen),
            kernel: mean(self.mean.kernel, next.kernel),
        };
        Self { count, mean }
    }
}
