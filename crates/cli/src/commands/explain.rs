//! `pleg explain`: the page of a cause, or the list of all.

use causes::Cause;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use crate::args::{Format, Global};
use crate::text::styled;
use crate::{Found, output, text};

/// Arguments of `pleg explain`.
#[derive(Args, Debug)]
pub struct Explain {
    /// The id of a cause, as shown in findings.
    #[arg(value_name = "CAUSE", value_parser = cause(), hide_possible_values = true)]
    pub cause: Option<Cause>,
}

pub fn run(global: &Global, options: Explain) -> anyhow::Result<Found> {
    match (options.cause, global.output) {
        (Some(cause), Format::Text) => output::text(&cause.page())?,
        (Some(cause), Format::Json) => output::json(&of(cause))?,
        (None, Format::Text) => output::text(&list())?,
        (None, Format::Json) => {
            let all: Vec<_> = Cause::ALL.into_iter().map(of).collect();
            output::json(&all)?;
        }
    }
    Ok(Found::Well)
}

/// A cause by its id.
pub fn cause() -> impl TypedValueParser<Value = Cause> {
    PossibleValuesParser::new(Cause::ALL.map(Cause::id)).try_map(|id| id.parse::<Cause>())
}

fn of(cause: Cause) -> serde_json::Value {
    json!({"cause": cause, "title": cause.about().title, "page": cause.page()})
}

fn list() -> String {
    let mut list = String::new();
    for cause in Cause::ALL {
        list.push_str(&styled(text::BOLD, cause.id()));
        list.push('\n');
        text::wrap(&mut list, "    ", &cause.about().title);
    }
    list
}
