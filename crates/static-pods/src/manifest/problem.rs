//! Problems of a manifest, and their places.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// A problem of a manifest. Displayed as one line:
///
/// ```text
/// web.yaml:12: spec.containers[0].imagePullPolcy: unknown field, did you mean imagePullPolicy?
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub file: Arc<str>,
    /// The line, counted from 1. For a missing field, it is the line of its parent.
    pub line: Option<u64>,
    /// The field's path, such as `spec.containers[0].image`; empty for the whole file.
    pub path: String,
    pub reason: Reason,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if !self.path.is_empty() {
            write!(f, " {}:", self.path)?;
        }
        write!(f, " {}", self.reason)
    }
}

/// Why a field or a whole manifest is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The file is not UTF-8, not YAML or not JSON.
    #[error("{0}")]
    Syntax(String),
    /// The file is not the manifest of one pod: it is empty, has several documents, or is of another
    /// kind.
    #[error("{0}")]
    NotOnePod(String),
    /// The field does not exist.
    #[error("unknown field{}", did_you_mean(.suggestion))]
    UnknownField { suggestion: Option<&'static str> },
    /// The mapping has this key twice.
    #[error("duplicate key")]
    DuplicateKey,
    /// The value does not have the type of the field.
    #[error("must be {expected}, not {found}")]
    WrongType {
        expected: &'static str,
        found: String,
    },
    /// The field is missing and has no default.
    #[error("required")]
    Required,
    /// An API server would refuse the value.
    #[error("{0}")]
    Invalid(String),
    /// The value is valid but not supported here.
    #[error("not supported{}", because(.0))]
    Unsupported(Option<&'static str>),
}

fn did_you_mean(suggestion: &Option<&'static str>) -> String {
    suggestion.map_or_else(String::new, |it| format!(", did you mean {it}?"))
}

fn because(why: &Option<&'static str>) -> String {
    why.map_or_else(String::new, |it| format!(": {it}"))
}

/// The problems of a manifest that is not used. Displayed as one line for each problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub Vec<Problem>);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Refused {}

/// One step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A field of an object.
    Field(String),
    /// A key of a map, such as the name of a label.
    Key(String),
    /// An item of a list.
    Index(usize),
}

/// A problem before its line is known.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: Vec<Step>,
    pub(super) line: Option<u64>,
    pub(super) reason: Reason,
}

/// The problems that were found.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<Found>>);

impl Problems {
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(super) fn has_type_errors(&self) -> bool {
        let is_type_error = |it: &Found| matches!(it.reason, Reason::WrongType { .. });
        self.0.borrow().iter().any(is_type_error)
    }

    pub(super) fn into_found(self) -> Vec<Found> {
        self.0.into_inner()
    }
}

/// A place in the manifest, for reporting problems. After a problem, parsing continues with a
/// replacement of the value, so that all problems of a file are reported at once.
#[derive(Clone, Debug)]
pub(super) struct At<'p> {
    path: Vec<Step>,
    problems: &'p Problems,
}

impl<'p> At<'p> {
    pub(super) fn root(problems: &'p Problems) -> Self {
        Self {
            path: Vec::new(),
            problems,
        }
    }

    pub(super) fn field(&self, name: &str) -> Self {
        self.step(Step::Field(name.to_owned()))
    }

    pub(super) fn key(&self, key: &str) -> Self {
        self.step(Step::Key(key.to_owned()))
    }

    pub(super) fn index(&self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    fn step(&self, step: Step) -> Self {
        let mut path = self.path.clone();
        path.push(step);
        Self {
            path,
            problems: self.problems,
        }
    }

    pub(super) fn report(&self, reason: Reason) {
        self.report_in(None, reason);
    }

    /// Reports a problem. `line` is given if it is not that of the first value at this path.
    pub(super) fn report_in(&self, line: Option<u64>, reason: Reason) {
        self.problems.0.borrow_mut().push(Found {
            path: self.path.clone(),
            line,
            reason,
        });
    }

    pub(super) fn invalid(&self, why: impl Into<String>) {
        self.report(Reason::Invalid(why.into()));
    }

    pub(super) fn required(&self) {
        self.report(Reason::Required);
    }

    pub(super) fn unsupported(&self, why: &'static str) {
        self.report(Reason::Unsupported((!why.is_empty()).then_some(why)));
    }

    /// Reports the field as not supported if the manifest sets it.
    pub(super) fn refuse(&self, field: &str, is_set: bool, why: &'static str) {
        if is_set {
            self.field(field).unsupported(why);
        }
    }

    /// Reports a text that is empty or invalid.
    pub(super) fn check_text(&self, text: &str, check: fn(&str) -> Result<(), String>) {
        match text.is_empty() {
            true => self.required(),
            false => self.check(check(text)),
        }
    }

    /// Reports a value as invalid if its check failed.
    pub(super) fn check(&self, checked: Result<(), String>) {
        if let Err(why) = checked {
            self.invalid(why);
        }
    }

    /// The entry of `values` with the name `value`, or `default` if the field is not set. Other
    /// values are reported.
    pub(super) fn one_of<T: Copy>(
        &self,
        value: Option<&str>,
        default: T,
        values: &[(&'static str, T)],
    ) -> T {
        let Some(value) = value.filter(|it| !it.is_empty()) else {
            return default;
        };
        if let Some((_, known)) = values.iter().find(|(name, _)| *name == value) {
            return *known;
        }
        let names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
        self.invalid(format!("{value:?} is not one of {}", names.join(", ")));
        default
    }
}

/// The path as text: `spec.containers[0].image`, `metadata.labels[app]`.
pub(super) fn path_text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Key(key) => text.push_str(&format!("[{key}]")),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}
