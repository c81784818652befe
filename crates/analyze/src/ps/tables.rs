//! What the processes of a listing show together, as rows of tables.

use std::collections::{BTreeMap, HashMap, HashSet};

use causes::facts::facts;

use super::row::{Age, Row};
use super::rules::{cause, is_in, is_runc_init, name};
use crate::table::TableRow;

/// The maximum distance between the process ids of a command and of its child.
const MAX_DISTANCE: u32 = 64;

/// The maximum number of process ids in a command that an advice shows.
const MAX_EXAMPLES: usize = 5;

/// What the processes show together. `late_calls` is the number of timed-out calls that wait for CNI plugins,
/// and `runc` the version of runc, if it is known.
pub fn tables(rows: &[Row], late_calls: u64, runc: Option<&str>) -> Vec<TableRow> {
    let listing = &Listing::of(rows);
    let found = [
        uninterruptible(rows),
        sleeping_runcs(listing),
        dead_children(listing),
        ending(listing),
        plugins(listing, late_calls),
        rows.windows(2).find_map(dead_exec),
        blocked_in_driver(rows),
        blocked_elsewhere(rows),
    ];
    let idle = runc.and_then(|runc| idle_runcs(listing, runc));
    let inits = rows.iter().filter(|row| is_runc_init(row));
    let inits = inits.filter_map(|row| runc_init(row, runc?));
    found
        .into_iter()
        .flatten()
        .chain(idle)
        .chain(inits)
        .collect()
}

struct Listing<'a> {
    rows: &'a [Row],
    by_pid: HashMap<u32, &'a Row>,
}

impl<'a> Listing<'a> {
    fn of(rows: &'a [Row]) -> Self {
        let by_pid = rows.iter().map(|row| (row.pid, row)).collect();
        Self { rows, by_pid }
    }

    fn parent(&self, row: &Row) -> Option<&'a Row> {
        self.by_pid.get(&row.ppid?).copied()
    }

    fn is_of_shim(&self, row: &Row) -> bool {
        self.parent(row).is_some_and(is_shim)
    }
}

fn is_shim(row: &Row) -> bool {
    name(row).contains("containerd-shim")
}

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

/// The shim with the most children that have ended. A healthy shim reaps them within milliseconds. Children
/// whose other threads are still alive (`l`) cannot be reaped yet, so they are not counted.
fn dead_children(listing: &Listing) -> Option<TableRow> {
    let dead = |row: &&Row| {
        let state = row.state.as_deref().unwrap_or_default();
        state.starts_with('Z') && !state.contains('l')
    };
    let shims = listing.rows.iter().filter(|row| is_shim(row));
    let mut of_shims: BTreeMap<u32, Vec<&Row>> = shims.map(|row| (row.pid, Vec::new())).collect();
    for row in listing.rows.iter().filter(dead) {
        if let Some(children) = row.ppid.and_then(|pid| of_shims.get_mut(&pid)) {
            children.push(row);
        }
    }
    let all = || of_shims.values().flatten();
    let is_old = |row: &&&Row| row.age == Age::Hours;
    let most = |(_, children): &(&u32, &Vec<&Row>)| {
        let has_old = children.iter().any(|row| is_old(&row));
        (children.len(), has_old)
    };
    let (pid, children) = of_shims.iter().max_by_key(most)?;
    let shim = listing.by_pid.get(pid)?;
    let runcs = all().filter(|row| row.command.contains("[runc]")).count();
    let row = table("dead-children", shim)
        .text("name", name(shim))
        .number("count", children.len() as f64)
        .number("runcs", runcs as f64);
    Some(row.text("old", all().find(is_old).map(|row| &*row.command)))
}

/// Whether a runc and a `runc init` have been asleep for minutes, and no process is blocked in the kernel.
/// A kernel that loses epoll wake-ups looks like this.
pub fn is_runc_asleep(rows: &[Row]) -> bool {
    let is_asleep = |row: &&Row| is_in(row, 'S') && row.age >= Age::Minutes;
    let asleep = || rows.iter().filter(is_asleep);
    asleep().any(is_runc_init)
        && asleep().any(|row| name(row) == "runc" && !is_runc_init(row))
        && !rows.iter().any(|row| is_in(row, 'D'))
}

