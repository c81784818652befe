//! Names, states and durations in sentences.

use std::time::Duration;

use causes::finding::PodName;
use pleg_text::GoDuration;

use crate::facts::host::Process;
use crate::facts::probes::{Probe, ProbeFacts};
use crate::facts::tasks::Task;

/// `pod shop/web`.
pub(crate) fn name_of_pod(pod: &PodName) -> String {
    let namespace = pod.namespace.as_deref().unwrap_or("?");
    format!("pod {namespace}/{}", pod.name.as_deref().unwrap_or("?"))
}

/// `container app of pod shop/web`, or the part of it that is known.
pub(crate) fn subject(probe: &Probe) -> String {
    let pod = probe.pod.as_ref().map(name_of_pod);
    let id = probe.id.as_deref().map(short).unwrap_or_default();
    match (&probe.container, pod) {
        (Some(container), Some(pod)) => format!("container {container} of {pod}"),
        (Some(container), None) => format!("container {container} ({id})"),
        (None, Some(pod)) => pod,
        (None, None) => format!("{id} (name unknown)"),
    }
}

/// A container or sandbox in the form of [`subject`].
pub(crate) fn name_of_task(task: &Task) -> String {
    match (&task.container, task.pod.as_ref().map(name_of_pod)) {
        (Some(name), Some(pod)) => format!("container {name} of {pod}"),
        (None, Some(pod)) => format!("the sandbox of {pod}"),
        (_, None) => format!("container {}", short(&task.id)),
    }
}

/// `ContainerStatus of container app of pod shop/web`, or `ListContainers`.
pub(crate) fn name_of_call(probe: &Probe) -> String {
    let call = probe.call.name();
    match probe.id {
        Some(_) => format!("{call} of {}", subject(probe)),
        None => call.to_owned(),
    }
}

/// The evidence that a call has not been answered.
pub(crate) fn not_answered(probe: &Probe) -> String {
    let (call, seconds) = (name_of_call(probe), duration(probe.seconds));
    format!("{call} has not answered for {seconds}{}", probe.source())
}

/// The first digits of an id, as crictl prints them.
pub(crate) fn short(id: &str) -> &str {
    id.get(..13).filter(|_| id.len() == 64).unwrap_or(id)
}

/// The name that the runtime reports.
pub(crate) fn name_of_runtime(probes: &ProbeFacts) -> &str {
    let runtime = probes.runtime.as_ref();
    runtime.map_or("the runtime", |runtime| &runtime.name)
}

/// Which of the runtime's goroutines blocks the others, if they were dumped.
pub(crate) fn stacks(probes: &ProbeFacts) -> Option<String> {
    let stacks = probes.stacks.value()?;
    let holder = stacks.holder.as_ref()?;
    let why = stacks.why.as_deref().unwrap_or_default();
    let count = stacks.goroutines;
    Some(format!(
        "of the runtime's {count} goroutines, the one that blocks the others is in {holder}: {why}"
    ))
}

/// A duration in Go's format, rounded to milliseconds.
pub(crate) fn duration(seconds: f64) -> GoDuration {
    let millis = (seconds.clamp(0.0, 1e12) * 1000.0).round() as u64;
    GoDuration(Duration::from_millis(millis))
}

/// A duration in whole seconds.
pub(crate) fn whole_seconds(seconds: f64) -> GoDuration {
    duration(seconds.floor())
}

/// How long ago a process was started.
pub(crate) fn age(process: &Process) -> GoDuration {
    whole_seconds(process.age_seconds)
}

/// `containerd (812) is stopped (state T)`.
pub(crate) fn with_state(process: &Process) -> String {
    format!("{} {}", process.label(), process.doing())
}

/// `A`, `A and B`, `A, B and C`; `last` is `and` or `or`.
pub(crate) fn series(names: &[&str], last: &str) -> String {
    match names {
        [first @ .., end] if !first.is_empty() => format!("{} {last} {end}", first.join(", ")),
        _ => names.concat(),
    }
}

/// How many examples of each kind are quoted.
pub(crate) const MAX_EXAMPLES: usize = 5;

/// Processes as `name (pid)`, the first few of them.
pub(crate) fn names<'a>(processes: impl IntoIterator<Item = &'a Process>) -> String {
    let mut processes = processes.into_iter();
    let first = processes.by_ref().take(MAX_EXAMPLES).map(Process::label);
    let first = first.collect::<Vec<_>>().join(", ");
    match processes.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_has_commas_and_one_conjunction() {
        assert_eq!(series(&["A"], "or"), "A");
        assert_eq!(series(&["A", "B"], "or"), "A or B");
        assert_eq!(series(&["A", "B", "C"], "and"), "A, B and C");
    }
}
