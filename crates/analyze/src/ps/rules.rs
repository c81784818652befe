//! What a listing of processes proves.

use std::collections::{BTreeMap, HashMap};

use causes::Cause;
use causes::facts::facts;
use causes::finding::{Confidence, Culprit};

use serde::Deserialize;

use super::row::{Age, Row};
use crate::kernel::{KernelStack, cause_in};
use crate::proof::Proof;
use crate::rules::{Rules, Texts, is_like};
use crate::table::TableRow;

/// Processes of a listing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessRule {
    /// The name is one of these; `containerd-shim*` stands for all names that begin so.
    pub(crate) names: Texts,
    /// One of these is in the command; empty is no condition.
    #[serde(default)]
    pub(crate) any: Texts,
    /// The letter of its state: `T`, `D`, `Z`.
    state: Option<char>,
    /// Its process id.
    pid: Option<u32>,
    /// The least percentage of a processor that it has used since it was started.
    cpu_percent: Option<f32>,
    /// The least memory that it has resident.
    memory_mib: Option<u64>,
    /// How old it is at least.
    age: Option<Age>,
    /// The number of such processes that are needed.
    #[serde(default = "one")]
    at_least: usize,
    /// Each of them is evidence. Otherwise the first is.
    #[serde(default)]
    each: bool,
    /// How sure it is.
    confidence: Confidence,
    /// What is seen, in a sentence without a full stop; `{pid}`, `{name}`, `{command}`, `{cpu}` and
    /// `{count}` stand for those of the process, and for the number of such processes.
    says: String,
    /// What a finding says in place of the title, filled in likewise.
    headline: Option<String>,
}

fn one() -> usize {
    1
}

/// Between the process ids of a command and of what it starts.
const MAX_DISTANCE: u32 = 64;

/// What these rows show by themselves.
pub fn proofs(rows: &[Row]) -> Vec<Proof> {
    let mut proofs: Vec<Proof> = rows.iter().filter_map(blocked).collect();
    for of in &Rules::active().processes {
        proofs.extend(of.rule.proofs(of.cause, rows));
    }
    proofs
}

/// What they show together, while this many calls that wait for a CNI plugin are late, on a node with
/// this version of runc.
pub fn tables(rows: &[Row], late_calls: u64, runc: Option<&str>) -> Vec<TableRow> {
    let found = [
        uninterruptible(rows),
        sleeping_runcs(rows),
        dead_children(rows),
        ending(rows),
        plugins(rows, late_calls),
        rows.windows(2).find_map(dead_exec),
        blocked_in_driver(rows),
        blocked_elsewhere(rows),
    ];
    let idle = runc.and_then(|runc| idle_runcs(rows, runc));
    let inits = rows.iter().filter(|row| is_runc_init(row));
    let inits = inits.filter_map(|row| runc_init(row, runc?));
    found
        .into_iter()
        .flatten()
        .chain(idle)
        .chain(inits)
        .collect()
}

fn name(row: &Row) -> &str {
    let first = row.command.split(' ').next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or_default()
}

fn is_in(row: &Row, state: char) -> bool {
    row.state
        .as_deref()
        .is_some_and(|states| states.starts_with(state))
}

fn is_runc_init(row: &Row) -> bool {
    name(row) == "runc" && row.command.ends_with(" init")
        || row.command.starts_with("runc:[2:INIT]")
}

impl ProcessRule {
    fn proofs(&self, cause: Cause, rows: &[Row]) -> Vec<Proof> {
        let such: Vec<&Row> = rows.iter().filter(|row| self.holds(row)).collect();
        if such.len() < self.at_least {
            return Vec::new();
        }
        let shown = if self.each { such.len() } else { 1 };
        let proofs = such.iter().take(shown).map(|row| {
            let says = fill(&self.says, row, such.len());
            let proof = Proof::new(cause, self.confidence, row.line, says);
            let proof = match self.at_least {
                1 => proof.of(culprit(row)),
                // It is the number that is unusual, and not one of them.
                _ => proof,
            };
            let headline = self.headline.as_deref();
            Proof {
                headline: headline.map(|headline| fill(headline, row, such.len())),
                ..proof
            }
        });
        proofs.collect()
    }

