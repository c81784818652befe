//! The command line of [`testbed_driver`]: pods on the testbed by hand.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the output of a command"
)]

mod args;
mod compare;
mod list;
mod progress;
mod verbs;

use std::process::ExitCode;

use clap::Parser;
use testbed_driver::{Driver, Error};

use crate::args::{Args, CONTAINER, Verb};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testbed-pods: {error}");
            match error {
                Error::NotATestbed(_) => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

async fn run(args: Args) -> Result<(), Error> {
    tokio::task::LocalSet::new().run_until(perform(args)).await
}

async fn perform(args: Args) -> Result<(), Error> {
    let driver = Driver::new(&args.runtime_endpoint)?;
    match args.verb {
        Verb::Run(options) => verbs::run(&driver, &options).await,
        Verb::Dead(options) => verbs::dead(&driver, &options).await,
        Verb::Restart(one) => verbs::restart(&driver, &one).await,
        Verb::Kill(one) => verbs::kill(&driver, &one).await,
        Verb::Exit(one) => verbs::exit(&driver, &one).await,
        Verb::Lock { one, r#for } => verbs::lock(&driver, &one, r#for).await,
        Verb::Compare {
            alone,
            guarded,
            guard,
            r#for,
        } => {
            let pods = [alone.as_str(), guarded.as_str()];
            compare::compare(&driver, &guard, pods, CONTAINER, r#for).await
        }
        Verb::Rm { pods, .. } => verbs::rm(&driver, &pods).await,
        Verb::List { full } => list::list(&driver, full).await,
    }
}
