//! How much of something is used, and its limit: two numbers from two files, or from the output of two
//! commands.
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

/// How many pairs of an amount and its limit are kept.
const MAX_PAIRS: usize = 64;

const TASKS: &str = "tasks";
const THREADS: &str = "threads";
const OPEN_FILES: &str = "open-files";
/// The watches of inotify, which belong to its instances.
const WATCHES: &str = "inotify-watches";
const INSTANCES: &str = "inotify-instances";

#[derive(Clone, Debug)]
struct Number {
    what: &'static str,
    /// The control group or the process that the number is about; empty for the node.
    of: String,
    /// Whether the number is a limit, and not an amount in use.
    is_limit: bool,
}

impl Number {
    fn used(what: &'static str, of: &str) -> Self {
        let (of, is_limit) = (of.to_owned(), false);
        Self { what, of, is_limit }
    }

    fn most(what: &'static str, of: &str) -> Self {
        let is_limit = true;
        Self {
            is_limit,
            ..Self::used(what, of)
        }
    }
}

/// The numbers that were read, until both of a pair are known.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// The numbers that the last command prints, one in each line.
    expected: VecDeque<Number>,
    /// The process that the command is about, as it was typed.
    process: String,
    /// For each thing, how much is used, and its limit.
    pairs: BTreeMap<(&'static str, String), [Option<u64>; 2]>,
}

impl Limits {
    pub(super) fn typed(&mut self, command: &str) {
        self.process = process(command).unwrap_or_default().to_owned();
        self.expected = match count(command) {
            // A count over all processes.
            Some(OPEN_FILES) if self.process.is_empty() || self.process.contains('*') => {
                VecDeque::new()
            }
            Some(OPEN_FILES) => VecDeque::from([Number::used(OPEN_FILES, &self.process)]),
            Some(what) => VecDeque::from([Number::used(what, "")]),
            None if command.split([' ', ';', '&']).any(|word| word == "cat") => {
                let words = command.split([' ', ';', '&']);
                words.filter_map(file).collect()
            }
            None => VecDeque::new(),
        };
    }

    /// Reads a line that a command has printed. Returns whether it contains a number of this kind, and a
    /// row once both numbers of a pair are known.
    pub(super) fn line(&mut self, text: &str, line: u64) -> (bool, Option<TableRow>) {
        let Some((number, value)) = self.number(text) else {
            return (false, None);
        };
        (true, self.learn(number, value, line))
    }

    fn number(&mut self, text: &str) -> Option<(Number, u64)> {
        if let Some(number) = text.strip_prefix("Max open files") {
            let soft = number.split_ascii_whitespace().next()?.parse().ok()?;
            return Some((Number::most(OPEN_FILES, &self.process), soft));
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
            return Some((Number::used(THREADS, ""), all.parse().ok()?));
        }
        let (name, value) = text.split_once([':', '='])?;
        Some((file(name.trim())?, value.trim().parse().ok()?))
    }

    fn learn(&mut self, number: Number, value: u64, line: u64) -> Option<TableRow> {
        let key = (number.what, number.of);
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key) {
            return None;
        }
        // A limit without a process applies to the process that is counted next.
        let alone = match key.0 {
            OPEN_FILES => self.pairs.get(&(key.0, String::new())),
            _ => None,
        };
        let alone = alone.and_then(|[_, most]| *most);
        let pair = self.pairs.entry(key.clone()).or_default();
        pair[usize::from(number.is_limit)] = Some(value);
        let [used, most] = *pair;
        let (used, most) = used.zip(most.or(alone))?;
        // Each used amount is compared once, but a limit with all amounts that follow.
        pair[0] = None;
        Some(row(key.0, &key.1, used, most, line))
    }
}

/// A row about how much of something is used, and its limit.
pub(super) fn row(what: &str, of: &str, used: u64, most: u64, line: u64) -> TableRow {
    let (used, most) = (used as f64, most as f64);
    let percent = (most > 0.0).then_some(used / most * 100.0);
    let row = TableRow::new("limits", line).text("what", what);
    let row = row.text("of", of).number("used", used).number("most", most);
    row.number("percent", percent)
}

/// What a file or a setting of the kernel contains, according to its path or name.
fn file(path: &str) -> Option<Number> {
    let (directory, name) = path.rsplit_once(['/', '.']).unwrap_or(("", path));
    // pids.current has a dot in itself.
    let (group, kind) = directory.rsplit_once('/').unwrap_or(("", directory));
    match name {
        "current" if kind == "pids" => Some(Number::used(TASKS, group)),
        "max" if kind == "pids" => Some(Number::most(TASKS, group)),
        "pid_max" | "threads-max" => Some(Number::most(THREADS, "")),
        "max_user_instances" => Some(Number::most(INSTANCES, "")),
        "max_user_watches" => Some(Number::most(WATCHES, "")),
        _ => None,
    }
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

/// The process in a path in `/proc`, as it was typed: `12`, or `$(pidof containerd)`.
fn process(command: &str) -> Option<&str> {
    let (_, rest) = command.split_once("/proc/")?;
    rest.split('/').next()
}
