//! `pleg sim`: a simulated runtime on a socket, driven by a scenario file.
//!
//! ```text
//!   scenario --play--> Sim <--calls-- crictl, a kubelet, pleg
//!       \--what it did--> a queue --> text, or JSON: a slow reader delays nothing
//! ```

use std::convert::Infallible;
use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use cri::Endpoint;
use pleg::model::wall_time::{WallTime, system_clock};
use pleg::out::words::counted;
use pleg_text::GoDuration;
use serde::{Serialize, Serializer};
use sim::grpc::{self, socket};
use sim::{Ending, Played, Scenario};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::args::{Format, Global};
use crate::{Outcome, output, signals, text};

/// The scenario that is played if none is given: changes, and no fault.
const DEFAULT_SCENARIO: &str = "0s churn 12/m";

/// The number of pods if no scenario is given.
const DEFAULT_PODS: usize = 10;

/// From this number of containers on, lists are also served as streams: one list approaches the limit
/// of 16 MiB for a message.
const STREAMED_FROM: usize = 20_000;

const HELP: &str = "\
Each line of a scenario has a time and an action:

  0s    run web nginx                     # a pod with a container that runs
  10s   hang ContainerStatus of web/nginx # slow, fail, oversize, malformed
  20s   status-lock web/nginx             # ListContainers hangs
  +5s   lift all                          # five seconds after the previous line
  40s   churn 5/s for 1m                  # exit, restart, stop, remove
  40s   events drop every 3               # swap, delay, scatter, stop
  2m    restart-runtime for 3s

Without a scenario, a container restarts every five seconds. The simulation
runs until it is interrupted, or until the scenario's `end`. docs/sim.md
documents all actions.";

/// Arguments of `pleg sim`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Sim {
    /// Socket to listen on: unix:///path or a path. A socket without a listener is replaced;
    /// any other existing file is kept, and is an error.
    #[arg(long, value_name = "URL")]
    listen: Endpoint,
    /// Number of pods at the start: pod-0, pod-1 and so on. Default: 10, or 0 with
    /// --scenario.
    #[arg(long, value_name = "N")]
    pods: Option<usize>,
    /// Number of containers in each of these pods: app-0, app-1 and so on.
    #[arg(long, value_name = "N", default_value_t = 2)]
    containers: usize,
    /// Scenario file: actions and their times.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
}

pub async fn run(global: &Global, options: Sim) -> anyhow::Result<Outcome> {
    let interrupted = signals::interrupted()?;
    let sim = sim::Sim::beginning_at(system_clock()());
    populate(&sim, &options);
    let scenario = scenario(&options)?;
    scenario.check(&sim.world(), sim.now())?;

    let path = options.listen.path();
    let cannot = || format!("cannot listen on {}", options.listen);
    let listener = socket::listen(path).await.with_context(cannot)?;
    let (sender, lines) = unbounded_channel();
    let _ = sender.send(listening(&options, &sim));
    let result = tokio::select! {
        served = grpc::serve(sim.clone(), listener) => served.with_context(cannot),
        written = follow(global.format(), &scenario, &sim, sender, lines) => written,
        _ = interrupted => Ok(()),
    };
    if let Err(error) = socket::remove(path).await {
        tracing::warn!("cannot remove the socket: {error}");
    }
    result.map(|()| Outcome::Done)
}

/// Creates pods that all have the same containers.
fn populate(sim: &sim::Sim, options: &Sim) {
    let pods = match (options.pods, &options.scenario) {
        (Some(pods), _) => pods,
        (None, Some(_)) => 0,
        (None, None) => DEFAULT_PODS,
    };
    let names = (0..options.containers).map(|number| format!("app-{number}"));
    let names: Vec<String> = names.collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if pods.saturating_mul(options.containers) >= STREAMED_FROM {
        sim.stream_lists();
    }
    let now = sim.now();
    let mut world = sim.world();
    for number in 0..pods {
        world.run(&format!("pod-{number}"), &names, now);
    }
}

fn scenario(options: &Sim) -> anyhow::Result<Scenario> {
    let Some(file) = &options.scenario else {
        return Ok(Scenario::parse("default", DEFAULT_SCENARIO)?);
    };
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the scenario {name}"))?;
    Ok(Scenario::parse(&name, &text)?)
}

/// Plays the scenario and prints each action, until the scenario ends.
async fn follow(
    format: Format,
    scenario: &Scenario,
    sim: &sim::Sim,
    sender: UnboundedSender<Line>,
    lines: UnboundedReceiver<Line>,
) -> anyhow::Result<()> {
    let play = async {
        let print = |played| {
            let time = sim.now();
            // The receiver outlives this sender, so sending does not fail.
            let _ = sender.send(Line::Scenario { time, played });
            Ok::<(), Infallible>(())
        };
        let Ok(ending) = scenario.play(sim, print).await;
        if ending == Ending::AfterLastStep {
            pending::<()>().await;
        }
        drop(sender);
        Ok(())
    };
    tokio::try_join!(play, write(format, lines)).map(drop)
}

/// Writes lines until the sender is dropped.
async fn write(format: Format, mut lines: UnboundedReceiver<Line>) -> anyhow::Result<()> {
    while let Some(line) = lines.recv().await {
        output::write_in_thread(move || output::show(format, &line, || line.text())).await?;
    }
    Ok(())
}

/// A line of output. The names of the fields are those in JSON.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Line {
    /// The simulated runtime accepts connections.
    #[serde(rename_all = "camelCase")]
    Listening {
        time: WallTime,
        endpoint: String,
        pods: usize,
        containers: usize,
    },
    /// The scenario has performed an action.
    Scenario {
        time: WallTime,
        #[serde(flatten, serialize_with = "PlayedJson::serialize")]
        played: Played,
    },
}

fn listening(options: &Sim, sim: &sim::Sim) -> Line {
    // `world` holds a lock: a second call before the lock is released would never return.
    let world = sim.world();
    Line::Listening {
        time: sim.now(),
        endpoint: options.listen.to_string(),
        pods: world.pods.len(),
        containers: world.containers().count(),
    }
}

/// The JSON fields of an action that was performed.
#[derive(Serialize)]
#[serde(remote = "Played", rename_all = "camelCase")]
struct PlayedJson {
    #[serde(rename = "atSeconds", serialize_with = "as_seconds")]
    at: Duration,
    line: usize,
    action: String,
    by_churn: bool,
    failure: Option<String>,
}

fn as_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

impl Line {
    fn text(&self) -> String {
        match self {
            Self::Listening {
                endpoint,
                pods,
                containers,
                ..
            } => format!(
                "Listening on {endpoint}: CRI v1, {}, {}\nWatch it with: pleg watch --agent off \
                 -r {endpoint}\n",
                counted(*pods, "pod"),
                counted(*containers, "container")
            ),
            Self::Scenario { played, .. } => {
                let at = GoDuration(played.at).to_string();
                let action = text::sentence(&played.action);
                let failure = played.failure.as_ref().map_or_else(String::new, |why| {
                    format!(": {}", text::styled(text::WARN, text::sentence(why)))
                });
                format!("{at:>10}  {action}{failure}\n")
            }
        }
    }
}
