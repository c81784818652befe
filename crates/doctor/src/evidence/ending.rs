//! Containers that are to end, but whose processes live on.

use super::known;
use super::owner::processes_of;
use crate::facts::NodeFacts;
use crate::facts::host::process::is_of_freezer;
use crate::facts::host::{EndSignal, FrozenCgroup, HostFacts, Process};
use crate::facts::tasks::Task;

/// A container that is to end and does not.
pub(crate) struct Ending<'a> {
    pub task: &'a Task,
    /// The process that does not end.
    pub process: &'a Process,
    /// What shows that the container is to end.
    pub asked: Asked,
    pub held: Held<'a>,
}

/// What shows that a container is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The first process was killed.
    Killed,
    /// The first process has exited, but is not gone.
    Exited,
    /// SIGTERM is pending for the first process.
    Terminated,
    /// The runtime lists the container as running, and its sandbox as not ready.
    SandboxEnded,
    /// The runtime lists the container as ended.
    ListedAsEnded,
}

/// What keeps a process from ending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Held<'a> {
    /// The control group of the process is frozen.
    Frozen(&'a FrozenCgroup),
    /// A process with this PID traces the process.
    Traced(u32),
    /// A thread waits uninterruptibly in this function of the kernel.
    InKernel(&'a str),
    /// No reason was found, and no signal is pending either.
    Nothing,
}

/// All containers that are to end and do not. One that received its signal and can end is not among them.
pub(crate) fn endings(facts: &NodeFacts) -> Vec<Ending<'_>> {
    let tasks = known(&facts.probes.tasks).iter();
    let endings = tasks.filter_map(|task| ending(&facts.host, task));
    endings.collect()
}

fn ending<'a>(host: &'a HostFacts, task: &'a Task) -> Option<Ending<'a>> {
    let first = match task.init {
        Some(init) => host.process(init)?,
        // Its shim was killed: containerd has dropped the task, and its processes are to end.
        None => processes_of(host, &task.id).find(is_killed)?,
    };
    let asked = match first.pending {
        // A signal stays pending for a zombie.
        _ if has_exited(first) => Asked::Exited,
        _ if task.listed_as_ended => Asked::ListedAsEnded,
        Some(EndSignal::Kill) => Asked::Killed,
        _ if task.sandbox_ended => Asked::SandboxEnded,
        Some(EndSignal::Term) => Asked::Terminated,
        None => return None,
    };
    // A first process that has exited waits for all others in its PID namespace.
    let others = processes_of(host, &task.id).filter(|process| process.pid != first.pid);
    let mut processes = [first].into_iter().chain(others.filter(is_killed));
    let held = processes.find_map(|process| Some((process, held(host, process)?)));
    let is_listed = matches!(asked, Asked::SandboxEnded | Asked::ListedAsEnded);
    let lives_on = is_listed && first.pending.is_none();
    let (process, held) = held.or(lives_on.then_some((first, Held::Nothing)))?;
    Some(Ending {
        task,
        process,
        asked,
        held,
    })
}

fn is_killed(process: &&Process) -> bool {
    process.pending == Some(EndSignal::Kill)
}

fn has_exited(process: &Process) -> bool {
    let wchan = process.wchan.as_deref();
    process.state == 'Z' || wchan.is_some_and(|wchan| wchan.starts_with("zap_pid_ns"))
}

fn held<'a>(host: &'a HostFacts, process: &'a Process) -> Option<Held<'a>> {
    if let Some(group) = host.frozen_group(process) {
        return Some(Held::Frozen(group));
    }
    if let Some(tracer) = process.tracer
        && matches!(process.state, 't' | 'Z')
    {
        return Some(Held::Traced(tracer));
    }
    let blocked = process.blocked_threads().next()?;
    let freezer = blocked.functions().find(|function| is_of_freezer(function));
    let function = freezer.or_else(|| blocked.functions().next());
    Some(Held::InKernel(function.unwrap_or("the kernel")))
}
