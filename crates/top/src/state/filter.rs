//! Filters rows by a text that the reader typed, with the syntax of k9s.
//!
//! ```
//! use top::state::filter::Filter;
//!
//! let filter = Filter::new("!Web");
//! assert!(!filter.shows(["default/web-0"]));
//! assert!(filter.shows(["default/db"]));
//! ```

use std::fmt;

/// A text that a row must contain, or with a leading `!` must not contain. Case does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    is_inverse: bool,
}

impl Filter {
    /// Parses a typed filter.
    pub fn new(typed: &str) -> Self {
        let (text, is_inverse) = match typed.strip_prefix('!') {
            Some(text) => (text, true),
            None => (typed, false),
        };
        Self {
            text: text.to_lowercase(),
            is_inverse,
        }
    }

    /// Whether every row is shown.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether a row with these texts is shown.
    pub fn shows<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        let mut texts = texts.into_iter();
        self.is_empty()
            || texts.any(|text| text.to_lowercase().contains(&self.text)) != self.is_inverse
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_inverse { "!" } else { "" }, self.text)
    }
}
