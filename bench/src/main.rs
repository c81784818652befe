//! Measures what pleg costs.
//!
//! ```text
//!   arguments --> idle, latency, watched (a real containerd) --\
//!             --> guard (the simulator on a socket) -----------+
//!             --> static_pods (pleg run on a real containerd) -+
//!             --> scaling (from memory) -----------------------+--> table, as Markdown
//!             --> micro (one function) ------------------------+
//!             --> scenarios (the simulator, virtual time) -----/
//! ```
//!
//! Timings vary between machines and between runs. So each figure is shown next to a reference figure
//! that the same process measured in the same minute, and the ratio of the two is what to compare.

// Progress and errors go to standard error.
#![allow(clippy::print_stderr)]

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use cri::Endpoint;

mod bare;
mod cpu;
mod guard;
mod idle;
mod latency;
mod memory;
mod micro;
mod node;
mod rows;
mod scaling;
mod scenarios;
mod static_pods;
mod table;
mod watched;

use cpu::Progress;

const AFTER_HELP: &str = "\
Exit codes: 0 everything was measured, 1 something was left out, 2 the command failed.";

/// Measure what pleg costs: a relist of a quiet node, of larger nodes, and its parts.
#[derive(Debug, Parser)]
#[command(after_help = AFTER_HELP)]
struct Arguments {
    /// Measure for three minutes instead of nine; the figures are less exact.
    #[arg(long)]
    quick: bool,
    /// Leave out the sections that start a containerd, which need root.
    #[arg(long)]
    no_testbed: bool,
    #[command(subcommand)]
    section: Option<Section>,
}

#[derive(Debug, Subcommand)]
enum Section {
    /// Only what the guard costs: calls that it passes, and lists from its records.
    Guard,
    /// Only what `pleg run` costs: 100 pods on a containerd, and containers that exit. Needs root,
    /// and target/release/pleg.
    StaticPods,
    /// The child process whose memory the benchmark measures.
    #[command(hide = true)]
    Memory { endpoint: Endpoint, seconds: u64 },
}

/// How much to measure.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// The number of turns of each client.
    rounds: usize,
    /// Relists in one turn, one per second.
    slow_relists: u32,
    /// Relists in one turn, back to back.
    fast_relists: u32,
    /// The number of batches whose median is taken.
    batches: usize,
    /// How long one batch takes.
    batch: Duration,
    /// How many restarts of containers, and how many exits of static pods, are measured.
    restarts: usize,
    /// How long a quiet node is observed while it is listed every second.
    idle_lists: Duration,
    /// How long a quiet node is observed while everything is watched.
    idle_watched: Duration,
}

impl Effort {
    const FULL: Self = Self {
        rounds: 2,
        slow_relists: 8,
        fast_relists: 300,
        batches: 11,
        batch: Duration::from_millis(40),
        restarts: 125,
        idle_lists: Duration::from_secs(20),
        idle_watched: Duration::from_secs(300),
    };
    const QUICK: Self = Self {
        rounds: 1,
        slow_relists: 5,
        fast_relists: 100,
        batches: 5,
        batch: Duration::from_millis(10),
        restarts: 30,
        idle_lists: Duration::from_secs(10),
        idle_watched: Duration::from_secs(60),
    };
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // One thread, like the command `pleg`: its CPU time is the cost of a relist.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run_or_be_interrupted(&arguments)));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        // The reader of the tables may be gone.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the benchmark. Ctrl-C ends it in an orderly way: a containerd with a hundred pods must not be
/// left behind.
async fn run_or_be_interrupted(arguments: &Arguments) -> anyhow::Result<bool> {
    tokio::select! {
        done = run(arguments) => done,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            anyhow::bail!("interrupted")
        }
    }
}

/// Measures what is requested, and prints it. Returns whether everything was measured.
async fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    if let Some(Section::Memory { endpoint, seconds }) = &arguments.section {
        print(memory::measure_own(endpoint, *seconds).await?)?;
        return Ok(true);
    }
    let effort = if arguments.quick {
        Effort::QUICK
    } else {
        Effort::FULL
    };
    let progress = Progress::new();
    if let Some(Section::Guard) = arguments.section {
        print(guard::measure(effort, &progress).await?)?;
        return Ok(true);
    }
    if let Some(Section::StaticPods) = arguments.section {
        let tables = static_pods::measure(effort, &progress).await?;
        progress.clear();
        tables.iter().try_for_each(print)?;
        return Ok(true);
    }
    let mut latencies = latency::table();
    latency::measure_simulator(effort.restarts * 2, &progress, &mut latencies).await;
    let idle = match reason_to_leave_out(arguments) {
        Some(why) => Err(why.to_owned()),
        None => idle::measure(effort, &progress, &mut latencies)
            .await
            .map_err(|error| format!("{error:#}")),
    };
    let complete = idle.is_ok();
    match idle {
        Ok(tables) => tables.iter().try_for_each(print)?,
        Err(why) => print(format!("## {}\n\nLeft out: {why}.\n", idle::TITLE))?,
    }
    print(latencies)?;
    print(guard::measure(effort, &progress).await?)?;
    print(scaling::measure(effort, &progress).await?)?;
    micro::measure(effort, &progress)
        .await?
        .iter()
        .try_for_each(print)?;
    scenarios::measure()?.iter().try_for_each(print)?;
    progress.clear();
    Ok(complete)
}

/// Why no containerd is started; `None` if one is.
fn reason_to_leave_out(arguments: &Arguments) -> Option<&'static str> {
    if arguments.no_testbed {
        Some("--no-testbed is given")
    } else if !rustix::process::geteuid().is_root() {
        Some("starting a containerd needs root")
    } else {
        None
    }
}

fn print(output: impl Display) -> anyhow::Result<()> {
    Ok(writeln!(stdout(), "{output}")?)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