    fn holds(&self, row: &Row) -> bool {
        self.names.iter().any(|pattern| is_like(name(row), pattern))
            && (self.any.is_empty() || self.any.iter().any(|text| row.command.contains(text)))
            && self.state.is_none_or(|state| is_in(row, state))
            && self.pid.is_none_or(|pid| row.pid == pid)
            && self
                .cpu_percent
                .is_none_or(|least| row.cpu.is_some_and(|cpu| cpu >= least))
            && self
                .memory_mib
                .is_none_or(|least| row.memory_kib.is_some_and(|kib| kib >= least << 10))
            && self.age.is_none_or(|age| row.age >= age)
    }
}

fn fill(says: &str, row: &Row, count: usize) -> String {
    let cpu = row.cpu.map_or_else(String::new, |cpu| cpu.to_string());
    let memory = row.memory_kib.unwrap_or_default() as f64 / f64::from(1 << 20);
    says.replace("{pid}", &row.pid.to_string())
        .replace("{count}", &count.to_string())
        .replace("{cpu}", &cpu)
        .replace("{memory}", &format!("{memory:.1} GiB"))
        .replace("{name}", name(row))
        .replace("{command}", &row.command)
}

/// By the kernel function that it waits in.
fn blocked(row: &Row) -> Option<Proof> {
    let wchan = row.wchan.as_deref()?;
    let (cause, confidence) = cause(row, wchan)?;
    let says = format!("process {} ({}) waits in {wchan}", row.pid, row.command);
    Some(Proof::new(cause, confidence, row.line, says).of(culprit(row)))
}

fn culprit(row: &Row) -> Culprit {
    Culprit {
        pid: Some(row.pid),
        process: Some(row.command.clone()),
        ..Culprit::default()
    }
}

fn cause(row: &Row, wchan: &str) -> Option<(Cause, Confidence)> {
    let stack = KernelStack {
        process: Some(name(row).to_owned()),
        ..KernelStack::default()
    };
    cause_in(wchan.trim_start_matches("__"), &stack, is_in(row, 'D'))
}

/// A row of a table about this process.
fn table(table: &'static str, row: &Row) -> TableRow {
    TableRow::new(table, row.line).process(Some(&row.command), Some(row.pid))
}

/// Processes in uninterruptible sleep, if the listing does not show where they wait.
fn uninterruptible(rows: &[Row]) -> Option<TableRow> {
    let waits = |row: &&Row| {
        is_in(row, 'D')
            && row.wchan.is_none()
            && !row.command.starts_with('[')
            && !is_of_gpu_driver(row)
    };
    let blocked: Vec<&Row> = rows.iter().filter(waits).collect();
    let mounts = |row: &&&Row| {
        matches!(name(row), "umount" | "mount" | "df" | "sync" | "s6-sync")
            || name(row).starts_with("mount.")
    };
    let row = blocked.iter().find(mounts).or(blocked.first())?;
    let mounting = blocked.iter().filter(mounts).count();
    let row = table("uninterruptible-processes", row).number("count", blocked.len() as f64);
    Some(row.number("mounts", mounting as f64))
}

/// A program of the GPU driver in uninterruptible sleep: it waits for the driver, not for a disk.
fn blocked_in_driver(rows: &[Row]) -> Option<TableRow> {
    let waits = |row: &&Row| is_in(row, 'D') && row.wchan.is_none() && is_of_gpu_driver(row);
    let row = table("blocked-processes", rows.iter().find(waits)?);
    Some(row.text("driver", "GPU"))
}

/// A process in uninterruptible sleep in a function of the kernel that shows no cause.
fn blocked_elsewhere(rows: &[Row]) -> Option<TableRow> {
    let waiting = rows.iter().filter(|row| is_in(row, 'D'));
    let mut waiting = waiting.filter_map(|row| Some((row, row.wchan.as_deref()?)));
    let (row, function) = waiting.find(|(row, wchan)| cause(row, wchan).is_none())?;
    Some(table("blocked-processes", row).text("function", function))
}

