//! Rows of tables and single figures, as readers yield them: named cells, of which rules say what they
//! mean.
//!
//! ```
//! use analyze::table::{Table, TableRow};
//!
//! let row = TableRow::new(Table::Disks, 3).text("mount", "/var").number("used", 98.0);
//! assert_eq!(row.fill("{mount} is {used} % full"), "/var is 98 % full");
//! ```

use causes::finding::Culprit;
use serde::Deserialize;

/// Declares the tables, each with its cells.
macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident: [$($cell:literal),+],)+) => {
        /// What a row is of. A figure is a table with the single cell `value`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Table {
            $($(#[$doc])* $table,)+
        }

        impl Table {
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$table),+];

            /// The names of its cells.
            pub fn cells(self) -> &'static [&'static str] {
                match self {
                    $(Self::$table => &[$($cell),+],)+
                }
            }
        }
    };
}

tables! {
    /// `top`, `mpstat`, `iostat`, `vmstat`: what the processors do, in percent of the time.
    Processors: ["idle", "waiting", "stolen", "kernel", "load", "swapped-in"],
    /// A process of `top` or `pidstat`, and how busy the machine is.
    BusyProcesses: ["pid", "process", "state", "cpu", "load", "idle"],
    /// `free` and `top`.
    Memory: ["available-percent", "available-mib"],
    /// `free`: what is left of swap and of memory, in percent.
    Swap: ["free-percent", "available-percent"],
    /// `df`, in percent.
    Disks: ["mount", "used"],
    /// `lvs`, in percent.
    ThinPools: ["name", "used"],
    /// `iostat -x` and `sar -d`: in percent of the time, and in milliseconds.
    Devices: ["device", "busy", "wait"],
    /// `iotop`, in percent of the time.
    IoThreads: ["command", "waiting"],
    /// `/proc/pressure`: in which percentage of the last minute `some` or `full` waited.
    Pressure: ["resource", "tasks", "percent"],
    /// `/proc/cgroups`: memory control groups, and how many times as many as of another kind.
    MemoryCgroups: ["count", "usual", "times"],
    /// A control group that is frozen.
    FrozenCgroups: ["cgroup"],
    /// How much of something there is, of at most how much.
    Limits: ["what", "of", "unit", "used", "most", "percent"],
    /// `kubectl top nodes`, in percent.
    NodeUsage: ["processors", "memory"],
    /// `systemctl status`.
    Units: ["unit", "state"],
    /// The conditions of a node.
    Conditions: ["type", "status", "text"],
    /// The taints of a node that the kubelet sets.
    Taints: ["taint"],
    /// A command that took a minute or more, or did not return.
    SlowCommands: ["program", "arguments", "command", "how", "minutes", "container"],
    /// A line that a command printed.
    CommandLines: ["tool", "command", "text", "container"],
    /// `/proc/PID/status`.
    ProcessStatus: ["process", "state"],
    /// A process that the kernel has killed because the node had no memory left.
    SystemOoms: ["victim"],
    /// A service of Talos that failed its health check and is well again.
    TalosServices: ["service", "minutes"],
    /// The series of a kubelet's sentences about its PLEG.
    Pleg: ["pattern", "intervals", "reading", "unit"],
    /// Relists, by a kubelet's metrics.
    Relists: ["slowest-seconds", "discarded-events", "reading"],
    /// How much later than the kubelet the journal wrote a line of it, where that is more than a minute.
    JournalDelay: ["late", "line"],
    /// Calls of one method that timed out, and how many of others.
    LateCalls: ["method", "lines", "count", "targets", "only", "lists", "sandbox-lists", "any-lists",
        "down", "found", "dockershim"],
    /// A period in which the runtime could not be reached.
    Outages: ["lines", "count", "seconds", "long", "ended"],
    /// A processor without progress.
    StalledProcessors: ["task", "seconds", "function"],
    /// A task in which the kernel crashed.
    Crashes: ["task"],
    /// A task that found no free page on the whole node.
    FailedAllocations: ["task"],
    /// A task that waits for a lock of the kernel itself, if it waits for long.
    KernelLocks: ["task", "long", "function"],
    /// A task that is blocked, and of whose stack nothing is known.
    BlockedTasks: ["task", "seconds", "decides", "process", "pid"],
    /// A stack that shows a known fault of its kernel's release.
    KernelFaults: ["text", "shown", "confidence", "process", "pid"],
    /// Processes in uninterruptible sleep, where nothing shows what they wait for.
    UninterruptibleProcesses: ["count", "mounts", "process", "pid"],
    /// A shim with children that have ended: how many, how many runcs there are of all shims, and one
    /// that was started hours ago.
    DeadChildren: ["name", "count", "runcs", "old", "process", "pid"],
    /// The first process of a container, of which only a part has exited.
    EndingProcesses: ["process", "pid"],
    /// `runc` and its `runc init`, both asleep for hours.
    SleepingRuncs: ["count", "process", "pid"],
    /// `runc exec`, although what it started has ended.
    DeadExecs: ["child", "process", "pid"],
    /// Running CNI plugins, how many of them are old, and how many calls that wait for one are late.
    CniPlugins: ["count", "old", "late-calls", "process", "pid"],
    /// Processes that have ended and are not reaped.
    Zombies: ["value"],
    /// Containers that the runtime keeps, running and exited.
    Containers: ["value"],
    /// Containers that run.
    RunningContainers: ["value"],
    /// The threads of a node.
    Threads: ["value"],
    /// The open files of a process.
    OpenFiles: ["value"],
    /// The mounts of a node.
    Mounts: ["value"],
    /// The units that systemd keeps.
    KeptUnits: ["value"],
    /// Control groups that were removed and are not freed.
    DyingCgroups: ["value"],
    /// Starts of the kubelet that no boot of the machine explains.
    KubeletRestarts: ["value"],
    /// Boots of the machine.
    Reboots: ["value"],
    /// Events of CRI-O about a name that an earlier attempt keeps.
    ReservedNames: ["value"],
    /// Pods that are being deleted.
    TerminatingPods: ["value"],
}

