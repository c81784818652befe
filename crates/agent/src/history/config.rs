//! Whether and where the history is recorded: the key `history`, which is `off` or a section.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pleg_text::GoDuration;
use recorder::store::Limits;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::config::check_absolute;
use crate::history_directory;

/// The smallest `maxBytes`: less would hold nothing of a large node.
const MIN_BYTES: u64 = 1 << 20;

/// The largest `maxBytes`: more makes no sense on a disk that others need.
const MAX_BYTES: u64 = 1 << 40;

/// Whether a history is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryConfig {
    /// No history is recorded.
    Off,
    /// A history is recorded in this directory.
    On(HistoryFolder),
}

/// Where the history is recorded, and how much of it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HistoryFolder {
    /// The folder of the segments.
    pub directory: PathBuf,
    /// The largest total size of the segments, in bytes.
    pub max_bytes: u64,
    /// The largest age of a segment.
    pub max_age: GoDuration,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        Self::On(HistoryFolder::default())
    }
}

impl Default for HistoryFolder {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            directory: history_directory(),
            max_bytes: limits.max_bytes,
            max_age: GoDuration(limits.max_age),
        }
    }
}

impl HistoryFolder {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            max_bytes: self.max_bytes,
            max_age: self.max_age.0,
        }
    }
}

impl HistoryConfig {
    /// Refuses values that cannot work; the error is a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self::On(folder) = self else {
            return Ok(());
        };
        check_absolute("history.directory", &folder.directory)?;
        if !(MIN_BYTES..=MAX_BYTES).contains(&folder.max_bytes) {
            return Err(format!(
                "history.maxBytes must be between {MIN_BYTES} and {MAX_BYTES}"
            ));
        }
        if folder.max_age.0 < Duration::from_secs(3600) {
            return Err(format!(
                "history.maxAge is {}: it must be at least 1h0m0s",
                folder.max_age
            ));
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for HistoryConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OffOrSection)
    }
}

struct OffOrSection;

impl<'de> Visitor<'de> for OffOrSection {
    type Value = HistoryConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("off, or a section with directory, maxBytes and maxAge")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text {
            "off" => Ok(HistoryConfig::Off),
            other => Err(E::custom(format!(
                "history is {other:?}: it must be off, or a section"
            ))),
        }
    }

    /// In YAML 1.1, `off` means false.
    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        match value {
            false => Ok(HistoryConfig::Off),
            true => Ok(HistoryConfig::default()),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(HistoryConfig::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        HistoryFolder::deserialize(MapAccessDeserializer::new(map)).map(HistoryConfig::On)
    }
}
