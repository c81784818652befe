//! Asks a runtime, harmlessly, and then looks at the processes behind its answers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cri::Endpoint;
use pleg::id::Id;
use pleg::status::PodStatus;
use pleg::status_report::StatusReport;
use tokio::time::timeout;

use super::proc::Proc;
use super::round::Round;
use super::task_folder::TaskFolder;
use super::{kubelet, shims, stacks};
use crate::facts::Fact;
use crate::facts::probes::{Outcome, Probe, ProbeFacts};
use crate::facts::processes::Process;

/// How long the files of `/proc` and a runtime's goroutines may take.
const READING: Duration = Duration::from_secs(8);

/// Whom to ask, and what is known already.
pub struct Asking {
    /// The runtime's socket.
    pub endpoint: Endpoint,
    /// Ids of containers and sandboxes, for when a list hangs.
    pub ids: Vec<Id>,
    /// What an agent on this node answered.
    pub agent: Option<(StatusReport, Vec<PodStatus>)>,
    /// Where `/proc` is.
    pub proc: PathBuf,
    /// Where the kubelet tells its health.
    pub kubelet: SocketAddr,
    /// Whether the runtime may be asked for its goroutines by a signal.
    pub allow_signals: bool,
}

/// Asks; ends within about ten seconds whatever hangs.
pub async fn collect(asking: Asking) -> ProbeFacts {
    let socket = asking.endpoint.path().to_owned();
    let proc = Proc(asking.proc);
    let listener = shims::listener(&socket, &proc).await;
    let mut round = Round::new(&asking.endpoint);
    if let Some((status, pods)) = asking.agent {
        round.known.agent = pods;
        round.leave_to_agent(&status);
    }
    round.known.ids = asking.ids;
    let asked = async {
        round.ask_node().await;
        round.ask_ids().await
    };
    let (unasked, kubelet) = tokio::join!(asked, kubelet::health(asking.kubelet));
    round.give_up();
    let listener = match listener {
        Fact::Known { value, source } => Fact::known(looked_at_again(&proc, value), source),
        missing => missing,
    };
    let rows = round.known.rows();
    let (mut calls, costs) = round.answers.finish();
    name(&mut calls, &TaskFolder::of(&socket));

    let hung = calls.iter().filter(|probe| probe.outcome == Outcome::Hung);
    let suspects: Vec<String> = hung.filter_map(|probe| probe.id.clone()).collect();
    let runtime = listener.value().cloned();
    let ask_for_stacks =
        asking.allow_signals && calls.iter().any(|probe| probe.outcome == Outcome::Hung);
    let told = round
        .conditions
        .as_ref()
        .map(|told| told.network_plugins.clone());
    let read = tokio::task::spawn_blocking(move || {
        let runtime_pid = runtime.as_ref().map(|process| process.pid);
        let plugins = shims::plugins(&proc, runtime_pid, &told.unwrap_or_default());
        let shims = shims::shims(&socket, &proc, &suspects);
        let stacks = match runtime.filter(|_| ask_for_stacks) {
            Some(runtime) => stacks::ask(&proc, &runtime),
            None => Fact::default(),
        };
        (shims, plugins, stacks)
    });
    let (shims, plugins, stacks) = match timeout(READING, read).await {
        Ok(Ok(read)) => read,
        _ => {
            let why = "reading it took too long";
            (
                Fact::missing(why, "/proc"),
                Fact::missing(why, "/proc"),
                Fact::missing(why, "SIGUSR1"),
            )
        }
    };
    ProbeFacts {
        endpoint: asking.endpoint.to_string(),
        as_root: rustix::process::geteuid().is_root(),
        runtime: round.version,
        calls,
        costs,
        rows,
        conditions: round.conditions,
        unasked,
        listener,
        shims,
        plugins,
        kubelet,
        stacks,
    }
}

/// One that is stopped at one look and runs at the other is not stopped.
fn looked_at_again(proc: &Proc, first: Process) -> Process {
    let now = proc.process(first.pid).map(|row| row.process);
    match now.filter(|now| now.name == first.name) {
        Some(now) if first.is_stopped() || !now.is_stopped() => now,
        _ => first,
    }
}

/// Names what hangs, where nobody has told it: the runtime's folders do.
fn name(calls: &mut [Probe], tasks: &TaskFolder) {
    let nameless = calls.iter_mut().filter(|probe| probe.pod.is_none());
    for probe in nameless.filter(|probe| probe.outcome == Outcome::Hung) {
        let owner = probe.id.as_deref().and_then(|id| tasks.owner(id));
        if let Some(owner) = owner {
            probe.pod = Some(owner.pod);
            probe.container = owner.container;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_stopped_only_if_it_is_at_both_looks() {
        let folder = tempfile::tempdir().unwrap();
        let proc = Proc(folder.path().to_owned());
        let look = |state: &str| {
            let rest = "1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 9 0 1000 1 2 3";
            let stat = format!("42 (containerd) {state} {rest}");
            std::fs::create_dir_all(folder.path().join("42")).unwrap();
            std::fs::write(folder.path().join("42/stat"), stat).unwrap();
            proc.process(42).unwrap().process
        };
        for (first, second, stopped) in [
            ("T", "T", true),
            ("T", "S", false),
            ("S", "T", false),
            ("S", "R", false),
        ] {
            let at_first = look(first);
            look(second);
            let process = looked_at_again(&proc, at_first);
            assert_eq!(process.is_stopped(), stopped, "{first} {second}");
        }
        // One that has gone since was as it was.
        let at_first = look("T");
        std::fs::remove_dir_all(folder.path().join("42")).unwrap();
        assert!(looked_at_again(&proc, at_first).is_stopped());
    }
}
