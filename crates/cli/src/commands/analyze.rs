//! `pleg analyze`: explains saved files.

use std::num::NonZeroUsize;
use std::path::Path;

use analyze::analysis::{Analysis, Analyzer, InputReport};
use analyze::input::{self, Observer, Unreadable};
use analyze::kind::Kind;
use anyhow::bail;
use clap::Args;
use doctor::diagnosis::{NodeVerdict, diagnose};
use indicatif::{ProgressBar, ProgressStyle};
use pleg::model::wall_time::system_clock;
use recorder::store::is_recording_file;

use super::rules::RulesOption;
use crate::args::Global;
use crate::{Outcome, output, text};

/// Arguments of `pleg analyze`.
#[derive(Args, Debug)]
pub struct Analyze {
    /// Logs of the kubelet, the runtime, systemd and the kernel, goroutine dumps and profiles,
    /// kernel stacks, a kubelet's metrics, /proc/PID/status, and output of kubectl describe,
    /// kubectl get events, crictl, ctr, docker, systemctl status, ps, top, df, free, iostat,
    /// vmstat, busctl, dbus-send, strace and the kubelet's /healthz. Also compressed files (gzip,
    /// zstd), directories, - for standard input, and the bundle in a snapshot. The kind is recognised by content.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,
    /// Number of files to read at once. Default: the number of CPUs, at most 8.
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub rules: RulesOption,
}

pub async fn run(global: &Global, options: Analyze) -> anyhow::Result<Outcome> {
    options.rules.install()?;
    // A recording has no log lines, so the result would be that no problem was found.
    let mut files = options.files.iter();
    if let Some(file) = files.find(|file| is_recording_file(Path::new(file))) {
        let file = text::printable(file);
        bail!(
            "{file} is the recording of an agent: `pleg timeline --from {file}` draws it, and `pleg \
             top --from {file}` steps through it"
        );
    }
    // Reading blocks; on a pipe, until its writer ends.
    let at_once = options.jobs.unwrap_or_else(processors);
    let read = tokio::task::spawn_blocking(move || read(&options.files, at_once));
    let (analysis, mut unreadable) = read.await?;
    let read_any = |input: &InputReport| input.error.is_none() || input.lines > 0;
    if unreadable.is_empty() || analysis.inputs.iter().any(read_any) {
        let page = || text::analyze::page(&analysis);
        output::ignore_gone_reader(output::show(global.format(), &analysis, page))?;
    }
    match unreadable.len() {
        0 => Ok(Outcome::done(analysis.has_problem())),
        1 => Err(unreadable.remove(0).into()),
        all => {
            let first = output::sentence(&unreadable.remove(0).into());
            let more = all - 1;
            bail!("{first}, and {more} more inputs could not be read")
        }
    }
}

/// The default number of files to read at once is at most this: reading more needs more
/// memory, and is hardly faster.
const MAX_JOBS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

fn processors() -> NonZeroUsize {
    let processors = std::thread::available_parallelism();
    processors.map_or(NonZeroUsize::MIN, |all| all.min(MAX_JOBS))
}

fn read(files: &[String], at_once: NonZeroUsize) -> (Analysis, Vec<Unreadable>) {
    let (snapshots, files): (Vec<_>, Vec<_>) = files
        .iter()
        .cloned()
        .partition(|file| recorder::snapshot::is_snapshot(Path::new(file)));
    let (mut analysis, unreadable) = match files.is_empty() {
        true => (Analyzer::new().finish(), Vec::new()),
        false => read_files(&files, at_once),
    };
    for path in snapshots {
        add_snapshot(&mut analysis, path, files.is_empty());
    }
    (analysis, unreadable)
}

