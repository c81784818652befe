//! The page of each cause: front matter, which findings use, and the Markdown that `pleg explain` shows.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

use crate::Cause;
use crate::catalogue::PAGES as PAGES_AS_JSON;

/// What the page of a cause declares.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct About {
    id: String,
    /// The title: a short sentence without a full stop.
    pub title: String,
    /// The part of the node that is at fault: one of [`AREAS`], or a name that a site has chosen.
    #[serde(default = "of_a_site")]
    pub area: String,
    /// What to do, the most urgent first.
    pub advice: Vec<Advice>,
    /// The versions in which the fault is fixed; empty if there are none.
    #[serde(default)]
    pub fixed_in: Vec<String>,
    /// Causes that are only consequences of this one. They are left out if this one is at least as sure.
    #[serde(default)]
    pub supersedes: Vec<String>,
    /// Whether many other causes lead to this one, so that it is listed after them.
    #[serde(default)]
    pub general: bool,
    /// Whether this is a fault of one container. Lines about several containers, or from a node whose
    /// runtime is blocked itself, are no evidence against each of them.
    #[serde(default)]
    pub of_one: bool,
    /// Whether this is a fault of the node: the pods and containers that lines name are its victims.
    #[serde(default)]
    pub of_node: bool,
    /// Where the cause is discussed.
    #[serde(default)]
    pub references: Vec<String>,
    /// What happens, how to confirm it by hand, what to do now, what fixes it and how to
    /// prevent it, in Markdown.
    #[serde(skip)]
    pub text: &'static str,
}

/// A piece of advice.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "WrittenAdvice")]
pub struct Advice {
    /// A sentence without a full stop.
    pub text: String,
    /// When it applies; `None` if it always applies.
    pub only: Option<Only>,
}

/// When a piece of advice applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Only {
    /// The runtime is containerd, or is not known to be another one.
    Containerd,
    /// Saved files are explained. The doctor leaves such advice out, because it has done this itself, or
    /// knows what is at fault.
    SavedFiles,
}

/// A piece of advice as a page writes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenAdvice {
    Everywhere(String),
    Only { only: Only, text: String },
}

impl From<WrittenAdvice> for Advice {
    fn from(written: WrittenAdvice) -> Self {
        match written {
            WrittenAdvice::Everywhere(text) => Self { text, only: None },
            WrittenAdvice::Only { only, text } => Self {
                text,
                only: Some(only),
            },
        }
    }
}

/// The areas of the built-in causes, in the order in which they are listed.
pub const AREAS: [&str; 8] = [
    "kubelet",
    "runtime",
    "container",
    "network",
    "storage",
    "kernel",
    "systemd",
    "node",
];

fn of_a_site() -> String {
    "site".to_owned()
}

static PAGES: LazyLock<BTreeMap<Cause, About>> = LazyLock::new(|| {
    let pages: Result<BTreeMap<Cause, About>, _> = serde_json::from_str(PAGES_AS_JSON);
    let mut pages = pages.unwrap_or_else(|error| panic!("the pages: {error}"));
    for (cause, about) in &mut pages {
        (_, about.text) = cause.source().split_once("\n---\n\n").unwrap_or_default();
    }
    pages
});

impl Cause {
    /// What the page of the cause declares.
    pub fn about(self) -> &'static About {
        match self {
            Self::Site(cause) => cause.about(),
            known => &PAGES[&known],
        }
    }

    /// The whole page as Markdown, with its id as heading and its references at the end.
    pub fn page(self) -> String {
        let about = self.about();
        let mut page = format!("# {self}\n\n{}\n## References\n\n", about.text);
        for reference in &about.references {
            page.push_str(&format!("- {reference}\n"));
        }
        page
    }
}