fn is_of_gpu_driver(row: &Row) -> bool {
    let name = name(row);
    name.starts_with("nvidia-") || name.starts_with("nvc:")
}

/// The shim with the most children that have ended. A healthy one reaps them within milliseconds. Those
/// whose other threads are still alive (`l`) cannot be reaped yet, so they are not counted.
fn dead_children(rows: &[Row]) -> Option<TableRow> {
    let dead = |row: &&Row| {
        let state = row.state.as_deref().unwrap_or_default();
        state.starts_with('Z') && !state.contains('l')
    };
    let mut of_shims: BTreeMap<u32, Vec<&Row>> = BTreeMap::new();
    let is_shim = |row: &&Row| name(row).contains("containerd-shim");
    of_shims.extend(rows.iter().filter(is_shim).map(|row| (row.pid, Vec::new())));
    for row in rows.iter().filter(dead) {
        if let Some(children) = row.ppid.and_then(|pid| of_shims.get_mut(&pid)) {
            children.push(row);
        }
    }
    let all = of_shims.values().flatten();
    let runcs = all.filter(|row| row.command.contains("[runc]")).count();
    let age = |children: &Vec<&Row>| children.iter().any(|row| row.age == Age::Hours);
    let most = |(_, children): &(&u32, &Vec<&Row>)| (children.len(), age(children));
    let (pid, children) = of_shims.iter().max_by_key(most)?;
    let shim = rows.iter().find(|row| row.pid == *pid)?;
    let old = of_shims
        .values()
        .flatten()
        .find(|row| row.age == Age::Hours);
    let row = table("dead-children", shim).text("name", name(shim));
    let row = row
        .number("count", children.len() as f64)
        .number("runcs", runcs as f64);
    Some(row.text("old", old.map(|row| &*row.command)))
}

/// Whether a runc and a `runc init` have been asleep for minutes, and no process is blocked in the
/// kernel: on a kernel that loses epoll wake-ups, that is what it looks like.
pub fn is_runc_asleep(rows: &[Row]) -> bool {
    let is_asleep = |row: &&Row| is_in(row, 'S') && row.age >= Age::Minutes;
    let asleep = || rows.iter().filter(is_asleep);
    asleep().any(is_runc_init)
        && asleep().any(|row| name(row) == "runc" && !is_runc_init(row))
        && !rows.iter().any(|row| is_in(row, 'D'))
}

/// `runc create` and its `runc init` have both been asleep for long, and no process is blocked in the
/// kernel.
fn sleeping_runcs(rows: &[Row]) -> Option<TableRow> {
    let by_pid: HashMap<u32, &Row> = rows.iter().map(|row| (row.pid, row)).collect();
    let parent = |row: &Row| row.ppid.and_then(|pid| by_pid.get(&pid).copied());
    if rows.iter().any(|row| is_in(row, 'D')) {
        return None;
    }
    let sleeping = |row: &&Row| {
        let shape = is_runc_init(row) && row.age == Age::Hours && is_in(row, 'S');
        let runc = parent(row).filter(|runc| name(runc) == "runc" && is_in(runc, 'S'));
        shape
            && runc
                .and_then(parent)
                .is_some_and(|shim| name(shim).starts_with("containerd-shim"))
    };
    let pairs: Vec<&Row> = rows.iter().filter(sleeping).collect();
    let row = table("sleeping-runcs", pairs.first()?);
    Some(row.number("count", pairs.len() as f64))
}

/// A `runc init` that waits in the kernel.
fn runc_init(row: &Row, runc: &str) -> Option<TableRow> {
    let function = row.wchan.as_deref()?;
    let found = table("runc-inits", row).number("seconds", row.age.seconds());
    Some(found.text("function", function).text("runc", runc))
}