impl Table {
    /// Whether it is a figure.
    pub fn is_figure(self) -> bool {
        self.cells() == ["value"]
    }
}

/// What a cell contains.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A number.
    Number(f64),
    /// Anything else.
    Text(String),
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// The table.
    pub table: Table,
    /// Its line in the input.
    pub line: u64,
    cells: Vec<(&'static str, Cell)>,
    culprit: Culprit,
}

impl TableRow {
    /// A row without cells.
    pub fn new(table: Table, line: u64) -> Self {
        Self {
            table,
            line,
            cells: Vec::new(),
            culprit: Culprit::default(),
        }
    }

    /// The same of this culprit.
    pub fn of(self, culprit: Culprit) -> Self {
        Self { culprit, ..self }
    }

    /// A figure.
    pub fn figure(table: Table, value: u64, line: u64) -> Self {
        Self::new(table, line).number("value", value as f64)
    }

    /// The same with a number.
    pub fn number(self, name: &'static str, number: impl Into<Option<f64>>) -> Self {
        self.with(name, number.into().map(Cell::Number))
    }

    /// The same with a text.
    pub fn text<'a>(self, name: &'static str, text: impl Into<Option<&'a str>>) -> Self {
        let text = text.into().map(|text| Cell::Text(text.to_owned()));
        self.with(name, text)
    }

    fn with(mut self, name: &'static str, cell: Option<Cell>) -> Self {
        debug_assert!(self.table.cells().contains(&name), "{name}");
        self.cells.extend(cell.map(|cell| (name, cell)));
        self
    }

    /// What this cell contains, if it is known.
    pub fn cell(&self, name: &str) -> Option<&Cell> {
        let mut cells = self.cells.iter();
        cells.find(|(cell, _)| *cell == name).map(|(_, cell)| cell)
    }

    /// What it names: by itself, or by its cells `unit`, `process`, `pid` and `container`.
    pub fn culprit(&self) -> Culprit {
        let text = |name| match self.cell(name)? {
            Cell::Text(text) => Some(text.clone()),
            Cell::Number(_) => None,
        };
        let mut culprit = self.culprit.clone();
        culprit.learn(Culprit {
            unit: text("unit"),
            process: text("process"),
            pid: text("pid").and_then(|pid| pid.parse().ok()),
            id: text("container"),
            ..Culprit::default()
        });
        culprit
    }

    /// A sentence with the contents of cells in the place of their names in braces.
    pub fn fill(&self, sentence: &str) -> String {
        let mut filled = sentence.to_owned();
        for (name, cell) in &self.cells {
            let text = match cell {
                Cell::Number(number) => ((number * 10.0).round() / 10.0).to_string(),
                Cell::Text(text) => text.clone(),
            };
            filled = filled.replace(&format!("{{{name}}}"), &text);
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_each_table_with_its_cells() {
        let document = include_str!("../../../docs/rules.md");
        for table in Table::ALL {
            let mut name = String::new();
            for letter in format!("{table:?}").chars() {
                if letter.is_uppercase() && !name.is_empty() {
                    name.push('-');
                }
                name.extend(letter.to_lowercase());
            }
            let row = document
                .lines()
                .find(|row| row.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("{name}"));
            let is_there = |cell: &&str| row.contains(&format!("`{cell}`"));
            assert!(
                table.is_figure() || table.cells().iter().all(is_there),
                "{row}"
            );
        }
    }
}