/// A runc below a shim and its `runc init` are both asleep, the latter for more than an hour, and no
/// process is blocked in the kernel.
fn sleeping_runcs(listing: &Listing) -> Option<TableRow> {
    if listing.rows.iter().any(|row| is_in(row, 'D')) {
        return None;
    }
    let is_runc = |row: &&Row| name(row) == "runc" && is_in(row, 'S');
    let sleeping = |row: &&Row| {
        let shape = is_runc_init(row) && row.age == Age::Hours && is_in(row, 'S');
        let runc = listing.parent(row).filter(is_runc);
        shape && runc.is_some_and(|runc| listing.is_of_shim(runc))
    };
    let pairs: Vec<&Row> = listing.rows.iter().filter(sleeping).collect();
    let row = table("sleeping-runcs", pairs.first()?);
    Some(row.number("count", pairs.len() as f64))
}

/// A `runc init` that waits in the kernel.
fn runc_init(row: &Row, runc: &str) -> Option<TableRow> {
    let function = row.wchan.as_deref()?;
    let found = table("runc-inits", row).number("seconds", row.age.seconds());
    Some(found.text("function", function).text("runc", runc))
}

/// `runc exec` processes below a shim that have been asleep for a minute without a child. Usually, runc exits
/// as soon as the process that it starts is running.
fn idle_runcs(listing: &Listing, runc: &str) -> Option<TableRow> {
    let live = listing.rows.iter().filter(|row| !is_in(row, 'Z'));
    let parents: HashSet<u32> = live.filter_map(|row| row.ppid).collect();
    let is_idle = |row: &&Row| {
        is_exec(row)
            && row.age >= Age::Minutes
            && is_in(row, 'S')
            && listing.is_of_shim(row)
            && !parents.contains(&row.pid)
    };
    let idle: Vec<&Row> = listing.rows.iter().filter(is_idle).collect();
    let pids = idle.iter().take(MAX_EXAMPLES);
    let pids: Vec<String> = pids.map(|row| row.pid.to_string()).collect();
    let seconds = idle.iter().map(|row| row.age).min()?.seconds();
    let row = table("idle-runcs", idle.first()?)
        .number("count", idle.len() as f64)
        .number("seconds", seconds)
        .text("pids", &*pids.join(" "));
    Some(row.text("runc", runc))
}

fn is_exec(row: &Row) -> bool {
    name(row) == "runc" && row.command.contains(" exec ")
}

/// A `runc exec` that has not exited although its child, the next process of the listing, is dead.
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

/// The first process of a container that has freed its memory but has not ended: it waits until all other
/// processes of its PID namespace have ended, which usually takes a moment.
fn ending(listing: &Listing) -> Option<TableRow> {
    // Processes without a command line have brackets; kernel threads have them too, but another parent.
    let is_ending = |row: &&Row| {
        row.command.starts_with('[')
            && !is_in(row, 'Z')
            && row.state.is_some()
            && listing.is_of_shim(row)
    };
    let row = listing.rows.iter().find(is_ending)?;
    Some(table("ending-processes", row))
}

/// Processes that a runtime or a kubelet started and that have the name of a CNI plugin, or are from the
/// directory of the plugins. Other programs have such names, too: `bridge` of iproute2.
fn running_plugins<'a>(listing: &Listing<'a>) -> Vec<&'a Row> {
    let is_one_of = |names: &[String], row: &Row| names.iter().any(|known| known == name(row));
    let is_started = |row: &Row| {
        // Rows of several listings may contain a cycle.
        let parents = std::iter::successors(listing.parent(row), |row| listing.parent(row));
        let mut above = parents.take(listing.rows.len());
        above.any(|row| is_one_of(&facts().plugin_starters, row))
    };
    let is_plugin = |row: &&Row| {
        let is_named = || is_one_of(&facts().cni_plugins, row) && is_started(row);
        row.command.contains("/opt/cni/bin/") || is_named()
    };
    listing.rows.iter().filter(is_plugin).collect()
}

fn plugins(listing: &Listing, late_calls: u64) -> Option<TableRow> {
    let plugins = running_plugins(listing);
    let is_old = |row: &&&Row| row.age >= Age::Minutes;
    let old = plugins.iter().filter(is_old).count();
    let row = table(
        "cni-plugins",
        plugins.iter().find(is_old).or(plugins.first())?,
    )
    .number("count", plugins.len() as f64)
    .number("old", old as f64);
    Some(row.number("late-calls", late_calls as f64))
}
