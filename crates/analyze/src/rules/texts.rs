//! Sets of texts in a rule, and the named lists that several rules share.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use memchr::memmem::Finder;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

pub(super) type Lists = BTreeMap<String, Vec<String>>;

/// Texts of a rule: `[one, two]`, `$aList`, or both: `[$aList, another]`.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    texts: Vec<String>,
    /// The searches for the texts, prepared once: a log may repeat one line a million times.
    finders: Vec<Finder<'static>>,
}

impl Deref for Texts {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.texts
    }
}

impl Texts {
    /// Replaces the names of lists with their texts. The error is a name without a list.
    pub(super) fn resolve(&mut self, lists: &Lists) -> Result<(), String> {
        let mut all = Vec::new();
        for text in std::mem::take(&mut self.texts) {
            match text.strip_prefix('$') {
                None => all.push(text),
                // A text that begins with a dollar is written with two.
                Some(rest) if rest.starts_with('$') => all.push(rest.to_owned()),
                Some(name) => match lists.get(name) {
                    Some(texts) => all.extend(texts.iter().cloned()),
                    None => return Err(name.to_owned()),
                },
            }
        }
        *self = all.into();
        Ok(())
    }

    /// Whether one of the texts occurs in this one. An empty set allows every text.
    pub(crate) fn allow(&self, text: &[u8]) -> bool {
        self.is_empty() || self.are_in(text)
    }

    pub(crate) fn are_in(&self, text: &[u8]) -> bool {
        self.finders.iter().any(|it| it.find(text).is_some())
    }

    pub(crate) fn are_all_in(&self, text: &[u8]) -> bool {
        self.finders.iter().all(|it| it.find(text).is_some())
    }
}

impl From<Vec<String>> for Texts {
    fn from(texts: Vec<String>) -> Self {
        let finders = texts.iter().map(|it| Finder::new(it).into_owned());
        Self {
            finders: finders.collect(),
            texts,
        }
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMore;

        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of texts, or $NAME of a list")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts::from(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Texts, A::Error> {
                let texts = Vec::deserialize(SeqAccessDeserializer::new(items))?;
                Ok(Texts::from(texts))
            }
        }

        deserializer.deserialize_any(OneOrMore)
    }
}
