//! `pleg top`: the node on a live screen.
//!
//! ```text
//!   a thread: live  --Update-->  the main thread: session --> the terminal
//!     an agent, or an engine        keys, frames; `d` starts `pleg doctor` as a process
//!     of our own
//! ```
//!
//! A terminal may block the thread that draws on it, and a large answer takes time to read. The screen
//! and the data each have a thread, so neither delays the other.

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
use crate::{Outcome, endpoint, log};

mod examine;
mod live;
mod recorded;

use live::{OwnEngine, Watching};

/// How many updates may wait to be shown. If there are more, their sender waits, and an agent merges
/// the events that it cannot send.
const MAX_WAITING_UPDATES: usize = 1024;

const AFTER_HELP: &str = "\
Keys:
  ↑ ↓ j k, PgUp PgDn, g G  move; in a recording j and k step
  tab                      next table: pods, outstanding calls, events, findings
  enter, esc               the history of a pod, or a finding; back
  / , !                    filter by pod, container, call or id; exclude
  ctrl-z                   faults only
  S N T A L                sort by state, name, restarts, change, latency
  d                        run `pleg doctor` on this node
  ?, q                     all keys; quit

If an agent or a guard runs on this node, its data are shown, and the runtime
gets no additional calls. While the agent is away, the screen shows since when,
and its data are grey. NO_COLOR turns colours off. For scripts, use `pleg
status -o json` and `pleg watch -o json`.

Exit codes: 0 quit, 2 the screen could not be shown.";

/// Arguments of `pleg top`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Top {
    /// Step through what was recorded, instead of watching this node: the recording of an agent
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

pub async fn run(global: &Global, options: Top) -> anyhow::Result<Outcome> {
    ensure!(
        global.format() == Format::Text,
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
        let feed = Feed::Recorded(Replay::new(Box::new(recording)));
        return show(state, feed, signals::screen_ended()?, pending()).await;
    }
    let choice = options.agent.choice();
    let (watching, runtime) = watching(global, &options, &choice).await?;
    let ended = signals::screen_ended()?;
    let (sender, updates) = mpsc::channel(MAX_WAITING_UPDATES);
    let failed = in_a_thread(live::follow(watching, sender));
    let gone = |_| anyhow!("watching the node failed");
    let failed = async { failed.await.unwrap_or_else(gone) };
    let feed = Feed::Live(Live {
        updates,
        examine: Box::new(move || Box::pin(examine::run(runtime.clone(), choice.clone()))),
    });
    let state = State::live(WallTime::now(), options.namespace);
    show(state, feed, ended, failed).await
}

/// Finds what to watch: an agent, or else the runtime. Also returns the runtime's endpoint.
async fn watching(
    global: &Global,
    options: &Top,
    choice: &AgentChoice,
) -> anyhow::Result<(Watching, String)> {
    let named = global.given_endpoint()?;
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
    // An error at this point ends the command; the screen shows later ones.
    endpoint::connect(&endpoint).await?;
    let text = endpoint.to_string();
    let hints = options.relisting.kernel_hints.unwrap_or(KernelHints::Auto);
    let engine = OwnEngine {
        runtime: GrpcRuntime::new(&endpoint, MAX_MESSAGE_SIZE),
        config,
        environment: endpoint::environment(&endpoint, hints),
    };
    Ok((Watching::Runtime(Box::new(engine)), text))
}

/// Runs `watch` in a thread of its own. The receiver gets the error with which it ends.
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
        // The receiver is gone only if the screen has ended.
        let _ = sender.send(error);
    });
    failed
}

/// Shows a feed on the terminal until the user quits, a signal arrives, or the source of the feed
/// fails. A recording never fails.
async fn show(
    state: State,
    feed: Feed,
    ended: impl Future<Output = &'static str>,
    failed: impl Future<Output = anyhow::Error>,
) -> anyhow::Result<Outcome> {
    let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    log::suspend_on_terminal();
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
    result.map(|()| Outcome::Done)
}

/// Restores the terminal whenever this process is stopped, and enters the screen again when the process
/// is continued. Returns only on an error.
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
