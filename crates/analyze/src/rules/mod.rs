//! Rules: what supports a cause, as data. This crate has the code that reads logs, stacks and tables;
//! the rules say what they mean.
//!
//! ```text
//!   causes/<id>/rules.yaml -- file: a rule by what it reads --> Rules
//!   a folder of a site     --/                                    |
//!                                                                 v
//!                      line --> LineSearch: one search for the texts of all rules on lines
//! ```
//!
//! ```
//! use analyze::rules::LineSearch;
//! use causes::Cause;
//!
//! let found = LineSearch::active().find(b"accept4: too many open files; retrying in 1s");
//! assert!(found.causes().eq([Cause::FdOrInotifyExhausted]));
//! ```

mod event;
mod file;
mod folder;
mod interest;
mod line;
mod line_search;
mod samples;
mod search;
mod table;
mod texts;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use causes::{Cause, catalogue};

pub(crate) use event::Event;
pub use event::{EventRule, Excuse};
pub use interest::Interest;
pub use line::{Counted, Failure, LineRule};
pub(crate) use line_search::FATAL;
pub use line_search::{Found, LineSearch};
pub use samples::Checked;
pub use table::TableRule;
pub(crate) use table::{Shown, is_like};
pub use texts::Texts;

use file::Rule;
use folder::Sample;
use interest::interests;
use search::{MAX_TEXTS, MIN_TEXT};
use texts::Lists;

use crate::goroutines::GoroutineRule;
use crate::kernel::KernelStackRule;
use crate::kind::Writer;
use crate::ps::ProcessRule;

/// A rule of a cause.
#[derive(Debug)]
pub struct CauseRule<R> {
    /// The cause that the rule supports.
    pub cause: Cause,
    /// The rule.
    pub rule: R,
    /// The file and line of the rule.
    pub place: String,
}

/// All rules, by what they read.
#[derive(Debug, Default)]
pub struct Rules {
    lists: Lists,
    /// The rules on lines.
    pub lines: Vec<CauseRule<LineRule>>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) events: Vec<CauseRule<EventRule>>,
    /// Rules on events that support no cause. The first one that holds counts.
    pub(crate) failed_events: Vec<EventRule>,
    /// How many rules on lines are from the catalogue. These precede the others in `lines`.
    built_in_lines: usize,
    /// How many of all rules are from the catalogue.
    built_in: usize,
    /// The causes of sites.
    sites: Vec<Cause>,
    samples: Vec<Sample>,
    pub(crate) goroutines: Vec<CauseRule<GoroutineRule>>,
    pub(crate) kernel_stacks: Vec<CauseRule<KernelStackRule>>,
    pub(crate) processes: Vec<CauseRule<ProcessRule>>,
    tables: Vec<CauseRule<TableRule>>,
    /// Rules on rows that support no cause. The first one that holds counts.
    failed_tables: Vec<TableRule>,
}

/// The rules of this process.
static ACTIVE: OnceLock<Rules> = OnceLock::new();