/// Adds a snapshot to the analysis. Its bundle is diagnosed as by `pleg doctor --from`.
fn add_snapshot(analysis: &mut Analysis, path: String, is_alone: bool) {
    let read = recorder::snapshot::open(Path::new(&path));
    let mut input = InputReport {
        path,
        kind: Kind::Snapshot,
        lines: 0,
        unread_lines: 0,
        read_from: None,
        read_until: None,
        lacks_dates: false,
        lacks_year: false,
        error: None,
    };
    match read {
        Ok(mut read) => {
            input.lines = read.entries.len() as u64 + read.skipped_lines;
            input.unread_lines = read.skipped_lines;
            let fold = read.fold();
            if !read.is_complete {
                input.error = Some("its end is missing".to_owned());
            }
            if let Some(error) = read.unreadable_bundle {
                let error = anyhow::Error::from(error).context("its bundle cannot be read");
                input.error = Some(output::sentence(&error));
            }
            let earlier = fold.findings();
            if earlier.is_empty()
                && let Some(happened) = timeline::summary(&fold.finish().0)
            {
                let path = &input.path;
                analysis.unexplained.push(format!(
                    "{path}: its history shows: {happened} `pleg timeline` draws it"
                ));
            }
            match read.parts.facts {
                Some(facts) => {
                    let mut diagnosis = diagnose(&facts, |_| true);
                    diagnosis.add_past(earlier);
                    if diagnosis.verdict == NodeVerdict::Ok && !analysis.unexplained.is_empty() {
                        diagnosis
                            .summary
                            .push_str("; the history shows an earlier problem");
                    }
                    let explains = analysis.findings.is_empty() && !diagnosis.findings.is_empty();
                    if is_alone || diagnosis.verdict == NodeVerdict::Problem || explains {
                        analysis.summary = diagnosis.summary;
                    }
                    analysis.findings.extend(diagnosis.findings);
                }
                None => {
                    if is_alone {
                        let found = earlier.first().map_or(String::new(), |first| {
                            format!(" The agent on the node found: {}.", first.said())
                        });
                        let without = "The snapshot has no bundle to be diagnosed.";
                        analysis.summary = format!("{without}{found}");
                    }
                    analysis.findings.extend(earlier);
                }
            }
        }
        Err(error) => {
            let error = anyhow::Error::from(error);
            input.error = Some(output::sentence(&error));
        }
    }
    analysis.inputs.push(input);
}

fn read_files(files: &[String], at_once: NonZeroUsize) -> (Analysis, Vec<Unreadable>) {
    let now = system_clock()();
    let mut analyzer = Analyzer::new();
    let mut progress = Progress::default();
    let unreadable = input::read(files, now, at_once, &mut analyzer, &mut progress);
    progress.bar.finish_and_clear();
    (analyzer.finish(), unreadable)
}

/// A progress bar on standard error, if standard error is a terminal.
struct Progress {
    bar: ProgressBar,
    /// The total size in bytes of the inputs opened so far; `None` if the size of one is not known.
    bytes: Option<u64>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            bytes: Some(0),
        }
    }
}

impl Observer for Progress {
    fn begins(&mut self, path: &str, bytes: Option<u64>) {
        // The bar shows the sum for all files, if each size is known.
        let bytes = bytes.and_then(|bytes| Some(self.bytes? + bytes));
        self.bytes = bytes;
        let shape = match bytes {
            Some(_) => "{bar:24} {bytes} of {total_bytes}, {bytes_per_sec}  {msg}",
            None => "{bytes}, {bytes_per_sec}  {msg}",
        };
        if self.bar.is_hidden() {
            self.bar = ProgressBar::no_length();
        }
        match bytes {
            Some(bytes) => self.bar.set_length(bytes),
            None => self.bar.unset_length(),
        }
        if let Ok(style) = ProgressStyle::with_template(shape) {
            self.bar.set_style(style);
        }
        self.bar.set_message(text::printable(path).into_owned());
    }

    fn read(&mut self, bytes: u64) {
        self.bar.inc(bytes);
    }

    fn waits(&mut self, path: &str) {
        tracing::warn!("{} is a pipe: waiting for data", text::printable(path));
    }
}
