//! The catalogue as JSON, which the build script has made of the YAML in `causes/`: a process reads that
//! within a millisecond at its start.

/// Named lists of texts that the rules of several causes use.
pub const LISTS: &str = include_str!(concat!(env!("OUT_DIR"), "/lists.json"));

/// What supports each cause, by its id: the line and the keys of each rule.
pub const RULES: &str = include_str!(concat!(env!("OUT_DIR"), "/rules.json"));

/// Rules on lines that show that something failed, and do not show why.
pub const FAILURES: &str = include_str!(concat!(env!("OUT_DIR"), "/failures.json"));

pub(crate) const FACTS: &str = include_str!(concat!(env!("OUT_DIR"), "/facts.json"));

/// The front matter of each page, by the id of the cause.
pub(crate) const PAGES: &str = include_str!(concat!(env!("OUT_DIR"), "/pages.json"));