/// Why a page cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The id has characters that are not allowed, or too many.
    #[error(
        "{0:?} cannot be the id of a cause: an id has at most 63 lower-case letters, digits and dashes"
    )]
    Id(String),
    /// There is no front matter.
    #[error(
        "there is no front matter: a page begins with a line ---, then come id, title and advice, then a \
         line ---, an empty line and the text"
    )]
    NoFrontMatter,
    /// The front matter is malformed, in this line of the page.
    #[error("{1}")]
    FrontMatter(Option<u64>, String),
    /// The page is that of another cause.
    #[error("the front matter has the id {0:?}; it must be the name of the folder")]
    OtherId(String),
    /// The title is missing, or is not a sentence without a full stop.
    #[error("the title {0:?} must be a short sentence without a full stop")]
    Title(String),
}

impl PageError {
    /// The line of the page that contains the error, if it is known.
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::FrontMatter(line, _) => *line,
            _ => None,
        }
    }
}

impl About {
    /// Reads the page of the cause with this id.
    pub(crate) fn read(id: &str, page: &'static str) -> Result<Self, PageError> {
        let parts = page.strip_prefix("---\n");
        let parts = parts.and_then(|page| page.split_once("\n---\n\n"));
        let (matter, text) = parts.ok_or(PageError::NoFrontMatter)?;
        let malformed = |error: serde_saphyr::Error| {
            let (line, says) = yaml_error(&error);
            // The front matter begins in the second line.
            PageError::FrontMatter(line.map(|line| line + 1), says)
        };
        let mut about: Self = serde_saphyr::from_str(matter).map_err(malformed)?;
        if about.id != id {
            return Err(PageError::OtherId(about.id));
        }
        if about.title.trim().is_empty() || about.title.ends_with('.') {
            return Err(PageError::Title(about.title));
        }
        about.text = text;
        Ok(about)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

/// The line of an error in YAML, and what is wrong, in the words of a person who writes YAML.
pub fn yaml_error(error: &serde_saphyr::Error) -> (Option<u64>, String) {
    let line = error.location().map(|location| location.line());
    let says = UserMessageFormatter.format_message(error.without_snippet());
    let says = match &*says {
        "expected sequence start" => "expected a list, whose items begin with `- `",
        "expected mapping start" => "expected keys with values, as in `key: value`",
        "expected string scalar" => "expected a text",
        "invalid u64" => "expected a whole number, at least 0",
        says => says,
    };
    (line, says.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every page has, in this order.
    const HEADINGS: [&str; 6] = [
        "\n## What happens\n",
        "\n## How to confirm it\n",
        "\n## What to do now\n",
        "\n## Permanent fix\n",
        "\n## How to prevent it\n",
        "\n## References\n",
    ];

    #[test]
    fn every_page_is_complete_and_fits_a_terminal() {
        for cause in Cause::ALL {
            let page = cause.page();
            let mut rest = page.as_str();
            for heading in HEADINGS {
                let after = rest.split_once(heading);
                rest = after.unwrap_or_else(|| panic!("{cause}: {heading:?}")).1;
                let text = rest.split("\n## ").next().unwrap_or_default();
                assert!(text.trim().len() > 20, "{cause}: {heading:?} is empty");
            }
            for line in page.lines() {
                let link = line.trim_start_matches("- ").starts_with("http");
                assert!(line.chars().count() <= 80 || link, "{cause}: {line}");
            }
        }
    }

    #[test]
    fn every_page_declares_a_title_and_what_to_do() {
        for cause in Cause::ALL {
            let about = cause.about();
            assert_eq!(about.id, cause.id());
            assert!(
                !about.title.ends_with('.') && about.title.len() < 100,
                "{cause}"
            );
            assert!(!about.advice.is_empty(), "{cause}");
            assert!(AREAS.contains(&&*about.area), "{cause}: {}", about.area);
        }
    }

    #[test]
    fn every_page_belongs_to_a_cause() {
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/causes");
        for page in std::fs::read_dir(pages).unwrap() {
            let name = page.unwrap().file_name().into_string().unwrap();
            let id = name.strip_suffix(".md").unwrap_or(&name);
            assert!(id.parse::<Cause>().is_ok(), "{name} has no cause");
        }
    }
}
