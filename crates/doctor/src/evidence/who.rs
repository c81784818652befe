//! Names and durations in sentences.

use std::time::Duration;

use causes::finding::{Culprit, PodName};
use pleg_text::GoDuration;

use crate::evidence::shims::Shim;
use crate::facts::host::Process;
use crate::facts::probes::{Probe, ProbeFacts};

/// `pod shop/web`.
pub(crate) fn of_pod(pod: &PodName) -> String {
    let namespace = pod.namespace.as_deref().unwrap_or("?");
    format!("pod {namespace}/{}", pod.name.as_deref().unwrap_or("?"))
}

/// `container app of pod shop/web`, or as much of it as is known.
pub(crate) fn subject(probe: &Probe) -> String {
    let pod = probe.pod.as_ref().map(of_pod);
    let id = probe.id.as_deref().map(short).unwrap_or_default();
    match (&probe.container, pod) {
        (Some(container), Some(pod)) => format!("container {container} of {pod}"),
        (Some(container), None) => format!("container {container} ({id})"),
        (None, Some(pod)) => pod,
        (None, None) => format!("{id} (name unknown)"),
    }
}

/// The evidence that a call has not been answered.
pub(crate) fn not_answered(probe: &Probe) -> String {
    let (call, seconds) = (probe.call.name(), go(probe.seconds));
    let call = match probe.id {
        Some(_) => format!("{call} of {}", subject(probe)),
        None => call.to_owned(),
    };
    format!("{call} has not answered for {seconds}{}", probe.source())
}

/// The first digits of an id, as crictl prints them.
pub(crate) fn short(id: &str) -> &str {
    id.get(..13).filter(|_| id.len() == 64).unwrap_or(id)
}

/// The container or pod of a call, and the process of its shim for which the call waits.
pub(crate) fn culprit(probe: &Probe, shim: Option<&Shim>) -> Culprit {
    let process = shim.and_then(Shim::waited_for);
    Culprit {
        pod: probe.pod.clone(),
        container: probe.container.clone(),
        id: probe.id.clone(),
        pid: process.map(|process| process.pid),
        process: process.map(|process| process.comm.clone()),
        unit: None,
    }
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
pub(crate) fn go(seconds: f64) -> GoDuration {
    let millis = (seconds.clamp(0.0, 1e12) * 1000.0).round() as u64;
    GoDuration(Duration::from_millis(millis))
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
    let first: Vec<String> = processes
        .by_ref()
        .take(MAX_EXAMPLES)
        .map(Process::label)
        .collect();
    match processes.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
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
