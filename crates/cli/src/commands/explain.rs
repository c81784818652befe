//! `pleg explain`: the page of a cause, or the list of all.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use analyze::rules::Rules;
use anyhow::Context;
use causes::{AREAS, Cause};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command};
use serde_json::json;

use super::rules::RulesOption;
use crate::args::Global;
use crate::text::styled;
use crate::{Outcome, output, text};

/// Arguments of `pleg explain`.
#[derive(Args, Debug)]
pub struct Explain {
    /// The id of a cause, as shown in findings.
    #[arg(value_name = "CAUSE", value_parser = CauseParser, hide_possible_values = true)]
    pub cause: Option<CauseArgument>,
    #[command(flatten)]
    pub rules: RulesOption,
}

pub fn run(global: &Global, options: Explain) -> anyhow::Result<Outcome> {
    options.rules.install()?;
    let cause = options
        .cause
        .as_ref()
        .map(CauseArgument::cause)
        .transpose()?;
    match cause {
        Some(cause) => output::show(global.format(), &of(cause), || cause.page().to_string())?,
        None => output::show(global.format(), &all().map(of).collect::<Vec<_>>(), list)?,
    }
    Ok(Outcome::Done)
}

/// An id is suggested if its Jaro similarity is greater than this, as in clap.
const MIN_SIMILARITY: f64 = 0.7;

/// The id of a cause. It may be defined by rules that have not been read yet.
#[derive(Clone, Debug)]
pub struct CauseArgument(String);

impl CauseArgument {
    /// The cause with this id.
    ///
    /// # Errors
    ///
    /// Neither the catalogue nor the installed rules have a cause with this id.
    pub fn cause(&self) -> anyhow::Result<Cause> {
        let likeness = |cause: &Cause| strsim::jaro(cause.id(), &self.0);
        self.0.parse().with_context(|| {
            let similar = all().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
            match similar.filter(|cause| likeness(cause) > MIN_SIMILARITY) {
                Some(cause) => format!("no such cause; a similar value exists: '{cause}'"),
                None => "no such cause: `pleg explain` lists all of them".to_owned(),
            }
        })
    }
}

/// Accepts any id, and completes the built-in ones.
#[derive(Clone)]
pub struct CauseParser;

impl TypedValueParser for CauseParser {
    type Value = CauseArgument;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<CauseArgument, clap::Error> {
        let id = StringValueParser::new().parse_ref(command, argument, value)?;
        Ok(CauseArgument(id))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let ids = Cause::ALL.into_iter().map(|cause| cause.id());
        Some(Box::new(ids.map(PossibleValue::new)))
    }
}

fn all() -> impl Iterator<Item = Cause> {
    let sites = Rules::active().sites().iter().copied();
    Cause::ALL.into_iter().chain(sites)
}

fn of(cause: Cause) -> serde_json::Value {
    let about = cause.about();
    json!({"cause": cause, "area": about.area, "title": about.title, "page": cause.page()})
}

fn list() -> String {
    let mut list = String::new();
    let mut areas: Vec<&str> = AREAS.to_vec();
    let sites = Rules::active().sites().iter();
    areas.extend(sites.map(|cause| &*cause.about().area));
    let mut listed = BTreeSet::new();
    for area in areas.into_iter().filter(|area| listed.insert(*area)) {
        list.push_str(&format!("\n{area}\n"));
        for cause in all().filter(|cause| cause.about().area == area) {
            list.push_str(&format!("  {}\n", styled(text::BOLD, cause.id())));
            text::wrap(&mut list, "      ", &cause.about().title);
        }
    }
    list.trim_start().to_owned()
}
