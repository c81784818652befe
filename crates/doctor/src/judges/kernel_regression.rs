//! Kernel releases with a known fault that blocks processes (`causes::versions`). Such a release is reported
//! only if processes show the symptom of its fault; a CPU that the kernel itself reports as stuck is reported
//! on any release.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use causes::versions::{KernelFault, kernel_faults};

use super::Opinion;
use super::opinion::{advised, finding, of_kernel_log};
use crate::evidence::culprit;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::phrases::{MAX_EXAMPLES, names};
use crate::evidence::waits::{blocked_in, kernel_says};
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Process};

/// A `runc init` of this age is stuck: normally it is replaced by the container's program within a second.
const STUCK_SECONDS: f64 = 60.0;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let Some(release) = host.versions.kernel.value() else {
        return Opinion::of(None, [lack(&host.versions.kernel)]);
    };
    let found = kernel_faults(release).into_iter().filter_map(|fault| {
        let (confidence, culprit, mut evidence) = match fault.loses_wakeups() {
            true => lost_wakeup(host)?,
            false => blocked(facts, fault)?,
        };
        evidence.insert(0, kernel(release, fault));
        let mut found = finding(Cause::KernelRegression, confidence, culprit, evidence);
        found.sentence = format!(
            "this kernel release has a known fault, which blocks processes on this node: {}",
            fault.what
        );
        let fixed = fault.fixed.as_ref();
        let advice = fixed.map(|fixed| format!("boot kernel {fixed} or a later one"));
        Some(advised(found, advice))
    });
    let mut found: Vec<Finding> = found.collect();
    if found.is_empty() {
        found.extend(of_kernel_log(facts, Cause::KernelRegression));
    }
    Opinion::of(found, [lack_of_processes(host)])
}

fn kernel(release: &str, fault: &KernelFault) -> String {
    let fixed = match &fault.fixed {
        Some(fixed) => format!("fixed in {fixed}"),
        None => "the release with the fix is not known".to_owned(),
    };
    format!("kernel {release}: {}; {fixed}", fault.what)
}

/// The kernel's functions in which the threads of an idle Go program sleep.
const IDLE: [&str; 5] = [
    "ep_poll",
    "do_epoll_wait",
    "futex_",
    "do_nanosleep",
    "hrtimer_nanosleep",
];

/// `runc` and its `runc init` are both idle: each thread waits for an event that does not happen.
fn lost_wakeup(host: &HostFacts) -> Option<(Confidence, Culprit, Vec<String>)> {
    let asleep = |process: &Process| {
        let mut waits = process.waits().peekable();
        process.state == 'S'
            && process.threads.iter().all(|thread| thread.state != 'D')
            && waits.peek().is_some()
            && waits.all(|place| IDLE.iter().any(|idle| place.starts_with(idle)))
    };
    let pairs: Vec<&Process> = host
        .all_processes()
        .iter()
        .filter(|init| init.is_runc_init() && init.age_seconds > STUCK_SECONDS && asleep(init))
        .filter(|init| {
            let parent = host.process(init.ppid);
            parent.is_some_and(|runc| runc.is_runc() && asleep(runc))
        })
        .collect();
    let first = pairs.first()?;
    let says = format!(
        "still waiting for an event more than {STUCK_SECONDS:.0} s after the start: {}; the runc \
         processes that started them wait too",
        names(pairs.iter().copied())
    );
    Some((Confidence::High, culprit::of_process(first), vec![says]))
}

/// Threads that are blocked in the functions of the fault.
fn blocked(facts: &NodeFacts, fault: &KernelFault) -> Option<(Confidence, Culprit, Vec<String>)> {
    let said = kernel_says(facts, Cause::KernelRegression);
    let blocked = facts.host.blocked_threads();
    let threads: Vec<_> = blocked
        .filter(|(_, thread)| fault.is_in(thread.functions()))
        .collect();
    let (first, _) = threads.first()?;
    let mut evidence: Vec<String> = threads
        .iter()
        .take(MAX_EXAMPLES)
        .map(|(process, thread)| {
            let function = thread.functions().next().unwrap_or("the kernel");
            blocked_in(&process.label(), function)
        })
        .collect();
    let confidence = match said {
        Some(_) => Confidence::High,
        None => Confidence::Medium,
    };
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    Some((confidence, culprit::of_process(first), evidence))
}