impl Rules {
    /// The rules of this process: those that were installed, or else the built-in ones.
    pub fn active() -> &'static Self {
        ACTIVE.get_or_init(Self::built_in)
    }

    /// Makes these the rules of this process.
    ///
    /// # Errors
    ///
    /// Other rules were already used to read something.
    pub fn install(self) -> Result<&'static Self, TooLate> {
        ACTIVE.set(self).map_err(|_| TooLate)?;
        Ok(Self::active())
    }

    /// Whether a rule of the cause reads what the kernel shows: its log, or where threads wait.
    pub fn reads_the_kernel(&self, cause: Cause) -> bool {
        let mut lines = self.lines.iter();
        let mut stacks = self.kernel_stacks.iter();
        lines.any(|of| of.cause == cause && of.rule.writer == Writer::Kernel)
            || stacks.any(|of| of.cause == cause)
    }

    /// The causes of sites.
    pub fn sites(&self) -> &[Cause] {
        &self.sites
    }

    fn count(&self) -> usize {
        self.lines.len()
            + self.failures.len()
            + self.events.len()
            + self.failed_events.len()
            + self.goroutines.len()
            + self.kernel_stacks.len()
            + self.processes.len()
            + self.tables.len()
            + self.failed_tables.len()
    }

    /// The rules of the catalogue.
    ///
    /// # Panics
    ///
    /// Never: a test reads them.
    pub fn built_in() -> Self {
        Self::read_built_in().unwrap_or_else(|error| panic!("{error}"))
    }

    fn read_built_in() -> Result<Self, Error> {
        let mut rules = Self {
            lists: file::read_json("causes/lists.yaml", catalogue::LISTS)?,
            ..Self::default()
        };
        let of_causes: BTreeMap<Cause, Vec<(u64, Rule)>> =
            file::read_json("causes/*/rules.yaml", catalogue::RULES)?;
        for (cause, of_cause) in of_causes {
            let path = format!("causes/{cause}/rules.yaml");
            let of_cause = file::finish(&path, of_cause, &rules.lists)?;
            rules.add_all(Some(cause), &path, of_cause)?;
        }
        let path = "causes/failures.yaml";
        let failures = file::read_json(path, catalogue::FAILURES)?;
        let failures = file::finish(path, failures, &rules.lists)?;
        rules.add_all(None, path, failures)?;
        rules.built_in_lines = rules.lines.len();
        rules.built_in = rules.count();
        rules.sort();
        Ok(rules)
    }

    /// Sorts the rules on goroutines: only the first one that holds counts.
    fn sort(&mut self) {
        self.goroutines.sort_by_key(|of| of.rule.order);
    }

    /// Adds the rules of a file: those of a cause, or those that support none.
    fn add(&mut self, cause: Option<Cause>, path: &str, text: &str) -> Result<(), Error> {
        let rules = file::parse(path, text, &self.lists)?;
        self.add_all(cause, path, rules)
    }

    fn add_all(
        &mut self,
        cause: Option<Cause>,
        path: &str,
        rules: Vec<(u64, Rule)>,
    ) -> Result<(), Error> {
        for (line, rule) in rules {
            let place = format!("{path}:{line}");
            let error = |says: &str| Err(Error::new(path, Some(line), says.to_owned()));
            match (rule, cause) {
                (rule, Some(_)) if rule.lacks_confidence() => {
                    return error(
                        "`confidence` is missing: a rule in the folder of a cause needs it",
                    );
                }
                (Rule::Line(rule), Some(cause)) => self.lines.push(of(cause, place, rule)),
                (Rule::Goroutines(rule), Some(cause)) => {
                    self.goroutines.push(of(cause, place, rule))
                }
                (Rule::KernelStack(rule), Some(cause)) => {
                    self.kernel_stacks.push(of(cause, place, rule))
                }
                (Rule::Process(rule), Some(cause)) => self.processes.push(of(cause, place, rule)),
                (Rule::Event(rule), Some(cause)) => self.events.push(of(cause, place, rule)),
                (Rule::Table(rule), Some(cause)) => self.tables.push(of(cause, place, rule)),
                (Rule::Failure(rule), None) => self.failures.push(rule),
                (Rule::Event(rule), None) => self.failed_events.push(rule),
                (Rule::Table(rule), None) => self.failed_tables.push(rule),
                (Rule::Failure(_), Some(_)) => {
                    return error(
                        "`on: failure` is only allowed in failures.yaml, beside the folders of causes: \
                         write `on: line`",
                    );
                }
                (_, None) => {
                    return error(
                        "this rule supports a cause: put it into the rules.yaml of the cause's folder",
                    );
                }
            }
            let texts = self.lines.len() + self.failures.len() + interests().len();
            if texts > MAX_TEXTS {
                return error(&format!(
                    "there are too many rules on lines: with the built-in ones, {MAX_TEXTS} are possible"
                ));
            }
        }
        Ok(())
    }
}

/// The default of `lines` and `times`.
fn one() -> u64 {
    1
}

fn of<R>(cause: Cause, place: String, rule: R) -> CauseRule<R> {
    CauseRule { cause, rule, place }
}

/// The error if rules are installed after something was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rules cannot be installed after something was read")]
pub struct TooLate;

/// A mistake in a folder of rules: where it is, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    path: String,
    line: Option<u64>,
    says: String,
}

impl Error {
    /// An error at this place: a path, or `path:line`.
    fn at(place: &str, says: String) -> Self {
        Self::new(place, None, says)
    }

    fn new(path: &str, line: Option<u64>, says: String) -> Self {
        Self {
            path: path.to_owned(),
            line,
            says,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, says } = self;
        match line {
            Some(line) => write!(f, "{path}:{line}: {says}"),
            None => write!(f, "{path}: {says}"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format of a site's files is that of the catalogue.
    #[test]
    fn the_catalogue_is_read_from_its_yaml_as_from_its_json() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../causes/causes");
        let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        let mut rules = Rules {
            lists: file::parse_lists("lists.yaml", &read("lists.yaml")).unwrap(),
            ..Rules::default()
        };
        for cause in Cause::ALL {
            let path = format!("{cause}/rules.yaml");
            let path_shown = format!("causes/{path}");
            rules.add(Some(cause), &path_shown, &read(&path)).unwrap();
        }
        rules
            .add(None, "failures.yaml", &read("failures.yaml"))
            .unwrap();
        rules.sort();
        let built_in = Rules::built_in();
        assert_eq!(
            format!("{:?}", rules.lines),
            format!("{:?}", built_in.lines)
        );
        assert_eq!(rules.count(), built_in.count());
    }
}
