//! The `pleg` command: arguments, wiring, exit codes.
//!
//! ```text
//!   command_line --> commands::{watch, pods, status, doctor, ...}
//!                      |  endpoint: given, or found
//!                      |  from a running agent (its client)
//!                      |  or from the runtime itself (the library)
//!                      v
//!                  text, for people | json, for scripts
//!
//!   started as kubectl-pleg --> commands::kubectl, which queries an API server
//!   started as kubectl_complete-pleg --> commands::kubectl::complete, for kubectl's completion
//! ```

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

#[cfg(feature = "act")]
mod act;
mod args;
mod command_line;
mod commands;
mod endpoint;
mod log;
mod observe_once;
// The full build compiles it only to run its tests.
#[cfg(any(test, not(feature = "act")))]
#[cfg_attr(feature = "act", allow(dead_code))]
mod observing_only;
mod output;
mod progress;
mod reported;
mod signals;
mod text;

#[cfg(not(feature = "act"))]
use observing_only as act;

use args::{Format, Global};
use command_line::{Arguments, Command};
use commands::kubectl::{self, Kubectl};

/// The result of a command. A command that failed returns an error; its exit code is 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Done, and no problem was found.
    Done,
    /// Done, and a problem was found.
    Problem,
    /// Done, but whether there is a problem could not be determined.
    Unknown,
}

fn main() -> ExitCode {
    keep_freed_memory();
    let program = std::env::args_os().next().unwrap_or_default();
    if kubectl::is_completer(Path::new(&program)) {
        let words = std::env::args_os().skip(1);
        let words = words.map(|word| word.to_string_lossy().into_owned());
        return finish(kubectl::complete(words.collect()), Format::Text);
    }
    if kubectl::is_plugin(Path::new(&program)) {
        let options = Kubectl::parse();
        log::to_stderr(0, Format::Text);
        return finish(kubectl::run(options), Format::Text);
    }
    let arguments = Arguments::parse();
    let global = arguments.global;
    let has_only_log = match &arguments.command {
        Command::Agent(_) => true,
        Command::Acting(command) => command.has_only_log(),
        _ => false,
    };
    // The log is the only output of these commands, so `-o` sets its format. `run` also prints its
    // decisions.
    let log_format = if has_only_log {
        global.format()
    } else {
        Format::Text
    };
    log::to_stderr(global.verbose + u8::from(has_only_log), log_format);
    finish(run(global, arguments.command), log_format)
}

impl Outcome {
    /// The outcome of a command that is done, and may have found a problem.
    fn done(has_problem: bool) -> Self {
        match has_problem {
            true => Self::Problem,
            false => Self::Done,
        }
    }
}

/// Runs a command to its end.
fn finish(command: impl Future<Output = anyhow::Result<Outcome>>, log_format: Format) -> ExitCode {
    // One thread: the work of a relist takes a fraction of a millisecond, and
    // isolation is between tasks.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        let outcome = runtime.block_on(command);
        // Do not wait for threads that are blocked in the kernel.
        runtime.shutdown_background();
        outcome
    });
    log::flush();
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Problem) => ExitCode::from(1),
        Ok(Outcome::Unknown) => ExitCode::from(2),
        Err(error) if output::is_reader_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            log::final_error(&output::sentence(&error), log_format);
            ExitCode::from(2)
        }
    }
}

/// Makes glibc keep freed memory: after a block that it had mapped separately is freed, it trims the
/// heap less often. Otherwise the heap grows and is trimmed around every list, which costs eight page
/// faults and a tenth of the CPU time of an idle relist. Has no effect with other allocators.
fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(4 << 20)));
}

async fn run(global: Global, command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Watch(options) => commands::watch::run(&global, options).await,
        Command::Pods(options) => commands::pods::run(&global, options).await,
        Command::Status(options) => commands::status::run(&global, options).await,
        Command::Top(options) => commands::top::run(&global, options).await,
        Command::Agent(options) => commands::agent::run(&global, options).await,
        Command::Doctor(options) => commands::doctor::run(&global, options).await,
        Command::DoctorHelper => commands::doctor::serve_helper(),
        Command::Explain(options) => commands::explain::run(&global, options),
        Command::Snapshot(options) => commands::snapshot::run(&global, options).await,
        Command::Analyze(options) => commands::analyze::run(&global, options).await,
        Command::Rules(options) => commands::rules::run(&global, options),
        Command::Timeline(options) => commands::timeline::run(&global, options).await,
        Command::Acting(command) => act::run(&global, command).await,
        Command::Completion(options) => commands::completion::run(&options, &Arguments::command()),
        Command::ManPages(options) => commands::man_pages::run(&options, Arguments::command()),
    }
}
