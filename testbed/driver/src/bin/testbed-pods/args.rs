//! The command line's words, and the help that teaches them.

use std::time::Duration;

use clap::builder::Styles;
use clap::{Parser, Subcommand, ValueEnum};
use cri::Endpoint;
use testbed_driver::Network;

const EXAMPLES: &str = "\
Examples, after 'testbed up':
  testbed-pods run web --container main --container sidecar
  testbed-pods run load --count 100  # load-0 to load-99, prints the sandbox ids
  testbed-pods kill web main         # as the OOM killer would
  testbed-pods restart web main      # as the kubelet would then
  testbed-pods dead 500              # a heavy list of containers
  testbed-pods rm --all

The container status lock of containerd, ListContainers hanging for 30 s:
  sandbox=$(testbed-pods run victim)
  testbed shim-stop $sandbox
  testbed-pods lock victim main --for 30s &
  testbed-pods kill web main         # works; the kubelet would not notice
  wait; testbed shim-cont $sandbox

A POD is NAME or NAMESPACE/NAME. Only pods that were made by this command (or by
its library) are seen, and only instances of the test bed are touched.

Exit codes: 0 done, 1 could not be done (stderr says why in one sentence), 2 bad
usage";

/// The container of a pod that is run without any said.
pub(crate) const CONTAINER: &str = "main";

/// Pods on the test bed: run them, end them, break them
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, styles = Styles::plain(), max_term_width = 80)]
pub(crate) struct Args {
    /// CRI endpoint of the instance, as 'testbed endpoint' prints it
    #[arg(
        short,
        long,
        global = true,
        value_name = "ENDPOINT",
        env = "CONTAINER_RUNTIME_ENDPOINT",
        default_value = "unix:///run/pleg-testbed/2/containerd.sock"
    )]
    pub(crate) runtime_endpoint: Endpoint,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a pod, or many; prints the id of each sandbox
    Run(Run),
    /// Start the next attempt of a container, ending the present one; prints its id
    Restart(One),
    /// SIGKILL a container's init process, behind the runtime's back
    Kill(One),
    /// Have the runtime end a container, at once (StopContainer)
    Exit(One),
    /// Stop and remove pods with all their containers
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Rm {
        /// Pods to remove
        #[arg(value_name = "POD", group = "which")]
        pods: Vec<String>,
        /// All pods of this command in this instance
        #[arg(long, group = "which")]
        all: bool,
    },
    /// Show pods and containers
    List {
        /// Ids in full, as 'testbed shim-stop' wants them
        #[arg(long)]
        full: bool,
    },
    /// Hold an UpdateContainerResources call, which keeps the container's status locked
    ///
    /// Stop the pod's shim first (testbed shim-stop SANDBOX_ID), else the call is answered at
    /// once. The end of this call frees the lock, and so does resuming the shim.
    Lock {
        #[command(flatten)]
        one: One,
        /// How long, as in 500ms, 30s, 4m30s
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        r#for: Duration,
    },
    /// Compare a kubelet alone with one behind a guard: both relist, and start a container again
    /// that is killed in a pod of each
    // clap does not wrap the line of the usage.
    #[command(
        override_usage = "testbed-pods compare --guard <URL> --for <DURATION> <ALONE> <GUARDED>"
    )]
    Compare {
        /// The pod of the kubelet alone, which has the container `main`
        alone: String,
        /// The pod of the kubelet behind the guard, likewise
        guarded: String,
        /// CRI endpoint of the guard
        #[arg(long, value_name = "URL")]
        guard: Endpoint,
        /// How long, as in 500ms, 30s, 4m30s
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        r#for: Duration,
    },
    /// Run COUNT containers of /bin/true in one pod; prints the id of its sandbox
    Dead(Dead),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// Name of the pod; with --count the pods are NAME-0, NAME-1, …
    pub(crate) name: String,
    /// Namespace of the pod
    #[arg(long, value_name = "NS", default_value = "default")]
    pub(crate) namespace: String,
    /// A container; may be given several times
    #[arg(long = "container", value_name = "NAME", default_value = CONTAINER)]
    pub(crate) containers: Vec<String>,
    /// What each container runs, as a shell's line; without, it waits for SIGTERM
    #[arg(long, value_name = "LINE")]
    pub(crate) command: Option<String>,
    /// So many pods, made four at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) count: Option<u16>,
    /// Network of the pod: the host's, or its own by CNI
    #[arg(
        long,
        value_name = "host|pod",
        hide_possible_values = true,
        default_value = "host"
    )]
    pub(crate) network: NetworkWord,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Dead {
    /// How many containers
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) count: u16,
    /// Name of the pod
    #[arg(long, value_name = "NAME", default_value = "dead")]
    pub(crate) pod: String,
}

/// A container, by names.
#[derive(Debug, clap::Args)]
pub(crate) struct One {
    /// Name of the pod
    pub(crate) pod: String,
    /// Name of the container
    pub(crate) container: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum NetworkWord {
    Host,
    Pod,
}

impl From<NetworkWord> for Network {
    fn from(word: NetworkWord) -> Self {
        match word {
            NetworkWord::Host => Self::Host,
            NetworkWord::Pod => Self::Pod,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let signed: jiff::SignedDuration = text.parse().map_err(|_| "write 500ms, 30s or 4m30s")?;
    Duration::try_from(signed).map_err(|_| "a duration cannot be negative".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_help_fits_a_terminal_of_80_columns() {
        let mut command = Args::command();
        command.build();
        let verbs = command.get_subcommands_mut();
        let mut helps: Vec<String> = verbs
            .map(|verb| verb.render_long_help().to_string())
            .collect();
        helps.push(command.render_long_help().to_string());
        for line in helps.iter().flat_map(|help| help.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        assert_eq!(duration("4m30s"), Ok(Duration::from_secs(270)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(duration("-1s").is_err() && duration("30").is_err());
    }
}