/// Under a shim, runc exits as soon as the process that it starts is running: those that have been there
/// for a minute, have no child, and are neither stopped nor blocked.
fn idle_runcs(rows: &[Row], runc: &str) -> Option<TableRow> {
    let by_pid: HashMap<u32, &Row> = rows.iter().map(|row| (row.pid, row)).collect();
    let is_of_shim = |row: &Row| {
        let parent = row.ppid.and_then(|pid| by_pid.get(&pid));
        parent.is_some_and(|parent| name(parent).starts_with("containerd-shim"))
    };
    let runs = |row: &&Row| !is_in(row, 'Z');
    let parents: Vec<u32> = rows
        .iter()
        .filter(runs)
        .filter_map(|row| row.ppid)
        .collect();
    let is_idle = |row: &&Row| {
        is_exec(row)
            && row.age >= Age::Minutes
            && is_in(row, 'S')
            && is_of_shim(row)
            && !parents.contains(&row.pid)
    };
    let idle: Vec<&Row> = rows.iter().filter(is_idle).collect();
    let row = table("idle-runcs", idle.first()?).text("runc", runc);
    let pids: Vec<String> = idle.iter().map(|row| row.pid.to_string()).collect();
    let seconds = idle.iter().map(|row| row.age).min()?.seconds();
    let row = row
        .number("count", idle.len() as f64)
        .number("seconds", seconds);
    Some(row.text("pids", &*pids.join(" ")))
}

fn is_exec(row: &Row) -> bool {
    name(row) == "runc" && row.command.contains(" exec ")
}

/// `runc exec` is still there although what it started, the next process of the listing, is dead.
fn dead_exec(rows: &[Row]) -> Option<TableRow> {
    let [exec, child] = rows else {
        return None;
    };
    let is_child = match child.ppid {
        Some(parent) => parent == exec.pid,
        None => (1..=MAX_DISTANCE).contains(&child.pid.wrapping_sub(exec.pid)),
    };
    let is_dead = is_in(child, 'Z') && !child.command.starts_with("[runc]");
    let is_stuck = is_exec(exec) && !is_in(exec, 'Z') && is_child && is_dead;
    is_stuck.then(|| table("dead-execs", exec).text("child", &*child.command))
}

/// The first process of a container that has no memory any more and has not ended: it waits until all
/// others of its PID namespace have ended, which takes a moment.
fn ending(rows: &[Row]) -> Option<TableRow> {
    let is_shim = |row: &&Row| name(row).contains("containerd-shim");
    let shims: Vec<u32> = rows.iter().filter(is_shim).map(|row| row.pid).collect();
    // The brackets are of what has no command line; threads of the kernel have no such parent.
    let is_ending = |row: &&Row| {
        row.command.starts_with('[')
            && !is_in(row, 'Z')
            && row.state.is_some()
            && row.ppid.is_some_and(|parent| shims.contains(&parent))
    };
    Some(table("ending-processes", rows.iter().find(is_ending)?))
}

/// Whether a program is a known CNI plugin.
fn is_plugin_name(name: &str) -> bool {
    facts().cni_plugins.iter().any(|plugin| plugin == name)
}

/// What a runtime or a kubelet has started by the name of a plugin, or from their directory. Other
/// programs have such names, too: `bridge` is of iproute2.
fn running_plugins(rows: &[Row]) -> Vec<&Row> {
    let by_pid: HashMap<u32, &Row> = rows.iter().map(|row| (row.pid, row)).collect();
    let parent = |row: &&Row| by_pid.get(&row.ppid?).copied();
    let is_started = |row: &Row| {
        // Rows of several listings may contain a cycle.
        let above = std::iter::successors(parent(&row), parent).take(rows.len());
        above.into_iter().any(|row| {
            facts()
                .plugin_starters
                .iter()
                .any(|starter| starter == name(row))
        })
    };
    let is_plugin = |row: &&Row| {
        let is_named = || is_plugin_name(name(row)) && is_started(row);
        row.command.contains("/opt/cni/bin/") || is_named()
    };
    rows.iter().filter(is_plugin).collect()
}

fn plugins(rows: &[Row], late_calls: u64) -> Option<TableRow> {
    let plugins = running_plugins(rows);
    let is_old = |row: &&&Row| row.age >= Age::Minutes;
    let old = plugins.iter().filter(is_old).count();
    let row = plugins.iter().find(is_old).or(plugins.first())?;
    let row = table("cni-plugins", row).number("count", plugins.len() as f64);
    Some(
        row.number("old", old as f64)
            .number("late-calls", late_calls as f64),
    )
}
