//! A file of rules in YAML. Each rule begins with what it reads.
//!
//! ```yaml
//! - on: line
//!   text: "get state for "
//!   any: ["context deadline exceeded"]
//!   writer: runtime
//!   confidence: high
//! ```

use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_saphyr::Spanned;

use super::event::EventRule;
use super::line::{Failure, LineRule};
use super::table::TableRule;
use super::texts::{Lists, Texts};
use super::{Error, MIN_TEXT};
use crate::goroutines::GoroutineRule;
use crate::kernel::KernelStackRule;
use crate::ps::ProcessRule;

/// A rule, by what it reads.
#[derive(Debug)]
pub(super) enum Rule {
    Line(LineRule),
    Failure(Failure),
    Event(EventRule),
    Goroutines(GoroutineRule),
    KernelStack(KernelStackRule),
    Process(ProcessRule),
    /// A rule on rows of a table, or on a figure.
    Table(TableRule),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum On {
    Line,
    Failure,
    Event,
    Goroutines,
    KernelStack,
    Process,
    Table,
    Figure,
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ByOn)
    }
}

/// Reads `on`, and all other keys as the rule of that kind. A tagged enum of serde would lose the line
/// numbers of errors.
struct ByOn;

impl<'de> Visitor<'de> for ByOn {
    type Value = Rule;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rule, which begins with `on:`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rule, A::Error> {
        match map.next_key::<String>()? {
            Some(key) if key == "on" => {}
            _ => {
                return Err(de::Error::custom(
                    "a rule begins with `on:`, which names what it reads",
                ));
            }
        }
        let on: On = map.next_value()?;
        on.deserialize(MapAccessDeserializer::new(map))
    }
}

/// Reads the other keys of a rule of this kind.
impl<'de> DeserializeSeed<'de> for On {
    type Value = Rule;

    fn deserialize<D: Deserializer<'de>>(self, keys: D) -> Result<Rule, D::Error> {
        Ok(match self {
            Self::Line => Rule::Line(LineRule::deserialize(keys)?),
            Self::Failure => Rule::Failure(Failure::deserialize(keys)?),
            Self::Event => Rule::Event(EventRule::deserialize(keys)?),
            Self::Goroutines => Rule::Goroutines(GoroutineRule::deserialize(keys)?),
            Self::KernelStack => Rule::KernelStack(KernelStackRule::deserialize(keys)?),
            Self::Process => Rule::Process(ProcessRule::deserialize(keys)?),
            Self::Table => Rule::Table(TableRule::deserialize(keys)?),
            Self::Figure => {
                let mut rule = TableRule::deserialize(keys)?;
                rule.is_figure = true;
                Rule::Table(rule)
            }
        })
    }
}

/// Checks that a set of texts without which a rule never holds is not empty.
fn needs_one(key: &str, texts: &Texts) -> Result<(), String> {
    match texts.is_empty() {
        true => Err(format!("`{key}` is empty, so the rule never holds")),
        false => Ok(()),
    }
}

impl Rule {
    /// Whether the rule has no confidence. Only rules that support no cause may lack it.
    pub(super) fn lacks_confidence(&self) -> bool {
        match self {
            Self::Event(rule) => rule.confidence.is_none(),
            Self::Table(rule) => rule.confidence.is_none(),
            _ => false,
        }
    }

    /// Replaces the names of lists with their texts, and checks what the types do not check. The error is a
    /// sentence.
    fn finish(&mut self, lists: &Lists) -> Result<(), String> {
        // The text of a cell may be empty.
        let may_be_empty = matches!(self, Self::Table(_));
        let (text, sets): (Option<&str>, Vec<&mut Texts>) = match self {
            Self::Line(rule) => {
                let sets = vec![&mut rule.any, &mut rule.all, &mut rule.without];
                (Some(&rule.text), sets)
            }
            Self::Failure(rule) => {
                let sets = vec![&mut rule.any, &mut rule.all, &mut rule.without];
                (Some(&rule.text), sets)
            }
            Self::Event(rule) => (None, vec![&mut rule.any, &mut rule.without]),
            Self::Goroutines(rule) => {
                rule.check()?;
                (None, vec![&mut rule.calls])
            }
            Self::KernelStack(rule) => {
                needs_one("functions", &rule.functions)?;
                let sets = vec![&mut rule.functions, &mut rule.processes, &mut rule.under];
                (None, sets)
            }
            Self::Process(rule) => {
                needs_one("names", &rule.names)?;
                (None, vec![&mut rule.names, &mut rule.any])
            }
            Self::Table(rule) => {
                rule.finish()?;
                let cells = rule.cells.values_mut();
                let sets = cells.flat_map(|cell| [&mut cell.is, &mut cell.any, &mut cell.without]);
                (None, sets.collect())
            }
        };
        if let Some(text) = text.filter(|text| text.len() < MIN_TEXT) {
            return Err(format!(
                "the text {text:?} is too short: {MIN_TEXT} bytes are needed, so that the search for it \
                 is fast; put shorter ones into `any` or `all`"
            ));
        }
        if !may_be_empty && sets.iter().any(|set| set.iter().any(String::is_empty)) {
            return Err("a text is empty, which every line has: remove it".to_owned());
        }
        for set in sets {
            set.resolve(lists).map_err(|name| {
                format!("there is no list {name:?}; lists.yaml has the names of all lists")
            })?;
        }
        Ok(())
    }
}

/// The rules of a file, each with its line.
pub(super) fn parse(path: &str, text: &str, lists: &Lists) -> Result<Vec<(u64, Rule)>, Error> {
    let read: Option<Vec<Spanned<Rule>>> = read(path, text)?;
    let rules = read.into_iter().flatten();
    let rules = rules.map(|rule| (rule.referenced.line(), rule.value));
    finish(path, rules.collect(), lists)
}

/// Checks the rules of a file, and replaces the names of lists in them.
pub(super) fn finish(
    path: &str,
    mut rules: Vec<(u64, Rule)>,
    lists: &Lists,
) -> Result<Vec<(u64, Rule)>, Error> {
    for (line, rule) in &mut rules {
        let finished = rule.finish(lists);
        finished.map_err(|says| Error::new(path, Some(*line), says))?;
    }
    Ok(rules)
}

pub(super) fn read_json<T: DeserializeOwned>(name: &str, json: &str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| Error::new(name, None, error.to_string()))
}

pub(super) fn parse_lists(path: &str, text: &str) -> Result<Lists, Error> {
    let read: Option<Lists> = read(path, text)?;
    Ok(read.unwrap_or_default())
}

fn read<'de, T: Deserialize<'de>>(path: &str, text: &'de str) -> Result<T, Error> {
    serde_saphyr::from_str(text).map_err(|error| {
        let (line, says) = causes::yaml_error(&error);
        Error::new(path, line, says)
    })
}
