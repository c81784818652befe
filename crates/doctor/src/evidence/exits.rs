//! Containers that have exited, but that the runtime still lists as running seconds later.

use super::known;
use super::phrases::name_of_task;
use crate::facts::probes::ProbeFacts;
use crate::facts::tasks::Task;

/// The containers that have exited, but are still listed as running.
pub(crate) fn listed_though_dead(probes: &ProbeFacts) -> impl Iterator<Item = &Task> {
    let tasks = known(&probes.tasks).iter();
    tasks.filter(|task| task.listed_though_dead)
}

/// The evidence for one such container.
pub(crate) fn says(task: &Task) -> String {
    let name = name_of_task(task);
    let exit = match task.init {
        Some(pid) => format!("process {pid} of {name} has exited"),
        None => format!("{name} has exited, and the runtime has no task for it"),
    };
    format!("{exit}, but seconds later it was still listed as running")
}
