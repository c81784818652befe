//! The event `SystemOOM`: the kubelet found in the kernel's log that a process outside of all containers was
//! killed because memory ran out.
//!
//! The kubelet may be wrong about that. If the input contains the kernel's log, and the kernel reports that
//! the process exceeded the limit of its own control group, the node was not out of memory.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::MAX_KEPT;
use crate::line::first_chars;
use crate::table::TableRow;

// Every line of the kernel's log is searched for this.
static EXCEEDED: LazyLock<Finder> =
    LazyLock::new(|| Finder::new("Memory cgroup out of memory: Kill"));

/// The events, and the lines of the kernel's log, which may be read in any order.
#[derive(Debug, Default)]
pub(super) struct SystemOoms {
    /// The process that was killed, if the event names it, the age of the event, and its line.
    events: Vec<(Option<String>, String, u64)>,
    /// The ages of the kubelet's starts. At a start, it reports old lines of the kernel's log again.
    starts: Vec<String>,
    /// Processes that were killed because they exceeded their own limit.
    exceeded_limits: Vec<String>,
}

impl SystemOoms {
    /// Records that the kubelet started this long ago.
    pub(super) fn started(&mut self, age: &str) {
        if self.starts.len() < MAX_KEPT {
            self.starts.push(age.to_owned());
        }
    }

    /// Reads an event: `System OOM encountered, victim process: java, pid: 3419`.
    pub(super) fn event(&mut self, text: &str, age: &str, line: u64) {
        let victim = || text.split_once("victim process: ")?.1.split(',').next();
        if self.events.len() < MAX_KEPT {
            let victim = victim().map(|name| first_chars(name, 100).to_owned());
            self.events.push((victim, age.to_owned(), line));
        }
    }

    /// Reads a line of the kernel: `Memory cgroup out of memory: Killed process 249017 (java)`.
    pub(super) fn kernel(&mut self, text: &str) {
        let name = || {
            let at = EXCEEDED.find(text.as_bytes())?;
            Some(text[at..].split_once('(')?.1.split_once(')')?.0)
        };
        if let Some(name) = name()
            && self.exceeded_limits.len() < MAX_KEPT
        {
            self.exceeded_limits.push(first_chars(name, 100).to_owned());
        }
    }

    /// A row for each event that shows that the node itself was out of memory.
    pub(super) fn rows(&self) -> Vec<TableRow> {
        let is_of_node = |victim: &Option<String>| match victim {
            Some(victim) => !self.exceeded_limits.contains(victim),
            None => true,
        };
        let is_replayed = |age: &String| !age.is_empty() && self.starts.contains(age);
        let events = self.events.iter();
        let of_node = events.filter(|(victim, age, _)| is_of_node(victim) && !is_replayed(age));
        let row = |(victim, _, line): &(Option<String>, String, u64)| {
            TableRow::new("system-ooms", *line).text("victim", victim.as_deref())
        };
        of_node.map(row).collect()
    }
}
