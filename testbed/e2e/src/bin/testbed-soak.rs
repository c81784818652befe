//! `testbed/soak`: runs a node with churn and faults behind a guard, for hours.

// The measurements are the output of this command.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use e2e::soak::{Plan, Programs, cost, run};

const HELP: &str = "\
Runs a node with churn and faults behind a guard, on a private containerd. Needs root.

  testbed/soak --minutes N | --hours N [OPTIONS]
  testbed/soak cost RUNTIME_SOCKET PLEG_GUARD BARE_PROXY [CALLS]

  --containerd VERSION  2 (the newest; the default), 1.7 or 1.6
  --pods N              pods with two containers each (default: 10)
  --pleg PATH           pleg (default: in the directory of this program)
  --guard PATH          pleg-guard (default: in the directory of pleg)

`cost` compares calls that a guard passes with direct calls, and with calls through a bare proxy
(cargo build --release -p pleg-guard --bins --example bare-proxy).

Half of the time the guard is in mode guard, half in mode shadow. Exit codes: 0 no problem was found,
1 a problem was found, 2 the soak failed.
";

fn main() -> ExitCode {
    perform().unwrap_or_else(|error| {
        eprintln!("soak: {error}");
        ExitCode::from(2)
    })
}

fn perform() -> Result<ExitCode, String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    if let [verb, runtime, guard, bare, calls @ ..] = words.as_slice()
        && verb == "cost"
    {
        let calls = calls.first().and_then(|calls| calls.parse().ok());
        let endpoint = cri::Endpoint::new(runtime);
        let measuring = cost(
            &endpoint,
            guard.as_ref(),
            bare.as_ref(),
            calls.unwrap_or(2000),
        );
        print!(
            "{}",
            tokio
                .block_on(measuring)
                .map_err(|error| error.to_string())?
        );
        return Ok(ExitCode::SUCCESS);
    }
    let plan = plan(words.into_iter());
    let Some(plan) = plan.map_err(|error| format!("{error}; --help shows the options"))? else {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    };
    let report = tokio
        .block_on(run(plan))
        .map_err(|error| error.to_string())?;
    println!("{report}");
    let problems = report.problems();
    for problem in &problems {
        println!("PROBLEM: {problem}");
    }
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}

fn plan(mut words: impl Iterator<Item = String>) -> Result<Option<Plan>, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut pleg = own.with_file_name("pleg");
    let mut guard: Option<PathBuf> = None;
    let (mut version, mut pods, mut minutes) = ("2".to_owned(), 10, None);
    while let Some(word) = words.next() {
        if word == "--help" {
            return Ok(None);
        }
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number = || {
            value
                .parse::<f64>()
                .map_err(|error| format!("{word}: {error}"))
        };
        match word.as_str() {
            "--minutes" => minutes = Some(number()?),
            "--hours" => minutes = Some(number()? * 60.0),
            "--containerd" => version = value,
            "--pods" => pods = number()? as usize,
            "--pleg" => pleg = value.into(),
            "--guard" => guard = Some(value.into()),
            _ => return Err(format!("{word} is unknown")),
        }
    }
    let minutes = minutes.filter(|minutes| *minutes > 0.0);
    let minutes = minutes.ok_or("--minutes or --hours is missing")?;
    let guard = guard.unwrap_or_else(|| pleg.with_file_name("pleg-guard"));
    Ok(Some(Plan {
        name: "soak".to_owned(),
        version,
        programs: Programs { pleg, guard },
        pods: pods.max(2),
        time: Duration::from_secs_f64(minutes * 60.0),
        calm: Duration::from_secs(15),
        fault: Duration::from_secs(20),
        log: |line| println!("{line}"),
    }))
}
