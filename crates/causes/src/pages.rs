//! The page of each cause: front matter that findings and `pleg explain` use, and Markdown.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::Cause;

/// What the page of a cause declares.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct About {
    id: String,
    /// A short sentence without a full stop.
    pub title: String,
    /// What to do, the first thing first.
    pub advice: Vec<String>,
    /// The versions in which it is fixed; empty where none is.
    pub fixed_in: Vec<String>,
    /// Where it is discussed.
    pub references: Vec<String>,
    /// What happens, how to confirm it by hand, what to do now, what fixes it and how to
    /// prevent it, in Markdown.
    #[serde(skip)]
    pub text: &'static str,
}

/// In the order of [`Cause::ALL`].
static PAGES: LazyLock<Vec<About>> = LazyLock::new(|| {
    let read = |cause| read(cause).unwrap_or_else(|| panic!("the page of {cause} is malformed"));
    Cause::ALL.into_iter().map(read).collect()
});

impl Cause {
    /// What is known of it.
    pub fn about(self) -> &'static About {
        &PAGES[self as usize]
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

/// Separates the front matter from the text. `None` if either is missing, malformed or of
/// another cause.
fn read(cause: Cause) -> Option<About> {
    let (matter, text) = cause
        .source()
        .strip_prefix("---\n")?
        .split_once("\n---\n\n")?;
    let mut about: About = serde_saphyr::from_str(matter).ok()?;
    about.text = text;
    (about.id == cause.id()).then_some(about)
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
            assert!(
                !about.title.ends_with('.') && about.title.len() < 100,
                "{cause}"
            );
            assert!(!about.advice.is_empty(), "{cause}");
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
