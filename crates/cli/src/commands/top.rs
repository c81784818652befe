//! `pleg top`: the node on a live screen.
//!
//! ```text
//!   a thread: live  --Update-->  the main thread: session --> the terminal
//!     an agent, or a generator      keys, frames; `d` starts `pleg doctor` as a process
//!     of our own
//! ```
//!
//! A terminal that takes nothing for a while blocks whoever draws on it, and a large answer takes
//! time to read: neither holds up the other, because each has a thread.

use std::cell::RefCell;
use std::future::pending;
use std::io;
use std::path::PathBuf;

use agent::{AgentChoice, AgentClient, default_socket};
use anyhow::{anyhow, bail, ensure};
use clap::Args;
use crossterm::event::EventStream;
use pleg::model::wall_time::{WallTime, system_clock};
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use top::recording::Replay;
use top::session::{Feed, Live};
use top::terminal::{Screen, is_available};
use top::view::Theme;
use top::{State, session};

use super::watch::{config, warn_of_flags_without_effect};
use crate::args::{AgentOption, Format, Global, KernelHints, Relisting};
use crate::signals::{self, Stops};
use crate::{Found, endpoint, log};

mod examine;
mod live;
mod recorded;

use live::{Generator, Watching};

/// How many updates may wait to be shown. Whoever sends more waits, and an agent then merges its
/// events.
const WAITING: usize = 1024;

const AFTER_HELP: &str = "\
Keys:
  ↑ ↓ j k, PgUp PgDn, g G   move; in a recording j and k step
  tab                       next table: pods, outstanding calls, events, findings
  enter, esc                the story of a pod, or a finding; back
  / , !                     filter by pod, container, call or id; leave out what matches
  ctrl-z                    faults only
  S N T A L                 sort pods by state, name, restarts, last change, latency
  d                         run `pleg doctor` on this node
  ?, q                      all keys; quit

If an agent or a guard runs on this node, its data are shown, and the runtime is not asked a second
time. While the agent is away, the screen says since when, and what it shows is grey. NO_COLOR
turns colours off. For scripts, use `pleg status -o json` and `pleg watch -o json`.

Exit codes: 0 quit, 2 the screen could not be shown.";

/// Arguments of `pleg top`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Top {
    /// Step through what was recorded, instead of watching this node: the history of an agent
    /// (/var/lib/pleg/history) or a snapshot.
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Only pods in this namespace.
    #[arg(short, long)]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub agent: AgentOption,
    #[command(flatten)]
    pub relisting: Relisting,
}

pub async fn run(global: &Global, options: Top) -> anyhow::Result<Found> {
    ensure!(
        global.output == Format::Text,
        "the screen has no JSON: use `pleg status -o json` or `pleg watch -o json`"
    );
    if !is_available() {
        bail!(
            "pleg top needs a terminal for its input and output: use `pleg status` for the state, \
             or `pleg watch` for events"
        );
    }
    if let Some(path) = options.from {
        let recording = spawn_blocking(move || recorded::read(&path)).await??;
        let state = State::live(WallTime::now(), options.namespace);
        let ended = signals::screen_ended()?;
        return show(
            state,
            Feed::Recorded(Replay::new(Box::new(recording))),
            ended,
            pending(),
        )
        .await;
    }
    let choice = options.agent.choice();
    let (watching, runtime) = watching(global, &options, &choice).await?;
    let ended = signals::screen_ended()?;
    let (sender, updates) = mpsc::channel(WAITING);
    let failed = in_a_thread(live::follow(watching, sender));
    let failed = async {
        failed
            .await
            .unwrap_or_else(|_| anyhow!("watching the node failed"))
    };
    let feed = Feed::Live(Live {
        updates,
        examine: Box::new(move || Box::pin(examine::run(runtime.clone(), choice.clone()))),
    });
    let state = State::live(WallTime::now(), options.namespace);
    show(state, feed, ended, failed).await
}

/// Who is watched, and the runtime's endpoint.
async fn watching(
    global: &Global,
    options: &Top,
    choice: &AgentChoice,
) -> anyhow::Result<(Watching, String)> {
    let named = global.named_endpoint()?;
    let config = config(&options.relisting)?;
    if let Some((client, status)) = AgentClient::find(choice, named.as_ref()).await? {
        warn_of_flags_without_effect(&options.relisting);
        let socket = match choice {
            AgentChoice::Named(socket) => socket.clone(),
            AgentChoice::Default | AgentChoice::Off => default_socket(),
        };
        let endpoint = status.runtime.endpoint.to_string();
        let watching = Watching::Agent {
            client,
            socket,
            endpoint: endpoint.clone(),
        };
        return Ok((watching, endpoint));
    }
    let endpoint = endpoint::find(named).await?;
    // An error now is seen; later it is one of the things that the screen shows.
    endpoint::connect(&endpoint).await?;
    let text = endpoint.to_string();
    let hints = options.relisting.kernel_hints.unwrap_or(KernelHints::Auto);
    let generator = Generator {
        runtime: GrpcRuntime::new(&endpoint, MAX_MESSAGE_SIZE),
        config,
        environment: endpoint::environment(&endpoint, hints),
    };
    Ok((Watching::Ourselves(Box::new(generator)), text))
}

/// Runs what watches the node; the receiver gets the reason if it ends.
fn in_a_thread(
    watch: impl Future<Output = anyhow::Error> + Send + 'static,
) -> oneshot::Receiver<anyhow::Error> {
    let (sender, failed) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let error = match runtime {
            Ok(runtime) => runtime.block_on(watch),
            Err(error) => error.into(),
        };
        // Nobody is left to hear it only if the screen has gone.
        let _ = sender.send(error);
    });
    failed
}

/// Shows a feed on the terminal until the reader quits, a signal ends it, or its source has failed,
/// which a recording never does.
async fn show(
    state: State,
    feed: Feed,
    ended: impl Future<Output = &'static str>,
    failed: impl Future<Output = anyhow::Error>,
) -> anyhow::Result<Found> {
    let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    log::keep_off_the_terminal();
    let stops = Stops::new()?;
    let screen = RefCell::new(Screen::enter(Theme::new(has_colours))?);
    let clock = system_clock();
    let draw = |state: &State| screen.borrow_mut().draw(state);
    let result = tokio::select! {
        result = session::run(state, feed, EventStream::new(), &clock, draw) => {
            result.map_err(anyhow::Error::from)
        }
        _ = ended => Ok(()),
        error = stopping(&screen, stops) => Err(error.into()),
        error = failed => Err(error),
    };
    drop(screen);
    log::resume();
    result.map(|()| Found::Well)
}

/// Leaves the terminal whenever this process is stopped, and takes it again afterwards, until that
/// fails.
async fn stopping(screen: &RefCell<Screen>, mut stops: Stops) -> io::Error {
    loop {
        stops.next().await;
        screen.borrow_mut().suspend();
        let resumed = Stops::stop()
            .and_then(|()| screen.borrow_mut().resume())
            .and_then(|()| Stops::redraw());
        if let Err(error) = resumed {
            return error;
        }
    }
}
