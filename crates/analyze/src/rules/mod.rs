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
//! let search = LineSearch::new();
//! let found = search.find(b"accept4: too many open files; retrying in 1s");
//! assert_eq!(found.causes, [Cause::FdOrInotifyExhausted]);
//! ```

mod beside;
mod file;
mod interest;
mod line;
mod line_search;
mod search;
mod texts;

use std::fmt;
use std::sync::OnceLock;

use causes::Cause;

pub use interest::Interest;
pub use line::{Counted, Failure, LineRule};
pub(crate) use line_search::FATAL;
pub use line_search::{Found, LineSearch};
pub use texts::Texts;

use file::Rule;
use interest::INTERESTS;
use search::{MAX_TEXTS, MIN_TEXT};
use texts::Lists;

use crate::goroutines::GoroutineRule;
use crate::kernel::KernelStackRule;
use crate::ps::ProcessRule;

/// A rule of a cause.
#[derive(Debug)]
pub struct Of<R> {
    /// The cause that it supports.
    pub cause: Cause,
    /// The rule.
    pub rule: R,
    /// Its file and line.
    pub place: String,
}

/// All rules, by what they read.
#[derive(Debug, Default)]
pub struct Rules {
    lists: Lists,
    pub(crate) lines: Vec<Of<LineRule>>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) goroutines: Vec<Of<GoroutineRule>>,
    pub(crate) kernel_stacks: Vec<Of<KernelStackRule>>,
    pub(crate) processes: Vec<Of<ProcessRule>>,
}

/// The rules of this process.
static ACTIVE: OnceLock<Rules> = OnceLock::new();

impl Rules {
    /// The rules of this process: those that were installed, or else the built-in ones.
    pub fn active() -> &'static Self {
        ACTIVE.get_or_init(Self::built_in)
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
            lists: file::parse_lists("causes/lists.yaml", causes::LISTS)?,
            ..Self::default()
        };
        for cause in Cause::ALL {
            let path = format!("causes/{cause}/rules.yaml");
            rules.add(Some(cause), &path, cause.rules())?;
        }
        rules.add(None, "causes/failures.yaml", causes::FAILURES)?;
        rules.sort();
        Ok(rules)
    }

    /// Puts rules of which the first that holds counts in their order.
    fn sort(&mut self) {
        self.goroutines.sort_by_key(|of| of.rule.order);
    }

    /// Adds the rules of a file: those of a cause, or those that support none.
    fn add(&mut self, cause: Option<Cause>, path: &str, text: &str) -> Result<(), Error> {
        for (line, rule) in file::parse(path, text, &self.lists)? {
            let error = |says: &str| Err(Error::new(path, Some(line), says.to_owned()));
            match (rule, cause) {
                (Rule::Line(rule), Some(cause)) => self.lines.push(of(cause, path, line, rule)),
                (Rule::Goroutines(rule), Some(cause)) => {
                    self.goroutines.push(of(cause, path, line, rule));
                }
                (Rule::KernelStack(rule), Some(cause)) => {
                    self.kernel_stacks.push(of(cause, path, line, rule));
                }
                (Rule::Process(rule), Some(cause)) => {
                    self.processes.push(of(cause, path, line, rule));
                }
                (Rule::Failure(rule), None) => self.failures.push(rule),
                (Rule::Failure(_), Some(_)) => {
                    return error(
                        "a failure supports no cause: write `on: line`, or put it into failures.yaml \
                         beside the folders of causes",
                    );
                }
                (_, None) => {
                    return error(
                        "this rule supports a cause: put it into the rules.yaml of the cause's folder",
                    );
                }
            }
            if self.lines.len() + self.failures.len() + INTERESTS.len() > MAX_TEXTS {
                return error("there are too many rules on lines");
            }
        }
        Ok(())
    }
}

fn of<R>(cause: Cause, path: &str, line: u64, rule: R) -> Of<R> {
    Of {
        cause,
        rule,
        place: format!("{path}:{line}"),
    }
}

/// A file of rules that is not valid: where, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    path: String,
    line: Option<u64>,
    says: String,
}

impl Error {
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
