//! Names and times as sentences have them.

use std::time::Duration;

use causes::finding::Culprit;
use times::GoDuration;

use crate::evidence::shims::Shim;
use crate::facts::host::Process;
use crate::facts::probes::{Probe, ProbeFacts};

/// `container app of pod shop/web`, or as much of it as is known.
pub(crate) fn subject(probe: &Probe) -> String {
    let pod = probe.pod.as_ref().map(|pod| {
        let namespace = pod.namespace.as_deref().unwrap_or("?");
        format!("pod {namespace}/{}", pod.name.as_deref().unwrap_or("?"))
    });
    let id = probe.id.as_deref().map(short).unwrap_or_default();
    match (&probe.container, pod) {
        (Some(container), Some(pod)) => format!("container {container} of {pod}"),
        (Some(container), None) => format!("container {container} ({id})"),
        (None, Some(pod)) => pod,
        (None, None) => format!("{id} (no name is known)"),
    }
}

/// The first digits of an id, which is how people write them.
pub(crate) fn short(id: &str) -> &str {
    id.get(..13).filter(|_| id.len() == 64).unwrap_or(id)
}

/// Who a call is about, and the shim behind it.
pub(crate) fn culprit(probe: &Probe, shim: Option<&Shim>) -> Culprit {
    Culprit {
        pod: probe.pod.clone(),
        container: probe.container.clone(),
        id: probe.id.clone(),
        pid: shim.map(|shim| shim.process.pid),
        process: shim.map(|shim| shim.process.comm.clone()),
        unit: None,
    }
}

/// What the runtime's goroutines say, if they were asked for.
pub(crate) fn stacks(probes: &ProbeFacts) -> Option<String> {
    let stacks = probes.stacks.value()?;
    let holder = stacks.holder.as_ref()?;
    let why = stacks.why.as_deref().unwrap_or_default();
    let count = stacks.goroutines;
    Some(format!(
        "of the {count} goroutines of the runtime the one that blocks the others is in {holder}: {why}"
    ))
}

/// To the millisecond, which is what people compare.
pub(crate) fn go(seconds: f64) -> GoDuration {
    let millis = (seconds.clamp(0.0, 1e12) * 1000.0).round() as u64;
    GoDuration(Duration::from_millis(millis))
}

/// Of each kind so many examples are quoted.
pub(crate) const EXAMPLES: usize = 5;

/// Processes as `name (pid)`, the first few of them.
pub(crate) fn names<'a>(processes: impl IntoIterator<Item = &'a Process>) -> String {
    let mut processes = processes.into_iter();
    let first: Vec<String> = processes
        .by_ref()
        .take(EXAMPLES)
        .map(Process::label)
        .collect();
    match processes.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
