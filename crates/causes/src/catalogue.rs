//! The catalogue as JSON, which the build script makes from the YAML in `causes/`.

/// Named lists of texts, which the rules of several causes share.
pub const LISTS: &str = include_str!(concat!(env!("OUT_DIR"), "/lists.json"));

/// The rules of each cause, by its id: the line and the keys of each rule.
pub const RULES: &str = include_str!(concat!(env!("OUT_DIR"), "/rules.json"));

/// Rules for lines that show that something failed, but not why.
pub const FAILURES: &str = include_str!(concat!(env!("OUT_DIR"), "/failures.json"));

pub(crate) const FACTS: &str = include_str!(concat!(env!("OUT_DIR"), "/facts.json"));

/// The front matter of each page, by the id of the cause.
pub(crate) const PAGES: &str = include_str!(concat!(env!("OUT_DIR"), "/pages.json"));
