//! `top` and `pidstat`: what the processors do, and for which processes.

use super::Seen;
use super::memory::Memory;
use crate::table::TableRow;

/// What the head of the page contains.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    average: f64,
    /// The percentage of time in which the processors had nothing to do.
    idle: f64,
    memory: Memory,
    /// The processors that have a line each.
    each: Each,
    /// Of the processes, once their header was read.
    columns: Option<Columns>,
}

/// Where a row of a process has what.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Columns {
    pid: usize,
    processor: usize,
}

impl Columns {
    /// `top`'s default layout.
    const DEFAULT: Self = Self {
        pid: 0,
        processor: 8,
    };

    /// Those of a header.
    fn of(text: &str) -> Option<Self> {
        let of = |name| text.split_ascii_whitespace().position(|word| word == name);
        Some(Self {
            pid: of("PID").unwrap_or(0),
            processor: of("%CPU")?,
        })
    }
}

/// `top - 14:31:55 up 3 days, …`, or the header of the processes, if the lines above are missing.
pub(super) fn begins(text: &str, words: &[&str]) -> bool {
    text.starts_with("top - ") && text.contains("load average")
        || text.starts_with("%Cpu(s):")
        || words.starts_with(&["PID", "USER", "PR", "NI", "VIRT", "RES"])
}

impl Load {
    /// Reads a line.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        self.memory.read_top(text, line, seen);
        let processors = text.trim_start_matches('%').strip_prefix("Cpu");
        if processors.is_none() && self.each.count > 0.0 {
            let each = std::mem::take(&mut self.each);
            self.processors(each.mean, line - 1, seen);
        }
        if let Some((_, zombies)) = text
            .strip_suffix(" zombie")
            .and_then(|tasks| tasks.rsplit_once(' '))
        {
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
        } else if let Some(columns) = Columns::of(text) {
            self.columns = Some(columns);
        } else if let Some(columns) = self.columns {
            self.process(text, columns, line, seen);
        } else if is_row(&text.split_ascii_whitespace().collect::<Vec<_>>()) {
            self.process(text, Columns::DEFAULT, line, seen);
        }
    }

    /// A row: what a process takes of a processor, and whether it waits.
    fn process(&self, text: &str, columns: Columns, line: u64, seen: &mut Seen) {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let column = columns.processor;
        // The command is the third column behind, with its arguments or without.
        let name = words
            .get(column + 3)
            .and_then(|command| command.rsplit('/').next());
        let (Some(pid), Some(name)) = (words.get(columns.pid), name.or(words.last().copied()))
        else {
            return;
        };
        let share = words
            .get(column)
            .and_then(|share| share.parse::<f64>().ok());
        let state = column.checked_sub(1).and_then(|at| words.get(at).copied());
        if share.is_some() {
            let row = TableRow::new("busy-processes", line).text("pid", *pid);
            let row = row.text("process", name.trim_matches(['[', ']']));
            let row = row.text("state", state).number("cpu", share);
            seen.row(row.number("load", self.average).number("idle", self.idle));
        }
    }

    /// What all processors do together.
    fn processors(&mut self, shares: Shares, line: u64, seen: &mut Seen) {
        self.idle = shares.idle;
        let row = TableRow::new("processors", line).number("idle", shares.idle);
        let row = row
            .number("waiting", shares.waiting)
            .number("stolen", shares.stolen);
        seen.row(
            row.number("kernel", shares.kernel)
                .number("load", self.average),
        );
    }
}

/// What the processors do, in percent of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Shares {
    idle: f64,
    waiting: f64,
    stolen: f64,
    kernel: f64,
}

impl Shares {
    /// Of `%Cpu(s):  8.1 us, 90.2 sy,  1.3 ni,  0.2 id,  0.0 wa, …`, or `8.1%us`; without idle time it
    /// is no such line.
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

/// Processors that have a line each, as after pressing 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Each {
    count: f64,
    mean: Shares,
}

impl Each {
    /// One more.
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

/// Whether it is a row of `top`, without its header.
pub(super) fn is_row(words: &[&str]) -> bool {
    let number = |at: usize| {
        words
            .get(at)
            .is_some_and(|word: &&str| word.parse::<f64>().is_ok())
    };
    let clock = words.get(10).is_some_and(|time| time.contains(':'));
    let state = words.get(7).is_some_and(|state| state.len() == 1);
    words.len() >= 12 && number(0) && number(8) && number(9) && clock && state
}
