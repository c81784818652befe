//! What is wrong with a configuration, in the words of its author and not in those of the Rust types.

use std::borrow::Cow;

use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

/// What is wrong with a file, and the line. The library prints the message twice, above the line and
/// below it, so the list of keys is not part of the message: it is added once, at the end.
pub fn explain(error: &Error) -> String {
    let said = error.render_with_formatter(&Words);
    // The caller has named the file.
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    let said = said.replacen(" --> <input>:", " --> ", 1);
    match error.without_snippet() {
        Error::SerdeUnknownField { expected, .. } => {
            format!("{}\nThe keys are {}", said.trim_end(), expected.join(", "))
        }
        _ => said,
    }
}

/// The message that describes an error. The library adds the line.
struct Words;

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
            Error::SerdeUnknownField { field, .. } => format!("{field} is not a key"),
            Error::InvalidScalar { ty: "boolean", .. } => "true or false is expected".into(),
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
            ("relistperiod: 1s", 1, "relistperiod is not a key"),
            ("maxMessageSize: null", 1, "a positive whole number"),
            ("maxMessageSize: big", 1, "a positive whole number"),
            ("diagnosis: {checkUp: maybe}", 1, "true or false"),
            ("relistPeriod: [1s]", 1, "neither a list nor a mapping"),
            ("hello", 1, "lines of the form `key: value`"),
            (
                "relistPeriod: 1s\n---\nrelistPeriod: 2s",
                3,
                "a second document",
            ),
        ] {
            let error = serde_saphyr::from_str::<AgentConfig>(text).unwrap_err();
            let said = explain(&error);
            assert!(said.contains(&format!("line {line} ")), "{text:?}: {said}");
            assert!(said.contains(words), "{text:?}: {said}");
            for rust in [
                "<input>",
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
    #[test]
    fn after_a_wrong_key_the_keys_of_its_section_are_listed_once() {
        for (text, key, keys) in [
            ("relistperiod: 1s\n", "relistperiod", "relistPeriod"),
            ("diagnosis:\n  dir: /x\n", "dir", "directory, checkUp"),
        ] {
            let error = serde_saphyr::from_str::<AgentConfig>(text).unwrap_err();
            let said = explain(&error);
            assert_eq!(said.matches(keys).count(), 1, "{said}");
            assert!(said.contains(&format!("{key} is not a key\n")), "{said}");
            let last = said.lines().last().unwrap();
            assert!(last.starts_with("The keys are "), "{said}");
        }
    }
}
