//! What is wrong with a manifest, and where.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// One thing that is wrong with a manifest. Displayed as one line:
///
/// ```text
/// web.yaml:12: spec.containers[0].imagePullPolcy: unknown field, did you mean imagePullPolicy?
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as its reader named it.
    pub file: Arc<str>,
    /// The line, counted from 1. A field that is missing is missed in the line of its parent.
    pub line: Option<u64>,
    /// The field's path, such as `spec.containers[0].image`; empty for the whole file.
    pub path: String,
    /// What is wrong with it.
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

/// What is wrong with a field, or with a whole manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The file is not UTF-8, not YAML or not JSON.
    #[error("{0}")]
    Syntax(String),
    /// It is no manifest of a pod: empty, several documents, or of another kind.
    #[error("{0}")]
    NotOnePod(String),
    /// No pod has such a field.
    #[error("unknown field{}", did_you_mean(.suggestion))]
    UnknownField {
        /// The field that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// The same key stands in the mapping before.
    #[error("duplicate key")]
    DuplicateKey,
    /// The value is of another type than the field.
    #[error("must be {expected}, not {found}")]
    WrongType {
        /// The type of the field.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// The field has no default.
    #[error("required")]
    Required,
    /// An API server would refuse the value.
    #[error("{0}")]
    Invalid(String),
    /// Valid, and more than can be done here.
    #[error("not supported{}", because(.0))]
    Unsupported(Option<&'static str>),
}

fn did_you_mean(suggestion: &Option<&'static str>) -> String {
    suggestion.map_or_else(String::new, |it| format!(", did you mean {it}?"))
}

fn because(why: &Option<&'static str>) -> String {
    why.map_or_else(String::new, |it| format!(": {it}"))
}

/// A manifest that is not used, with all that is wrong with it. Displayed as one line for each
/// problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub Vec<Problem>);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

/// One step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A field of an object.
    Field(String),
    /// A key that the manifest's author chose, such as a label's.
    Key(String),
    /// An item of a list.
    Index(usize),
}

/// A problem whose line is looked up once all are known.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: Vec<Step>,
    pub(super) line: Option<u64>,
    pub(super) reason: Reason,
}

/// All that was found wrong so far.
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

/// A place in the manifest, to which problems are reported. The value there goes on being read
/// with a stand-in, so that all problems of a file are reported at once.
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

    /// Reports a problem whose line is not that of the first value at this path.
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

    /// Reports whatever is wrong with a value.
    pub(super) fn check(&self, checked: Result<(), String>) {
        if let Err(why) = checked {
            self.invalid(why);
        }
    }

    /// One of the values that the field can have; the first of them by default.
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

/// The path as people write it: `spec.containers[0].image`, `metadata.labels[app]`.
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
