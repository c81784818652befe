//! How much there is of something, and the most that there may be: they stand in two files, or in the
//! output of two commands.
//!
//! ```text
//!   # cat pids.current pids.max       --> 4915, 4915
//!   $ cat /proc/loadavg               --> … 12/32761 …
//!   $ sysctl kernel.pid_max           --> kernel.pid_max = 32768
//!        |
//!        v
//!   both are known: is nearly all of it used?
//! ```

use std::collections::{BTreeMap, VecDeque};

use crate::table::TableRow;

/// Further ones are not distinguished.
const MAX_PAIRS: usize = 64;

const TASKS: &str = "tasks";
const THREADS: &str = "threads";
const OPEN_FILES: &str = "open-files";
/// What is watched by inotify, and by how many instances.
const WATCHES: &str = "inotify-watches";
const INSTANCES: &str = "inotify-instances";

/// Which of both numbers it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Used,
    Most,
}

/// What a number in a file, or of a count, is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Number {
    what: &'static str,
    side: Side,
    /// The control group, or the process; empty for the node.
    of: String,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    used: Option<u64>,
    most: Option<u64>,
}

/// The numbers that were read, until their other half is.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// What the command that was typed prints, a number in each line.
    expected: VecDeque<Number>,
    /// The process that it asks about, as it was typed.
    process: String,
    pairs: BTreeMap<(&'static str, String), Pair>,
}

impl Limits {
    pub(super) fn typed(&mut self, command: &str) {
        self.process = process(command).unwrap_or_default().to_owned();
        self.expected = match count(command) {
            // Of all processes together.
            Some(OPEN_FILES) if self.process.is_empty() || self.process.contains('*') => {
                VecDeque::new()
            }
            Some(what) => VecDeque::from([Number {
                what,
                side: Side::Used,
                of: match what {
                    OPEN_FILES => self.process.clone(),
                    _ => String::new(),
                },
            }]),
            None if command.split([' ', ';', '&']).any(|word| word == "cat") => {
                let words = command.split([' ', ';', '&']);
                words.filter_map(file).collect()
            }
            None => VecDeque::new(),
        };
    }

    /// Reads a line that a command has printed; says whether it is such a number, and gives both once
    /// they are known.
    pub(super) fn line(&mut self, text: &str, line: u64) -> (bool, Option<TableRow>) {
        let Some((number, value)) = self.number(text) else {
            return (false, None);
        };
        (true, self.learn(number, value, line))
    }

    fn number(&mut self, text: &str) -> Option<(Number, u64)> {
        if let Some(number) = text.strip_prefix("Max open files") {
            let soft = number.split_ascii_whitespace().next()?.parse().ok()?;
            let of = self.process.clone();
            let most = Number {
                of,
                ..of_node(OPEN_FILES, Side::Most)
            };
            return Some((most, soft));
        }
        // There is no limit, or no file.
        if text == "max" || text.ends_with("No such file or directory") {
            self.expected.pop_front();
            return None;
        }
        if let Some(value) = text.split(' ').next().and_then(|word| word.parse().ok())
            && let Some(number) = self.expected.pop_front()
        {
            return Some((number, value));
        }
        // 812.11 790.20 640.01 12/32761 32760
        if let [_, _, _, running, _] = text.splitn(6, ' ').collect::<Vec<_>>()[..]
            && let Some((running, all)) = running.split_once('/')
            && running.parse::<u64>().is_ok()
        {
            return Some((of_node(THREADS, Side::Used), all.parse().ok()?));
        }
        let (name, value) = text.split_once([':', '='])?;
        Some((file(name.trim())?, value.trim().parse().ok()?))
    }

    fn learn(&mut self, number: Number, value: u64, line: u64) -> Option<TableRow> {
        let key = (number.what, number.of);
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key) {
            return None;
        }
        // A limit that stands alone is that of whatever is counted next.
        let alone = match key.0 {
            OPEN_FILES => self.pairs.get(&(key.0, String::new())),
            _ => None,
        };
        let alone = alone.and_then(|pair| pair.most);
        let pair = self.pairs.entry(key.clone()).or_default();
        match number.side {
            Side::Used => pair.used = Some(value),
            Side::Most => pair.most = Some(value),
        }
        let (used, most) = pair.used.zip(pair.most.or(alone))?;
        // Each number is compared once, and a limit with all that follow.
        pair.used = None;
        Some(row(key.0, &key.1, used, most, line))
    }
}

/// How much there is of something, of at most how much.
pub(super) fn row(what: &str, of: &str, used: u64, most: u64, line: u64) -> TableRow {
    let (used, most) = (used as f64, most as f64);
    let percent = (most > 0.0).then_some(used / most * 100.0);
    let row = TableRow::new("limits", line).text("what", what);
    let row = row.text("of", of).number("used", used).number("most", most);
    row.number("percent", percent)
}

fn of_node(what: &'static str, side: Side) -> Number {
    Number {
        what,
        side,
        of: String::new(),
    }
}

/// What a file contains, or a setting of the kernel, by its path or name.
fn file(path: &str) -> Option<Number> {
    use Side::{Most, Used};
    let (directory, name) = path.rsplit_once(['/', '.']).unwrap_or(("", path));
    // pids.current has a dot in itself.
    let (what, side) = match name {
        "current" | "max" => {
            let (group, kind) = directory.rsplit_once('/').unwrap_or(("", directory));
            let side = if name == "max" { Most } else { Used };
            return (kind == "pids").then(|| Number {
                what: TASKS,
                side,
                of: group.to_owned(),
            });
        }
        "pid_max" | "threads-max" => (THREADS, Most),
        "max_user_instances" => (INSTANCES, Most),
        "max_user_watches" => (WATCHES, Most),
        _ => return None,
    };
    Some(of_node(what, side))
}

fn count(command: &str) -> Option<&'static str> {
    let has = |text: &str| command.contains(text);
    if !has("wc -l") && !has("grep -c") {
        return None;
    }
    match () {
        () if has("anon_inode") && has("inotify") => Some(INSTANCES),
        () if has("/fdinfo") && has("inotify") => Some(WATCHES),
        () if has("/fd") && !has("grep") => Some(OPEN_FILES),
        () if command.starts_with("ps -eL") || command.starts_with("ps -eT") => Some(THREADS),
        () => None,
    }
}

/// `12` or `$(pidof containerd)` of `/proc/$(pidof containerd)/fd`.
fn process(command: &str) -> Option<&str> {
    let (_, rest) = command.split_once("/proc/")?;
    rest.split('/').next()
}
