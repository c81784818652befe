//! Tables about a live node, which rules read. A rule only compares the values of a row.

use std::collections::BTreeSet;

use analyze::rules::Rules;
use analyze::table::TableRow;
use causes::Cause;
use causes::versions::{Fault, Version, has_fault};

use super::lack::{lack, lack_of_processes};
use super::phrases::{MAX_EXAMPLES, names};
use super::runc::idle_runcs;
use crate::evidence::culprit;
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Process};

/// A table of a live node.
struct Table {
    name: &'static str,
    rows: fn(&NodeFacts) -> Vec<TableRow>,
    /// Why a row may be missing.
    lack: fn(&NodeFacts) -> Option<String>,
}

const TABLES: [Table; 5] = [
    Table {
        name: "memory-cgroups",
        rows: memory_cgroups,
        lack: |facts| lack(&facts.host.cgroups.memory),
    },
    Table {
        name: "dying-cgroups",
        rows: dying_cgroups,
        lack: |facts| lack(&facts.host.cgroups.memory),
    },
    Table {
        name: "runc-inits",
        rows: runc_inits,
        lack: |facts| match runc(&facts.host).and_then(|it| has_fault(Fault::SeccompPipe, it)) {
            // Processes of a version without the fault wait for something else.
            Some(false) => None,
            _ => lack_of_processes(&facts.host),
        },
    },
    Table {
        name: "pipe-pages",
        rows: |facts| pipe_pages(&facts.host).into_iter().collect(),
        lack: |_| None,
    },
    Table {
        name: "idle-runcs",
        rows: |facts| idle(facts).into_iter().collect(),
        lack: |facts| {
            let idle = idle_runcs(facts);
            let is_unknown = !idle.is_empty() && runc(&facts.host).is_none();
            let unknown = is_unknown.then(|| {
                let names = names(idle);
                format!("the version of runc is not known; without a child process: {names}")
            });
            lack_of_processes(&facts.host).or(unknown)
        },
    },
];

/// The rows that the rules of a cause read from the tables of a live node.
pub(crate) struct Tables {
    pub(crate) rows: Vec<TableRow>,
    /// Why some rows may be missing.
    pub(crate) lack: Option<String>,
}

/// The tables that the rules of a cause read; `None` if they read none of the tables of a live node.
pub(crate) fn tables(facts: &NodeFacts, cause: Cause) -> Option<Tables> {
    let rules = Rules::active();
    let tables = TABLES.iter();
    let read: Vec<&Table> = tables.filter(|it| rules.reads(cause, it.name)).collect();
    (!read.is_empty()).then(|| Tables {
        rows: read.iter().flat_map(|table| (table.rows)(facts)).collect(),
        lack: read.iter().find_map(|table| (table.lack)(facts)),
    })
}

fn memory_cgroups(facts: &NodeFacts) -> Vec<TableRow> {
    let groups = facts.host.cgroups.memory.value();
    // In version 2 a group that was removed holds no id.
    let groups = groups.filter(|groups| groups.version != 2);
    let kernel = facts.host.versions.kernel.value().map(String::as_str);
    let rows = groups.map(|groups| {
        TableRow::new("memory-cgroups", 0)
            .number("count", groups.counted as f64)
            .number("leaked", groups.left_over as f64)
            .text("kernel", kernel)
    });
    rows.into_iter().collect()
}

fn dying_cgroups(facts: &NodeFacts) -> Vec<TableRow> {
    let groups = facts.host.cgroups.memory.value();
    let groups = groups.filter(|groups| groups.version == 2).into_iter();
    let rows = groups.map(|groups| TableRow::figure("dying-cgroups", groups.left_over, 0));
    rows.collect()
}

/// The version of runc, if it has the form of a version.
fn runc(host: &HostFacts) -> Option<&str> {
    let version = host.versions.runc();
    version.filter(|version| Version::parse(version).is_some())
}

/// The functions in which the threads of each `runc init` wait, each function once.
fn runc_inits(facts: &NodeFacts) -> Vec<TableRow> {
    let host = &facts.host;
    let inits = host.all_processes().iter().filter(|it| it.is_runc_init());
    let rows = inits.flat_map(|process| {
        let threads = process.threads.iter();
        let waits = threads.filter_map(|thread| thread.functions().next());
        let waits: BTreeSet<&str> = process.wchan.as_deref().into_iter().chain(waits).collect();
        waits.into_iter().map(|function| {
            of_process("runc-inits", process)
                .text("function", function)
                .number("seconds", process.age_seconds.floor())
                .text("runc", runc(host))
        })
    });
    rows.collect()
}

fn of_process(table: &'static str, process: &Process) -> TableRow {
    TableRow::new(table, 0)
        .of(culprit::of_process(process))
        .process(Some(&process.comm), Some(process.pid))
}

/// The number of pages of a new pipe, which has two ends.
const PAGES_PER_PIPE: u64 = 16;

fn pipe_pages(host: &HostFacts) -> Option<TableRow> {
    let most = *host.limits.pipe_pages_soft.value()?;
    let of_root = host.all_processes().iter().filter(|it| it.uid == 0);
    let ends: u64 = of_root
        .filter_map(|process| process.fds.value())
        .fold(0, |sum, fds| sum.saturating_add(fds.pipes));
    let used = (ends / 2).saturating_mul(PAGES_PER_PIPE);
    let row = TableRow::new("pipe-pages", 0)
        .number("used", used as f64)
        .number("most", most as f64)
        .number("more", most.saturating_mul(4) as f64)
        .text("runc", runc(host));
    // 0 is no limit.
    (most > 0).then(|| row.number("percent", used as f64 * 100.0 / most as f64))
}

fn idle(facts: &NodeFacts) -> Option<TableRow> {
    let idle = idle_runcs(facts);
    let first = idle.iter().take(MAX_EXAMPLES);
    let pids: Vec<String> = first.map(|process| process.pid.to_string()).collect();
    let ages = idle.iter().map(|process| process.age_seconds);
    let row = of_process("idle-runcs", idle.first()?)
        .number("count", idle.len() as f64)
        .number("seconds", ages.fold(f64::INFINITY, f64::min).floor())
        .text("pids", &*pids.join(" "));
    Some(row.text("runc", runc(&facts.host)))
}
