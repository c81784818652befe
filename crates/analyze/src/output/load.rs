//! `top` and `pidstat`: what the processors do, and who makes them.

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::top_memory::TopMemory;
use super::{Seen, counts};
use crate::proof::Proof;

/// What the head of the page said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    average: f64,
    /// The percentage of time in which the processors had nothing to do.
    idle: f64,
    memory: TopMemory,
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

/// More than the number of CPUs of all but the largest machines.
const HIGH_LOAD: f64 = 16.0;
/// More than processes that have work to do would leave of an idle time.
const LOAD_OF_WAITING: f64 = 100.0;
/// With less idle time than this percentage, the machine is fully used.
const NO_IDLE_PERCENT: f64 = 5.0;
/// The percentage of time spent waiting for I/O, or taken by the host.
const HIGH_PERCENT: f64 = 30.0;

/// A node's programs, not its kernel, have most of the work to do.
const HALF_PERCENT: f64 = 50.0;

/// With more idle time than this, a high load is tasks that wait in the kernel.
const MUCH_IDLE_PERCENT: f64 = 50.0;

/// Percent of a processor.
const HALF_CPU_PERCENT: f64 = 50.0;
const WHOLE_CPU_PERCENT: f64 = 80.0;

/// `top - 14:31:55 up 3 days, …`, or the header of the processes, if the lines above are missing.
pub(super) fn begins(text: &str, words: &[&str]) -> bool {
    text.starts_with("top - ") && text.contains("load average")
        || text.starts_with("%Cpu(s):")
        || words.starts_with(&["PID", "USER", "PR", "NI", "VIRT", "RES"])
}

impl Load {
    /// Reads a line.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        self.memory.read(text, line, seen);
        let processors = text.trim_start_matches('%').strip_prefix("Cpu");
        if processors.is_none() && self.each.count > 0.0 {
            let each = std::mem::take(&mut self.each);
            self.processors(each.mean, line - 1, seen);
        }
        if let Some((_, zombies)) = text
            .strip_suffix(" zombie")
            .and_then(|tasks| tasks.rsplit_once(' '))
        {
            counts::read_zombies(zombies, line, seen);
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

    /// A row: what a process takes, and whether it waits.
    fn process(&mut self, text: &str, columns: Columns, line: u64, seen: &mut Seen) {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        process(&words, columns, line, seen);
        let column = columns.processor;
        let waits = column > 0 && words.get(column - 1) == Some(&"D");
        if waits && self.average > HIGH_LOAD && self.idle > MUCH_IDLE_PERCENT {
            let says = format!(
                "the load average is {} while the CPUs are idle {} % of the time, and tasks wait in \
                 the kernel (state D)",
                self.average, self.idle
            );
            seen.proof(Proof::new(
                Cause::StorageUnresponsive,
                Confidence::Medium,
                line,
                says,
            ));
            // Once is enough.
            self.average = 0.0;
        }
    }

    /// What all processors do together.
    fn processors(&mut self, shares: Shares, line: u64, seen: &mut Seen) {
        if shares.kernel > HALF_PERCENT {
            let says = format!("the kernel takes {:.1} % of the CPU time", shares.kernel);
            seen.trouble(line, says);
        }
        let Shares {
            idle,
            waiting,
            stolen,
            ..
        } = shares;
        self.idle = idle;
        let average = self.average;
        let (cause, says) = if stolen > HIGH_PERCENT {
            let says = format!("the host took {stolen:.1} % of the CPU time (steal)");
            (Cause::CpuStarved, says)
        } else if waiting > HIGH_PERCENT {
            let says =
                format!("the CPUs wait for I/O {waiting:.1} % of the time, load average {average}");
            (Cause::DiskSaturated, says)
        } else if idle < NO_IDLE_PERCENT && average > HIGH_LOAD {
            let says = format!("the CPUs are idle {idle:.1} % of the time, load average {average}");
            (Cause::CpuStarved, says)
        } else {
            if idle > MUCH_IDLE_PERCENT && average > LOAD_OF_WAITING {
                let says = format!(
                    "the load average is {average} while the CPUs are idle {idle:.1} % of the time: \
                     tasks wait in the kernel"
                );
                seen.trouble(line, says);
            }
            return;
        };
        seen.proof(Proof::new(cause, Confidence::Medium, line, says));
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

/// What a single process takes of a processor.
fn process(words: &[&str], columns: Columns, line: u64, seen: &mut Seen) {
    let column = columns.processor;
    // The command is the third column behind, with its arguments or without.
    let name = words
        .get(column + 3)
        .and_then(|command| command.rsplit('/').next());
    let (Some(pid), Some(name)) = (words.get(columns.pid), name.or(words.last().copied())) else {
        return;
    };
    let share = words
        .get(column)
        .and_then(|share| share.parse::<f64>().ok());
    let Some(share) = share else {
        return;
    };
    let name = name.trim_matches(['[', ']']);
    // The kernel's own reclaim takes half a processor only where memory has run out.
    let (cause, says) = if name.starts_with("kswapd") && share > HALF_CPU_PERCENT {
        let says = format!("kswapd uses {share} % of a CPU to reclaim memory");
        (Cause::MemoryThrash, says)
    } else if *pid == "1" && name == "systemd" && share > WHOLE_CPU_PERCENT {
        let says = format!("process 1 (systemd) uses {share} % of a CPU");
        (Cause::SystemdOverloaded, says)
    } else {
        return;
    };
    let culprit = Culprit {
        process: Some(name.to_owned()),
        pid: pid.parse().ok(),
        ..Culprit::default()
    };
    seen.proof(Proof::new(cause, Confidence::High, line, says).of(culprit));
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
