//! Deserializes a tree into a Kubernetes type, as strictly as an API server. Unknown fields,
//! duplicate keys and values of a wrong type are reported, all at once and with their places.
//!
//! The generated types ignore unknown fields, but they pass the names of all their fields to the
//! deserializer. This deserializer compares the manifest with them. After a value of a wrong type,
//! it continues with a default.

use std::fmt;
use std::vec;

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};

use super::document::{Entry, Node, Value};
use super::problem::{At, Reason};

/// Deserializes the tree. The value can be used only if nothing was reported to `at`. `None` if
/// there is no value.
pub(super) fn decode<T: DeserializeOwned>(node: &Node, at: At<'_>) -> Option<T> {
    let root = Strict {
        node,
        at: at.clone(),
    };
    T::deserialize(root).map_err(|error| error.report(&at)).ok()
}

/// Why there is no deserialized value.
#[derive(Debug)]
enum NoValue {
    /// A problem that is already reported.
    Reported,
    /// The message of a type that refuses the value. It is yet to be reported with the value's place.
    Because(String),
}

impl NoValue {
    fn report(self, at: &At<'_>) -> Self {
        if let Self::Because(words) = self {
            at.invalid(words);
        }
        Self::Reported
    }
}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reported => f.write_str("reported"),
            Self::Because(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for NoValue {}

impl de::Error for NoValue {
    fn custom<T: fmt::Display>(words: T) -> Self {
        Self::Because(words.to_string())
    }
}

/// A value at its place.
struct Strict<'n, 'p> {
    node: &'n Node,
    at: At<'p>,
}

impl<'n, 'p> Strict<'n, 'p> {
    fn wrong_type(&self, expected: &'static str) {
        self.at.report(Reason::WrongType {
            expected,
            found: self.node.value.describe(),
        });
    }

    fn integer(&self) -> Option<i64> {
        match self.node.value {
            Value::Signed(it) => Some(it),
            Value::Unsigned(it) => i64::try_from(it).ok(),
            // JSON has only one type of number.
            Value::Float(it) if it.fract() == 0.0 && it.abs() < 9e15 => Some(it as i64),
            _ => None,
        }
    }

    /// The items of a list. A value that is not a list is reported, and has no items.
    fn items(self) -> SeqDeserializer<impl Iterator<Item = Strict<'n, 'p>>, NoValue> {
        let items = match &self.node.value {
            Value::List(items) => items.as_slice(),
            _ => {
                self.wrong_type("a list");
                &[]
            }
        };
        let items = items.iter().enumerate();
        SeqDeserializer::new(items.map(move |(index, node)| Strict {
            node,
            at: self.at.index(index),
        }))
    }

    /// The entries of a mapping. A value that is not a mapping is reported, and has no entries.
    /// Duplicate keys and, if `fields` is given, other keys are reported and left out.
    fn entries<'de>(
        &self,
        fields: Option<&'static [&'static str]>,
    ) -> MapDeserializer<'de, vec::IntoIter<(&'n str, Self)>, NoValue> {
        let entries = match &self.node.value {
            Value::Map(entries) => entries.as_slice(),
            _ => {
                self.wrong_type("a mapping");
                &[]
            }
        };
        let mut kept: Vec<(&str, Self)> = Vec::new();
        for Entry { key, line, node } in entries {
            let at = match fields {
                Some(_) => self.at.field(key),
                None => self.at.key(key),
            };
            if kept.iter().any(|(it, _)| it == key) {
                at.report_in(Some(*line), Reason::DuplicateKey);
            } else if let Some(fields) = fields
                && !fields.contains(&key.as_str())
            {
                let suggestion = nearest(key, fields);
                at.report_in(Some(*line), Reason::UnknownField { suggestion });
            } else {
                kept.push((key, Self { node, at }));
            }
        }
        MapDeserializer::new(kept.into_iter())
    }
}

impl<'de> IntoDeserializer<'de, NoValue> for Strict<'_, '_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Strict<'_, '_> {
    type Error = NoValue;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        let at = self.at.clone();
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(it) => visitor.visit_bool(*it),
            Value::Signed(it) => visitor.visit_i64(*it),
            Value::Unsigned(it) => visitor.visit_u64(*it),
            Value::Float(it) => visitor.visit_f64(*it),
            Value::Text(it) => visitor.visit_str(it),
            Value::List(_) => visitor.visit_seq(self.items()),
            Value::Map(_) => visitor.visit_map(self.entries(None)),
        }
        .map_err(|it| it.report(&at))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        let Value::Bool(it) = self.node.value else {
            self.wrong_type("true or false");
            return visitor.visit_bool(false);
        };
        visitor.visit_bool(it)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        let it = self.integer().and_then(|it| i32::try_from(it).ok());
        visitor.visit_i32(it.unwrap_or_else(|| {
            self.wrong_type("a whole number of at most 32 bits");
            0
        }))
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_i64(self.integer().unwrap_or_else(|| {
            self.wrong_type("a whole number of at most 64 bits");
            0
        }))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        let text = match &self.node.value {
            Value::Text(it) => it.as_str(),
            Value::Bool(_) | Value::Signed(_) | Value::Unsigned(_) | Value::Float(_) => {
                self.wrong_type("a string in quotes");
                ""
            }
            _ => {
                self.wrong_type("a string");
                ""
            }
        };
        visitor
            .visit_str(text)
            .map_err(|it: NoValue| it.report(&self.at))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        self.deserialize_string(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        match self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        let is_scalar = !matches!(
            self.node.value,
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_)
        );
        if name == "Quantity" && !is_scalar {
            self.wrong_type("a quantity such as 500m or 64Mi");
            let stand_in: StrDeserializer<'_, NoValue> = "0".into_deserializer();
            return visitor.visit_newtype_struct(stand_in);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_seq(self.items())
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_map(self.entries(None))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        visitor.visit_map(self.entries(Some(fields)))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        tuple tuple_struct enum identifier
    }
}

/// The field that was probably meant: the one with the most similar name, if it is similar enough.
fn nearest(name: &str, fields: &'static [&'static str]) -> Option<&'static str> {
    let name = name.to_lowercase();
    let distance = |field: &str| strsim::osa_distance(&name, &field.to_lowercase());
    fields
        .iter()
        .copied()
        .map(|field| (distance(field), field))
        .min()
        .filter(|(distance, field)| *distance <= 1 + field.len() / 5)
        .map(|(_, field)| field)
}
