//! `kubectl pleg <TAB>`. To complete the words after the name of a plugin, kubectl runs
//! `kubectl_complete-NAME` with these words. The last word is the one to be completed. kubectl expects
//! Cobra's protocol on standard output:
//!
//! ```text
//!   node-1 TAB Degraded      a candidate, and what the shell shows beside it
//!   :4                       the directive: 4 is "no file names", 0 is "file names if nothing else"
//! ```
//!
//! If the last word has the form `--name=value`, the candidates are values: the shell
//! puts `--name=` before them.

use std::path::Path;
use std::time::Duration;

use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches, ValueHint};
use cluster::fleet::Fleet;
use pleg::model::wall_time::system_clock;
use tokio::time::timeout;

use super::Kubectl;
use crate::{Outcome, output};

/// The name by which kubectl finds the completion of a plugin.
const COMPLETER: &str = "kubectl_complete-pleg";

/// The time limit for listing the nodes, because the user waits after pressing the key.
const LIST_LIMIT: Duration = Duration::from_secs(3);

/// The number of nodes per request.
const CHUNK: usize = 500;

/// Cobra's directive to offer file names if there are no candidates.
const FILE_NAMES: u8 = 0;
/// Cobra's directive to offer no file names.
const NO_FILE_NAMES: u8 = 4;

/// Whether kubectl has started this program to complete a command line.
pub fn is_completer(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == COMPLETER)
}

/// Prints the candidates for the last word. Errors are not printed, because the user is typing.
pub async fn complete(words: Vec<String>) -> anyhow::Result<Outcome> {
    let mut command = Kubectl::command();
    command.build();
    let (last, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", &[][..]),
    };
    let mut directive = NO_FILE_NAMES;
    let candidates = match Completing::of(&command, before, last) {
        Completing::Option => options(&command),
        Completing::Value(arg) => {
            if takes_path(arg) {
                directive = FILE_NAMES;
            }
            values(arg)
        }
        Completing::Node => {
            let listed = timeout(LIST_LIMIT, nodes(&command, before)).await;
            listed.ok().flatten().unwrap_or_default()
        }
        Completing::Nothing => Vec::new(),
    };
    let typed = match last.split_once('=') {
        Some((option, value)) if option.starts_with("--") => value,
        _ => last,
    };
    let mut lines = String::new();
    for (candidate, about) in candidates {
        if candidate.starts_with(typed) {
            let line = format!("{candidate}\t{about}");
            lines.push_str(line.trim_end());
            lines.push('\n');
        }
    }
    output::generated(format!("{lines}:{directive}\n").as_bytes())?;
    Ok(Outcome::Done)
}

/// The kind of the word to complete.
#[derive(Debug)]
enum Completing<'a> {
    Option,
    Value(&'a Arg),
    Node,
    Nothing,
}

impl<'a> Completing<'a> {
    /// The kind of the word after `before`.
    fn of(command: &'a Command, before: &[String], word: &str) -> Self {
        let mut nodes = 0;
        let mut before = before.iter();
        let mut is_option = true;
        while let Some(earlier) = before.next() {
            match earlier.as_str() {
                "--" => {
                    is_option = false;
                    nodes += before.by_ref().count();
                }
                option if option.starts_with('-') => {
                    let arg = option_named(command, option).filter(|arg| takes_value(arg));
                    if let Some(arg) = arg
                        && before.next().is_none()
                    {
                        return Self::Value(arg);
                    }
                }
                _ => nodes += 1,
            }
        }
        match word.split_once('=') {
            Some((option, _)) if is_option && option.starts_with("--") => {
                let arg = option_named(command, option).filter(|arg| takes_value(arg));
                arg.map_or(Self::Nothing, Self::Value)
            }
            _ if is_option && word.starts_with('-') => Self::Option,
            _ if nodes == 0 => Self::Node,
            _ => Self::Nothing,
        }
    }
}

fn option_named<'a>(command: &'a Command, option: &str) -> Option<&'a Arg> {
    command
        .get_arguments()
        .find(|arg| names(arg).any(|name| name == option))
}

fn names(arg: &Arg) -> impl Iterator<Item = String> + use<> {
    let long = arg.get_long().map(|long| format!("--{long}"));
    let short = arg.get_short().map(|short| format!("-{short}"));
    long.into_iter().chain(short)
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

fn takes_path(arg: &Arg) -> bool {
    matches!(
        arg.get_value_hint(),
        ValueHint::AnyPath | ValueHint::FilePath
    )
}

/// All options, with the first line of their help.
fn options(command: &Command) -> Vec<(String, String)> {
    let mut options = Vec::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        options.extend(names(arg).map(|name| (name, help.to_owned())));
    }
    options
}

/// The possible values of an option, if they are listed.
fn values(arg: &Arg) -> Vec<(String, String)> {
    let values = arg.get_possible_values();
    let values = values.iter().map(|value| {
        let help = value.get_help().map(ToString::to_string);
        (value.get_name().to_owned(), help.unwrap_or_default())
    });
    values.collect()
}

/// The nodes of the cluster that the earlier words select, with their states.
async fn nodes(command: &Command, before: &[String]) -> Option<Vec<(String, String)>> {
    let words = std::iter::once(super::PLUGIN).chain(before.iter().map(String::as_str));
    let command = command.clone().ignore_errors(true);
    let matches = command.try_get_matches_from(words).ok()?;
    let options = Kubectl::from_arg_matches(&matches).ok()?;
    let fleet = Fleet::open(&options.server.access(), system_clock()).await;
    let listed = fleet.ok()?.nodes(None, CHUNK, |_, _| {}).await.ok()?;
    // A name from the server must be one word of the line.
    let is_word = |name: &str| !name.is_empty() && name.chars().all(|it| it.is_ascii_graphic());
    let nodes = listed.nodes.into_iter().filter(|view| is_word(&view.node));
    let nodes = nodes.map(|view| (view.node, view.state.as_str().to_owned()));
    Some(nodes.collect())
}
