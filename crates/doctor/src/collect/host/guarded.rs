//! The reads that may block in the kernel, which the helpers make.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{Host, versions};
use crate::collect::helper::{CgroupWalk, FanotifyMarks, Helpers, Request};
use crate::facts::Fact;
use crate::facts::host::{FanotifyListener, HostFacts, Process};
use crate::limits::{READ_IN_HELPER, RPM};

const MAX_STACKS: usize = 32;
const MAX_LISTENERS: usize = 32;
/// Where runc may be installed, in the order of precedence.
const RUNC: [&str; 4] = ["local/sbin/runc", "local/bin/runc", "sbin/runc", "bin/runc"];

/// Adds the facts that the helpers read. Returns whether this process is in a container that does not
/// contain process 1.
pub(super) fn collect(host: &Host, helpers: &mut Helpers, facts: &mut HostFacts) -> bool {
    let walk = Request::Cgroups {
        proc: host.proc.clone(),
        sys: host.sys.clone(),
    };
    let base = host.sys.join("fs/cgroup");
    let walk = match ask::<CgroupWalk>(helpers, &walk, &base, host.step) {
        Fact::Known { value, .. } => value,
        Fact::Missing { why, source } => CgroupWalk::missing(&why, &source),
    };
    let in_container = walk.in_container;
    // If the control groups of daemons are not visible, their quotas are not known either.
    if let Fact::Missing { why, source } = &walk.frozen
        && in_container
    {
        facts.cgroups.throttled = Fact::missing(why, source);
    }
    facts.cgroups.frozen = walk.frozen;
    facts.cgroups.pids = walk.pids;
    facts.cgroups.memory = walk.memory;
    facts.fanotify = fanotify(host, helpers, facts.all_processes());
    facts.versions.init_replaced = init_replaced(host, helpers);
    facts.versions.runc = runc(host, helpers);
    let roots = roots(host, facts.all_processes());
    let filesystem = |path: PathBuf| {
        let request = Request::Filesystem { path: path.clone() };
        ask(helpers, &request, &path, READ_IN_HELPER)
    };
    facts.filesystems = roots.into_iter().map(filesystem).collect();
    if let Fact::Known { value, .. } = &mut facts.processes {
        stacks(host, helpers, value);
    }
    // rpm is run last: if it blocks, nothing but a helper is lost.
    let packages = facts.versions.packages.value();
    if packages.is_none_or(BTreeMap::is_empty) {
        let may_exec_block = facts.waits_for_fanotify() || !facts.gaps.is_empty();
        if let Some(packages) = rpm(host, helpers, may_exec_block) {
            facts.versions.packages = packages;
        }
    }
    in_container
}

fn ask<T: DeserializeOwned>(
    helpers: &mut Helpers,
    request: &Request,
    path: &Path,
    limit: Duration,
) -> Fact<T> {
    Fact::of(helpers.ask(request, limit), path.display().to_string())
}

/// The usual directories, and the root directories of runtimes that are elsewhere.
fn roots(host: &Host, processes: &[Process]) -> Vec<PathBuf> {
    let fds = processes.iter().filter_map(|process| process.fds.value());
    let own: BTreeSet<PathBuf> = fds.flat_map(|fds| &fds.root).map(PathBuf::from).collect();
    let own = own.into_iter().filter(|root| !host.roots.contains(root));
    host.roots.iter().cloned().chain(own).collect()
}

fn init_replaced(host: &Host, helpers: &mut Helpers) -> Fact<bool> {
    let path = host.proc.join("1/exe");
    let request = Request::Link { path: path.clone() };
    let link = ask(helpers, &request, &path, READ_IN_HELPER);
    link.map(|link: String| link.ends_with(" (deleted)"))
}

fn runc(host: &Host, helpers: &mut Helpers) -> Fact<String> {
    let mut paths = RUNC.iter().map(|path| host.usr.join(path));
    // Checking whether a file exists does not open it, so it needs no permission of a fanotify listener.
    let Some(path) = paths.find(|path| path.exists()) else {
        return Fact::missing(
            "runc is not in any of its usual places",
            host.usr.display().to_string(),
        );
    };
    let request = Request::ProgramVersion { path: path.clone() };
    ask(helpers, &request, &path, Duration::from_secs(2))
}

/// The versions of packages according to rpm; `None` if rpm is not installed.
fn rpm(
    host: &Host,
    helpers: &mut Helpers,
    may_exec_block: bool,
) -> Option<Fact<BTreeMap<String, String>>> {
    let program = host.usr.join("bin/rpm");
    if !program.exists() {
        return None;
    }
    let packages = versions::PACKAGES.map(str::to_owned).to_vec();
    let source = format!("{} -q", program.display());
    if may_exec_block || helpers.is_any_blocked() {
        let why = "rpm was not run, because it might block in the kernel";
        return Some(Fact::missing(why, source));
    }
    let request = Request::Rpm { program, packages };
    let read = helpers.ask::<String>(&request, RPM + Duration::from_secs(1));
    let packages = read.and_then(|text| Ok(versions::of_rpm(&text)?));
    Some(Fact::of(packages, source))
}

fn fanotify(
    host: &Host,
    helpers: &mut Helpers,
    processes: &[Process],
) -> Fact<Vec<FanotifyListener>> {
    let mut listeners = Vec::new();
    let source = host.proc.join("*/fdinfo/*").display().to_string();
    for process in processes {
        let numbers = process.fds.value().map_or(&[][..], |fds| &fds.fanotify);
        let mut listener = FanotifyListener {
            pid: process.pid,
            comm: process.comm.clone(),
            ..FanotifyListener::default()
        };
        for number in numbers {
            let path = host.proc.join(format!("{}/fdinfo/{number}", process.pid));
            // A listener whose marks cannot be read is kept.
            let request = Request::Fanotify { path };
            if let Ok(marks) = helpers.ask::<FanotifyMarks>(&request, READ_IN_HELPER) {
                listener.marks += marks.all;
                listener.permission_marks += marks.permission;
            }
        }
        if !numbers.is_empty() && listeners.len() < MAX_LISTENERS {
            listeners.push(listener);
        }
    }
    Fact::known(listeners, source)
}

fn stacks(host: &Host, helpers: &mut Helpers, processes: &mut [Process]) {
    let blocked = processes.iter_mut().flat_map(|process| {
        let pid = process.pid;
        let threads = process.threads.iter_mut();
        let blocked = threads.filter(|thread| thread.state == 'D' && thread.still);
        blocked.map(move |thread| (pid, thread))
    });
    for (pid, thread) in blocked.take(MAX_STACKS) {
        let path = host.proc.join(format!("{pid}/task/{}/stack", thread.tid));
        match helpers.ask(&Request::Stack { path }, READ_IN_HELPER) {
            Ok(stack) => thread.stack = stack,
            Err(why) => thread.no_stack = Some(why),
        }
    }
}
