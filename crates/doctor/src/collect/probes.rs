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
        round.leave_to_agent(status, pods);
    }
    round.known.ids = asking.ids;
    let asked = async {
        round.ask_node().await;
        round.ask_ids().await
    };
    let (unasked, kubelet) = tokio::join!(asked, kubelet::health(asking.kubelet));
    round.give_up();
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
        agent: round.agents_word,
        stacks,
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
