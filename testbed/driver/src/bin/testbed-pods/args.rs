//! The arguments of the command line, and their help.

use std::time::Duration;

use clap::builder::Styles;
use clap::{Parser, Subcommand, ValueEnum};
use cri::Endpoint;
use testbed_driver::Network;

const EXAMPLES: &str = "\
Examples, after 'testbed up':
  testbed-pods run web --container main --container sidecar
  testbed-pods run load --count 100  # load-0 to load-99, prints their sandbox ids
  testbed-pods kill web main         # like the OOM killer
  testbed-pods restart web main      # like the kubelet after it
  testbed-pods dead 500              # a large list of containers
  testbed-pods rm --all

The container status lock of containerd; ListContainers is stuck for 30 s:
  sandbox=$(testbed-pods run victim)
  testbed shim-stop $sandbox
  testbed-pods lock victim main --for 30s &
  testbed-pods kill web main         # works, and a kubelet would not notice
  wait; testbed shim-cont $sandbox

A POD is NAME or NAMESPACE/NAME. Only pods that this command (or its library)
has created are listed, and only instances of the testbed are used.

Exit codes: 0 done, 1 failed (stderr has the reason in one sentence), 2 usage
error";

/// The container of a pod if none is given.
pub(crate) const CONTAINER: &str = "main";

/// Run, stop and break pods on the testbed
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, styles = Styles::plain(), max_term_width = 80)]
pub(crate) struct Args {
    /// CRI endpoint of the instance, which 'testbed endpoint' prints
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
    /// Run one or more pods; prints the id of each sandbox
    Run(Run),
    /// Start the next attempt of a container, and stop the current one; prints the new id
    Restart(One),
    /// SIGKILL the init process of a container, without the runtime
    Kill(One),
    /// Stop a container at once with StopContainer
    Exit(One),
    /// Stop and remove pods with all their containers
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Rm {
        /// Pods to remove
        #[arg(value_name = "POD", group = "which")]
        pods: Vec<String>,
        /// All pods that this command has created in this instance
        #[arg(long, group = "which")]
        all: bool,
    },
    /// Show pods and containers
    List {
        /// Complete ids, which 'testbed shim-stop' needs
        #[arg(long)]
        full: bool,
    },
    /// Keep an UpdateContainerResources call outstanding, which locks the status of the container
    ///
    /// Stop the shim of the pod first (testbed shim-stop SANDBOX_ID); otherwise the call is answered
    /// at once. The end of this call, or of the stop, releases the lock.
    Lock {
        #[command(flatten)]
        one: One,
        /// Duration, for example 500ms, 30s, 4m30s
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        r#for: Duration,
    },
    /// Compare a kubelet without a guard with one behind a guard: both relist, and restart a
    /// container that is killed in a pod of each
    // clap does not wrap the line of the usage.
    #[command(
        override_usage = "testbed-pods compare --guard <URL> --for <DURATION> <ALONE> <GUARDED>"
    )]
    Compare {
        /// The pod of the kubelet without a guard; it has the container `main`
        alone: String,
        /// The pod of the kubelet behind the guard; it has the container `main`
        guarded: String,
        /// CRI endpoint of the guard
        #[arg(long, value_name = "URL")]
        guard: Endpoint,
        /// Duration, for example 500ms, 30s, 4m30s
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
    /// Name of a container; can be repeated
    #[arg(long = "container", value_name = "NAME", default_value = CONTAINER)]
    pub(crate) containers: Vec<String>,
    /// Shell command that each container runs [default: wait for SIGTERM]
    #[arg(long, value_name = "LINE")]
    pub(crate) command: Option<String>,
    /// Number of pods, which are created four at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) count: Option<u16>,
    /// Network of the pod: that of the host, or a separate one by CNI
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
    /// Number of containers
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) count: u16,
    /// Name of the pod
    #[arg(long, value_name = "NAME", default_value = "dead")]
    pub(crate) pod: String,
}

/// A container, by its name and that of its pod.
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
    fn the_command_line_is_valid() {
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
    fn durations_have_the_format_of_go() {
        assert_eq!(duration("4m30s"), Ok(Duration::from_secs(270)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(duration("-1s").is_err() && duration("30").is_err());
    }
}
