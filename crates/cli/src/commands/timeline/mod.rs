//! `pleg timeline`: a picture of an incident.
//!
//! ```text
//!   --from FILE..., or the recording --> read: episodes, causes --> Picture
//!                                            html | svg | json | intervals | text <--/
//! ```

mod read;

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use doctor::bundle::folder_of;
use episodes::Episode;
use pleg::model::wall_time::{WallTime, system_clock};
use serde::Serialize;
use timeline::{Advice, Picture};
use tokio::task::spawn_blocking;

use crate::args::{Global, Output, duration};
use crate::text::{printable, printable_path, sentence};
use crate::{Outcome, output};

const AFTER_HELP: &str = "\
Examples:
  pleg timeline --from kubelet.log containerd.log --output-file night.html
  pleg timeline --since 2h --output-file now.html
  pleg timeline --from node.snapshot.gz -o svg > incident.svg
  journalctl -u kubelet -o short-iso | pleg timeline --from - -o text

Without -o, the extension of --output-file decides: .html, .svg, .json or .txt.
Without both it is text on a terminal, and html otherwise.

The page works without a network. Drag to zoom; j and k step through the
episodes; 0 shows everything; the address contains the range that is shown.";

/// The default of --since for the recording on this node.
const DEFAULT_SINCE: Duration = Duration::from_secs(86_400);

/// The width of the text picture, in columns.
const COLUMNS: usize = 110;

/// Arguments of `pleg timeline`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Timeline {
    /// The same as --from
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// What to draw: the recording of an agent, a snapshot, a bundle, and everything that `pleg
    /// analyze` reads; - for standard input [default: the recording on this node, /var/lib/pleg/history]
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<String>,
    /// Only this period before the end; for the recording on this node, before now [default: 24h for
    /// the recording on this node, otherwise all]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub since: Option<Duration>,
    /// Output format
    #[arg(id = "output", short, long, value_name = "OUTPUT", value_enum)]
    output: Option<Output>,
    /// File to write to instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
}

pub async fn run(_global: &Global, options: Timeline) -> anyhow::Result<Outcome> {
    let from = [&options.files[..], &options.from[..]].concat();
    if let Some(path) = &options.output_file {
        check_place(path, &from)?;
    }
    let form = form(&options)?;
    let now = system_clock()();
    // The time at which files end is known only after they have been read.
    let is_own = from.is_empty();
    let since = is_own.then(|| now.before(options.since.unwrap_or(DEFAULT_SINCE)));
    let picture = spawn_blocking(move || read::read(&from, since, now)).await??;
    if form != Output::Text {
        for note in &picture.notes {
            tracing::warn!("{}", sentence(note));
        }
    }
    let picture = match options.since {
        Some(since) => {
            let begin = picture.to.before(since);
            picture.since(begin)
        }
        None => picture,
    };
    let drawn = draw(&picture, form)?;
    match options.output_file {
        Some(path) => spawn_blocking(move || save(&path, &drawn)).await??,
        None if form == Output::Text => output::text(&drawn)?,
        None => output::generated(drawn.as_bytes())?,
    }
    Ok(Outcome::Done)
}

fn form(options: &Timeline) -> anyhow::Result<Output> {
    if let Some(output) = options.output {
        return Ok(output);
    }
    let Some(path) = &options.output_file else {
        return Ok(match std::io::stdout().is_terminal() {
            true => Output::Text,
            false => Output::Html,
        });
    };
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    Ok(match &*extension.to_ascii_lowercase() {
        "html" | "htm" | "" => Output::Html,
        "svg" => Output::Svg,
        "json" => Output::Json,
        "txt" => Output::Text,
        other => bail!(
            "the extension .{} does not determine the format: add -o html, svg, json, intervals or text",
            printable(other)
        ),
    })
}

/// The picture as JSON. The findings with all their evidence are in the JSON of `pleg analyze`.
#[derive(Serialize)]
struct Json<'a> {
    summary: &'a str,
    node: Option<&'a str>,
    from: WallTime,
    to: WallTime,
    sources: &'a [String],
    notes: &'a [String],
    causes: &'a [Advice],
    episodes: &'a [Episode],
}

fn draw(picture: &Picture, form: Output) -> anyhow::Result<String> {
    let line = |json: String| pleg_text::escape::json(json) + "\n";
    Ok(match form {
        Output::Html => timeline::html(picture),
        Output::Svg => timeline::svg(picture),
        Output::Text => timeline::text(picture, COLUMNS),
        Output::Json => line(serde_json::to_string(&Json {
            summary: &picture.summary,
            node: picture.node.as_deref(),
            from: picture.from,
            to: picture.to,
            sources: &picture.sources,
            notes: &picture.notes,
            causes: &picture.advice,
            episodes: &picture.episodes,
        })?),
        Output::Intervals => {
            let node = picture.node.as_deref().unwrap_or("node");
            let intervals = episodes::intervals(&picture.episodes, node);
            line(serde_json::to_string(&intervals)?)
        }
    })
}

/// Refuses an output file that is also an input.
fn check_place(path: &Path, from: &[String]) -> anyhow::Result<()> {
    let file = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        found.is_file().then(|| (found.dev(), found.ino()))
    };
    let Some(place) = file(path) else {
        return Ok(());
    };
    if from.iter().any(|from| file(Path::new(from)) == Some(place)) {
        let path = printable_path(path);
        bail!("--output-file {path} would replace what is read");
    }
    Ok(())
}

/// Replaces a file completely or not at all. Writes directly to anything else, such as a device.
fn save(path: &Path, drawn: &str) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", printable_path(path));
    let is_other = std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file());
    if is_other {
        return std::fs::write(path, drawn).with_context(context);
    }
    // The same mode as that of a file that a shell creates: the umask applies.
    let mode = Permissions::from_mode(0o666);
    let replace = || {
        let mut file = tempfile::Builder::new()
            .permissions(mode)
            .tempfile_in(folder_of(path))?;
        file.write_all(drawn.as_bytes())?;
        file.persist(path)?;
        Ok::<_, std::io::Error>(())
    };
    replace().with_context(context)
}
