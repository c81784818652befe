//! `pleg explain`: the page of a cause, or the list of all.

use clap::Args;
use doctor::cause::Cause;
use doctor::pages::page;
use serde_json::json;

use crate::args::{Format, Global};
use crate::text::styled;
use crate::{Found, output, text};

/// Arguments of `pleg explain`.
#[derive(Args, Debug)]
pub struct Explain {
    /// The cause, by the id that findings have.
    #[arg(value_name = "CAUSE", value_parser = cause)]
    pub cause: Option<Cause>,
}

pub fn run(global: &Global, options: Explain) -> anyhow::Result<Found> {
    match (options.cause, global.output) {
        (Some(cause), Format::Text) => output::text(page(cause))?,
        (Some(cause), Format::Json) => output::json(&of(cause))?,
        (None, Format::Text) => output::text(&list())?,
        (None, Format::Json) => {
            let all: Vec<_> = Cause::ALL.into_iter().map(of).collect();
            output::json(&all)?;
        }
    }
    Ok(Found::Well)
}

/// A cause by its id; else the id that was perhaps meant.
pub fn cause(text: &str) -> Result<Cause, String> {
    text.parse().map_err(|error| {
        format!(
            "{error}; did you mean {}? `pleg explain` lists them",
            nearest(text)
        )
    })
}

fn of(cause: Cause) -> serde_json::Value {
    json!({"cause": cause, "title": cause.about().title, "page": page(cause)})
}

fn list() -> String {
    let mut list = String::new();
    for cause in Cause::ALL {
        list.push_str(&styled(text::BOLD, cause.id()));
        list.push('\n');
        text::wrap(&mut list, "    ", cause.about().title);
    }
    list
}

/// The id that takes the fewest changes; of what is absurdly long only the beginning counts.
fn nearest(text: &str) -> Cause {
    let text: Vec<char> = text.chars().take(64).collect();
    let distance = |cause: &Cause| {
        let id = cause.id();
        let words = id.split('-');
        let shared = words.filter(|word| {
            let wanted: String = text.iter().collect();
            wanted.split('-').any(|part| part == *word)
        });
        let shared = shared.count();
        changes(&text, &id.chars().collect::<Vec<_>>()).saturating_sub(4 * shared)
    };
    let causes = Cause::ALL.into_iter();
    causes.min_by_key(distance).unwrap_or(Cause::ALL[0])
}

/// How many letters have to be put in, taken out or changed to make `a` of `b`.
fn changes(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_leads_to_the_id_that_was_meant() {
        for (slip, meant) in [
            ("container-staus-lock", Cause::ContainerStatusLock),
            ("disk full", Cause::DiskFull),
            ("status-lock", Cause::ContainerStatusLock),
            ("cni-hang", Cause::CniPluginHang),
        ] {
            assert_eq!(nearest(slip), meant, "{slip}");
        }
    }
}
