//! Deserializes a tree into a Kubernetes type, as strictly as an API server. Unknown fields,
//! duplicate keys and values of a wrong type are reported, all at once and with their places.
//!
//! The generated types ignore unknown fields, but they pass the names of all their fields to the
//! deserializer, which compares them here. After a value of a wrong type it continues with a
//! default.

use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor,
    value::StrDeserializer,
};

use super::document::{Entry, Node, Value};
use super::problem::{At, Reason};

/// Deserializes the tree. The value can be used only if nothing was reported to `at`. `None` if
/// there is no value.
pub(super) fn decode<T: DeserializeOwned>(node: &Node, at: At<'_>) -> Option<T> {
    T::deserialize(Strict {
        node,
        at: at.clone(),
    })
    .map_err(|error| error.report(&at))
    .ok()
}

/// Why there is no value.
#[derive(Debug)]
enum Stopped {
    /// The problem is already reported.
    Reported,
    /// The message of a type, which is reported with the place of the value.
    Because(String),
}

impl Stopped {
    fn report(self, at: &At<'_>) -> Self {
        if let Self::Because(words) = self {
            at.invalid(words);
        }
        Self::Reported
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reported => f.write_str("reported"),
            Self::Because(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for Stopped {}

impl de::Error for Stopped {
    fn custom<T: fmt::Display>(words: T) -> Self {
        Self::Because(words.to_string())
    }
}

/// A value at its place.
struct Strict<'n, 'p> {
    node: &'n Node,
    at: At<'p>,
}

impl Strict<'_, '_> {
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
}

impl<'de> Deserializer<'de> for Strict<'_, '_> {
    type Error = Stopped;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        let at = self.at.clone();
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(it) => visitor.visit_bool(*it),
            Value::Signed(it) => visitor.visit_i64(*it),
            Value::Unsigned(it) => visitor.visit_u64(*it),
            Value::Float(it) => visitor.visit_f64(*it),
            Value::Text(it) => visitor.visit_str(it),
            Value::List(items) => visitor.visit_seq(Items::new(items, self.at)),
            Value::Map(entries) => visitor.visit_map(Entries::new(entries, None, self.at)),
        }
        .map_err(|it| it.report(&at))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        match &self.node.value {
            Value::Bool(it) => visitor.visit_bool(*it),
            _ => {
                self.wrong_type("true or false");
                visitor.visit_bool(false)
            }
        }
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        match self.integer().and_then(|it| i32::try_from(it).ok()) {
            Some(it) => visitor.visit_i32(it),
            None => {
                self.wrong_type("a whole number of at most 32 bits");
                visitor.visit_i32(0)
            }
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        match self.integer() {
            Some(it) => visitor.visit_i64(it),
            None => {
                self.wrong_type("a whole number of at most 64 bits");
                visitor.visit_i64(0)
            }
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
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
            .map_err(|it: Stopped| it.report(&self.at))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        self.deserialize_string(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        match self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stopped> {
        let is_scalar = !matches!(
            self.node.value,
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_)
        );
        if name == "Quantity" && !is_scalar {
            self.wrong_type("a quantity such as 500m or 64Mi");
            let stand_in: StrDeserializer<'_, Stopped> = "0".into_deserializer();
            return visitor.visit_newtype_struct(stand_in);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        match &self.node.value {
            Value::List(items) => visitor.visit_seq(Items::new(items, self.at)),
            _ => {
                self.wrong_type("a list");
                visitor.visit_seq(Items::new(&[], self.at))
            }
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        match &self.node.value {
            Value::Map(entries) => visitor.visit_map(Entries::new(entries, None, self.at)),
            _ => {
                self.wrong_type("a mapping");
                visitor.visit_map(Entries::new(&[], None, self.at))
            }
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stopped> {
        match &self.node.value {
            Value::Map(entries) => visitor.visit_map(Entries::new(entries, Some(fields), self.at)),
            _ => {
                self.wrong_type("a mapping");
                visitor.visit_map(Entries::new(&[], Some(fields), self.at))
            }
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        tuple tuple_struct enum identifier
    }
}

/// The items of a list.
struct Items<'n, 'p> {
    items: std::iter::Enumerate<std::slice::Iter<'n, Node>>,
    at: At<'p>,
}

impl<'n, 'p> Items<'n, 'p> {
    fn new(items: &'n [Node], at: At<'p>) -> Self {
        Self {
            items: items.iter().enumerate(),
            at,
        }
    }
}

impl<'de> de::SeqAccess<'de> for Items<'_, '_> {
    type Error = Stopped;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Stopped> {
        let Some((index, node)) = self.items.next() else {
            return Ok(None);
        };
        let at = self.at.index(index);
        seed.deserialize(Strict { node, at }).map(Some)
    }
}

/// The known entries of a mapping, without duplicates.
struct Entries<'n, 'p> {
    entries: Vec<&'n Entry>,
    next: usize,
    is_object: bool,
    at: At<'p>,
}

impl<'n, 'p> Entries<'n, 'p> {
    /// Reports and removes unknown and duplicate entries.
    fn new(
        entries: &'n [Entry],
        fields: Option<&'static [&'static str]>,
        at: At<'p>,
    ) -> Entries<'n, 'p> {
        let mut kept: Vec<&Entry> = Vec::new();
        for entry in entries {
            let place = match fields {
                Some(_) => at.field(&entry.key),
                None => at.key(&entry.key),
            };
            if kept.iter().any(|it| it.key == entry.key) {
                place.report_in(Some(entry.line), Reason::DuplicateKey);
                continue;
            }
            match fields {
                Some(fields) if !fields.contains(&entry.key.as_str()) => {
                    let suggestion = nearest(&entry.key, fields);
                    place.report_in(Some(entry.line), Reason::UnknownField { suggestion });
                }
                _ => kept.push(entry),
            }
        }
        Self {
            entries: kept,
            next: 0,
            is_object: fields.is_some(),
            at,
        }
    }
}

impl<'de> de::MapAccess<'de> for Entries<'_, '_> {
    type Error = Stopped;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Stopped> {
        let Some(entry) = self.entries.get(self.next) else {
            return Ok(None);
        };
        let key: StrDeserializer<'_, Stopped> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stopped> {
        let Some(entry) = self.entries.get(self.next) else {
            return Err(de::Error::custom("a value without a key"));
        };
        self.next += 1;
        let at = match self.is_object {
            true => self.at.field(&entry.key),
            false => self.at.key(&entry.key),
        };
        let node = &entry.node;
        seed.deserialize(Strict { node, at })
    }
}

/// The field that was probably meant, by the distance of its name.
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
