//! YAML or JSON as a tree of values with their lines.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{MessageFormatter, Spanned, UserMessageFormatter};

use super::problem::{Reason, Step};

/// A value and its line.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: u64,
    pub(super) value: Value,
}

/// A value of YAML or JSON.
#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// The entries, in the order of the file. A key may occur twice.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The line of the key, which may be above that of the value.
    pub(super) line: u64,
    pub(super) node: Node,
}

/// Reads the single document of a file; `None` if there is none.
pub(super) fn read(text: &str) -> Result<Option<Node>, (Option<u64>, Reason)> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        legacy_octal_numbers: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let documents = serde_saphyr::from_multiple_with_options::<Spanned<Value>>(text, options);
    let documents = documents.map_err(|error| {
        let line = error.location().map(|it| it.line()).filter(|it| *it > 0);
        let message = UserMessageFormatter.format_message(error.without_snippet());
        (line, Reason::Syntax(message.into_owned()))
    })?;
    // Comments alone before or after `---` are not a document.
    let documents = documents.into_iter().map(Node::from);
    let mut documents = documents.filter(|it| !matches!(it.value, Value::Null));
    let first = documents.next();
    match documents.next() {
        None => Ok(first),
        Some(second) => Err((
            Some(second.line),
            Reason::NotOnePod(
                "a second document begins here: a manifest holds one pod, and each pod needs a \
                 file of its own"
                    .to_owned(),
            ),
        )),
    }
}

impl Node {
    /// The value of a field; the first if there are several.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        Some(&self.entry(key)?.node)
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|it| it.key == key),
            _ => None,
        }
    }

    /// The line of the value at a path, or of its nearest ancestor that exists.
    pub(super) fn line_of(&self, path: &[Step]) -> u64 {
        let (mut node, mut line) = (self, self.line);
        for step in path {
            let next = match (step, &node.value) {
                (Step::Field(key) | Step::Key(key), _) => {
                    node.entry(key).map(|it| (&it.node, it.line))
                }
                (Step::Index(index), Value::List(items)) => {
                    items.get(*index).map(|it| (it, it.line))
                }
                (Step::Index(_), _) => None,
            };
            let Some(next) = next else { break };
            (node, line) = next;
        }
        line
    }
}

impl Value {
    /// A description of the value, for messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(it) => format!("the boolean {it}"),
            Self::Signed(it) => format!("the number {it}"),
            Self::Unsigned(it) => format!("the number {it}"),
            Self::Float(it) => format!("the number {it}"),
            Self::Text(it) if it.chars().count() <= 40 => format!("the string {it:?}"),
            Self::Text(_) => "a string".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a mapping".to_owned(),
        }
    }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        Self {
            line: spanned.referenced.line(),
            value: spanned.value,
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, it: bool) -> Result<Value, E> {
        Ok(Value::Bool(it))
    }

    fn visit_i64<E: Error>(self, it: i64) -> Result<Value, E> {
        Ok(Value::Signed(it))
    }

    fn visit_u64<E: Error>(self, it: u64) -> Result<Value, E> {
        Ok(Value::Unsigned(it))
    }

    fn visit_f64<E: Error>(self, it: f64) -> Result<Value, E> {
        Ok(Value::Float(it))
    }

    fn visit_str<E: Error>(self, it: &str) -> Result<Value, E> {
        Ok(Value::Text(it.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Value>>()? {
            list.push(item.into());
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<Value>>()? {
            let line = key.referenced.line();
            // Kubernetes, too, reads `1: x` as `"1": x`.
            let key = match key.value {
                Value::Text(it) => it,
                Value::Bool(it) => it.to_string(),
                Value::Signed(it) => it.to_string(),
                Value::Unsigned(it) => it.to_string(),
                Value::Float(it) => it.to_string(),
                Value::Null | Value::List(_) | Value::Map(_) => {
                    return Err(A::Error::custom("a key must be a string"));
                }
            };
            let node = entries.next_value::<Spanned<Value>>()?.into();
            map.push(Entry { key, line, node });
        }
        Ok(Value::Map(map))
    }
}
