//! What a listing of processes proves.

use std::collections::HashMap;

use causes::Cause;
use causes::facts::facts;
use causes::finding::{Confidence, Culprit};

use serde::Deserialize;

use super::row::{Age, Row};
use crate::kernel::cause_of_function;
use crate::proof::Proof;
use crate::rules::{Rules, Texts};

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

/// A healthy node does not run more plugins at once.
const MAX_PLUGINS: usize = 20;
/// One or two may have exited just now.
const MIN_UNREAPED: usize = 3;
/// A runc is reaped at once, so those of two shims are no chance.
const MIN_UNREAPED_RUNCS: usize = 2;
/// Between the process ids of a command and of what it starts.
const MAX_DISTANCE: u32 = 64;

/// What these rows prove.
pub fn proofs(rows: &[Row]) -> Vec<Proof> {
    let mut proofs = Vec::new();
    proofs.extend(rows.iter().filter_map(blocked));
    for of in &Rules::active().processes {
        proofs.extend(of.rule.proofs(of.cause, rows));
    }
    proofs.extend(uninterruptible(rows));
    proofs.extend(lost_wakeup(rows));
    proofs.extend(
        unreaped(rows)
            .or_else(|| old_zombie(rows))
            .or_else(|| ending(rows)),
    );
    proofs.extend(plugins(rows));
    proofs.extend(rows.windows(2).find_map(dead_exec));
    proofs
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
            let proof = match self.at_least {
                1 => of(row, cause, self.confidence, says),
                // It is the number that is unusual, and not one of them.
                _ => Proof::new(cause, self.confidence, row.line, says),
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
        let is_named = |pattern: &String| match pattern.strip_suffix('*') {
            Some(begin) => name(row).starts_with(begin),
            None => name(row) == pattern,
        };
        self.names.iter().any(is_named)
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
    let says = format!("process {} ({}) waits in {wchan}", row.pid, row.command);
    if is_runc_init(row) && wchan.starts_with("pipe_w") {
        return Some(of(row, Cause::RuncSeccompPipe, Confidence::High, says));
    }
    let (cause, confidence) = cause_of_function(wchan.trim_start_matches("__"))?;
    let is_blocked = is_in(row, 'D') || cause == Cause::FanotifyBlocked;
    is_blocked.then(|| of(row, cause, confidence, says))
}

/// Several processes in uninterruptible sleep, if the listing does not show where they wait.
fn uninterruptible(rows: &[Row]) -> Option<Proof> {
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
    let row = *blocked.iter().find(mounts).or(blocked.first())?;
    let confidence = match blocked.iter().any(|row| mounts(&row)) {
        true => Confidence::Medium,
        false => Confidence::Low,
    };
    let says = format!(
        "{} processes are in uninterruptible sleep (state D), usually waiting for a disk",
        blocked.len()
    );
    (confidence == Confidence::Medium || blocked.len() >= 3)
        .then(|| of(row, Cause::StorageUnresponsive, confidence, says))
}

/// A program of the GPU driver in uninterruptible sleep: it waits for the driver, not for a disk.
pub fn waits_for_gpu_driver(rows: &[Row]) -> Option<&Row> {
    let waits = |row: &&Row| is_in(row, 'D') && row.wchan.is_none() && is_of_gpu_driver(row);
    rows.iter().find(waits)
}

/// A process in uninterruptible sleep in a function of the kernel that tells of no cause.
pub fn waits_elsewhere(rows: &[Row]) -> Option<(&Row, &str)> {
    let waiting = rows.iter().filter(|row| is_in(row, 'D'));
    let mut waiting = waiting.filter_map(|row| Some((row, row.wchan.as_deref()?)));
    waiting.find(|(_, wchan)| cause_of_function(wchan.trim_start_matches("__")).is_none())
}

fn is_of_gpu_driver(row: &Row) -> bool {
    let name = name(row);
    name.starts_with("nvidia-") || name.starts_with("nvc:")
}

fn of(row: &Row, cause: Cause, confidence: Confidence, says: String) -> Proof {
    let culprit = Culprit {
        pid: Some(row.pid),
        process: Some(row.command.clone()),
        ..Culprit::default()
    };
    Proof::new(cause, confidence, row.line, says).of(culprit)
}

/// A healthy shim reaps its children within milliseconds. Zombies whose other threads are still
/// alive (`l`) cannot be reaped yet, so they are not counted.
fn unreaped(rows: &[Row]) -> Option<Proof> {
    let dead = |row: &&Row| {
        let state = row.state.as_deref().unwrap_or_default();
        state.starts_with('Z') && !state.contains('l')
    };
    let mut by_parent: HashMap<u32, usize> = HashMap::new();
    for parent in rows.iter().filter(dead).filter_map(|row| row.ppid) {
        *by_parent.entry(parent).or_default() += 1;
    }
    let unreaped = |row: &Row| by_parent.get(&row.pid).copied().unwrap_or(0);
    let shims = rows
        .iter()
        .filter(|row| name(row).contains("containerd-shim"));
    let shim = shims.clone().max_by_key(|row| unreaped(row))?;
    let count = unreaped(shim);
    let runcs = rows.iter().filter(dead).filter(|row| {
        let is_runc = row.command.contains("[runc]");
        is_runc && shims.clone().any(|shim| row.ppid == Some(shim.pid))
    });
    let is_enough = count >= MIN_UNREAPED || runcs.count() >= MIN_UNREAPED_RUNCS;
    let says = format!(
        "process {} ({}) has not reaped {count} dead children",
        shim.pid,
        name(shim)
    );
    is_enough.then(|| of(shim, Cause::ShimUnresponsive, Confidence::Medium, says))
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

/// `runc create` and its `runc init` have both been asleep for long, and no process is blocked in
/// the kernel: an epoll wake-up was probably lost.
fn lost_wakeup(rows: &[Row]) -> Option<Proof> {
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
    let row = *pairs.first()?;
    Some(of(
        row,
        Cause::KernelRegression,
        Confidence::Medium,
        format!(
            "{} old runc processes and their `runc init` are asleep, and no process is blocked in \
             the kernel: this is what lost epoll wake-ups look like (kernels 5.4.210 and later of \
             2022)",
            pairs.len()
        ),
    ))
}

fn is_exec(row: &Row) -> bool {
    matches!(name(row), "runc" | "docker-runc") && row.command.contains(" exec ")
}

/// `runc exec` is still there although what it started, the next process of the listing, is dead.
fn dead_exec(rows: &[Row]) -> Option<Proof> {
    let [exec, child] = rows else {
        return None;
    };
    let is_child = match child.ppid {
        Some(parent) => parent == exec.pid,
        None => (1..=MAX_DISTANCE).contains(&child.pid.wrapping_sub(exec.pid)),
    };
    let is_dead = is_in(child, 'Z') && !child.command.starts_with("[runc]");
    let says = format!(
        "process {} (runc exec) has not returned, although {} has ended",
        exec.pid, child.command
    );
    let is_stuck = is_exec(exec) && !is_in(exec, 'Z') && is_child && is_dead;
    is_stuck.then(|| of(exec, Cause::RuncShortExecStuck, Confidence::Medium, says))
}

/// A zombie of a shim that was started more than an hour ago. One that has just ended is not likely
/// to be seen as that, where those of short commands are.
fn old_zombie(rows: &[Row]) -> Option<Proof> {
    let is_shim = |row: &&Row| name(row).contains("containerd-shim");
    let shims: HashMap<u32, &Row> = rows
        .iter()
        .filter(is_shim)
        .map(|row| (row.pid, row))
        .collect();
    let state = |row: &Row| row.state.clone().unwrap_or_default();
    let dead = |row: &&Row| row.age == Age::Hours && is_in(row, 'Z') && !state(row).contains('l');
    let found = rows
        .iter()
        .filter(dead)
        .find_map(|row| Some((row, *shims.get(&row.ppid?)?)));
    let (row, shim) = found?;
    let says = format!(
        "process {} ({}) has not reaped {}, which is dead",
        shim.pid,
        name(shim),
        row.command
    );
    Some(of(shim, Cause::ShimUnresponsive, Confidence::Low, says))
}

/// The first process of a container that has no memory any more and is not gone: it waits until all
/// others of its PID namespace have ended, which takes a moment.
fn ending(rows: &[Row]) -> Option<Proof> {
    let is_shim = |row: &&Row| name(row).contains("containerd-shim");
    let shims: Vec<u32> = rows.iter().filter(is_shim).map(|row| row.pid).collect();
    // The brackets are of what has no command line; threads of the kernel have no such parent.
    let is_ending = |row: &&Row| {
        row.command.starts_with('[')
            && !is_in(row, 'Z')
            && row.state.is_some()
            && row.ppid.is_some_and(|parent| shims.contains(&parent))
    };
    let row = rows.iter().find(is_ending)?;
    let says = format!(
        "process {} ({}), the first of its container, has exited in part: another of its processes \
         does not end",
        row.pid, row.command
    );
    Some(of(row, Cause::ShimUnresponsive, Confidence::Low, says))
}

/// A running CNI plugin of any age.
pub fn plugin(rows: &[Row]) -> Option<&Row> {
    running_plugins(rows).into_iter().next()
}

/// Whether a program is a known CNI plugin.
pub fn is_plugin_name(name: &str) -> bool {
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

fn plugins(rows: &[Row]) -> Option<Proof> {
    let plugins = running_plugins(rows);
    let is_old = |row: &&&Row| row.age >= Age::Minutes;
    let old = plugins.iter().filter(is_old).count();
    let row = plugins.iter().find(is_old).or(plugins.first())?;
    (plugins.len() >= MAX_PLUGINS || old > 0).then(|| {
        of(
            row,
            Cause::CniPluginHang,
            Confidence::High,
            format!(
                "{} CNI plugin processes, {old} of them old; a plugin normally runs for about a \
                 second",
                plugins.len()
            ),
        )
    })
}
