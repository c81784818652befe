//! What is wrong with a configuration, in words for who writes one rather than for who
//! reads it in Rust.

use std::borrow::Cow;

use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

/// Says what is wrong; where it is, the library shows.
pub struct Words;

impl MessageFormatter for Words {
    fn format_message<'a>(&self, error: &'a Error) -> Cow<'a, str> {
        let words = match error {
            Error::NullIntoString { .. } => {
                "there is no value; leave the key out to have its default".into()
            }
            Error::DuplicateMappingKey { key: Some(key), .. } => {
                format!("{key} is given a second time")
            }
            Error::DuplicateMappingKey { .. } => "a key is given a second time".into(),
            Error::SerdeUnknownField {
                field, expected, ..
            } => format!("{field} is not a key; the keys are {}", expected.join(", ")),
            // Whatever is no text here is of this kind.
            Error::InvalidScalar { .. } => {
                "a positive whole number of at most 19 digits is expected".into()
            }
            Error::Unexpected {
                expected: "string scalar",
                ..
            } => "one value is expected, neither a list nor a mapping".into(),
            Error::Unexpected {
                expected: "mapping start",
                ..
            } => "lines of the form `key: value` are expected".into(),
            Error::MultipleDocuments { .. } => {
                "a second document begins here, and only one is expected".into()
            }
            other => return UserMessageFormatter.format_message(other),
        };
        Cow::Owned(words)
    }
}

#[cfg(test)]
mod tests {
    use crate::AgentConfig;

    use super::*;

    #[test]
    fn what_is_wrong_is_said_without_a_word_of_rust() {
        for (text, line, words) in [
            (
                "relistPeriod: null",
                1,
                "there is no value; leave the key out",
            ),
            ("listen: 127.0.0.1:1\nrelistPeriod:", 2, "there is no value"),
            (
                "relistPeriod: 1s\nrelistPeriod: 2s",
                2,
                "relistPeriod is given a second time",
            ),
            (
                "relistperiod: 1s",
                1,
                "relistperiod is not a key; the keys are",
            ),
            ("maxMessageSize: null", 1, "a positive whole number"),
            ("maxMessageSize: big", 1, "a positive whole number"),
            ("relistPeriod: [1s]", 1, "neither a list nor a mapping"),
            ("hello", 1, "lines of the form `key: value`"),
            (
                "relistPeriod: 1s\n---\nrelistPeriod: 2s",
                3,
                "a second document",
            ),
        ] {
            let error = serde_saphyr::from_str::<AgentConfig>(text).unwrap_err();
            let said = error.render_with_formatter(&Words);
            assert!(said.contains(&format!("line {line} ")), "{text:?}: {said}");
            assert!(said.contains(words), "{text:?}: {said}");
            for rust in [
                "Option",
                "deserialize",
                "u64",
                "Policy",
                "from_str",
                "scalar",
            ] {
                assert!(!said.contains(rust), "{text:?}: {said}");
            }
        }
    }
}
