//! Containers that have exited, but that the runtime still lists as running seconds later.

use causes::finding::Culprit;

use super::who::{of_pod, short};
use crate::facts::probes::ProbeFacts;
use crate::facts::tasks::Task;

pub(crate) fn says(task: &Task) -> String {
    let exit = match task.init {
        Some(pid) => format!("process {pid} of {} has exited", who(task)),
        None => format!(
            "{} has exited, and the runtime has no task for it",
            who(task)
        ),
    };
    format!("{exit}, but seconds later it was still listed as running")
}

pub(crate) fn listed_though_dead(probes: &ProbeFacts) -> impl Iterator<Item = &Task> {
    let tasks = probes.tasks.value().into_iter().flatten();
    tasks.filter(|task| task.listed_though_dead)
}

/// A container or sandbox as culprit.
pub(crate) fn culprit(task: &Task) -> Culprit {
    Culprit {
        pod: task.pod.clone(),
        container: task.container.clone(),
        id: Some(task.id.clone()),
        ..Culprit::default()
    }
}

pub(crate) fn who(task: &Task) -> String {
    match (&task.container, task.pod.as_ref().map(of_pod)) {
        (Some(name), Some(pod)) => format!("container {name} of {pod}"),
        (None, Some(pod)) => format!("the sandbox of {pod}"),
        (_, None) => format!("container {}", short(&task.id)),
    }
}
