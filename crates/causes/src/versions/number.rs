//! Versions as people and packagers write them.

use std::cmp::Ordering;

use serde::{Deserialize, Deserializer};

/// A version with three numbers, or a release candidate of such a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    /// The number of a release candidate. A candidate is older than its release.
    candidate: Option<u64>,
}

impl Version {
    /// Reads `1.1.5+ds1-1+deb12u1`, `v1.0.0-rc93`, `1.0.0~rc93+ds1-5`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = without_epoch(text.trim_start_matches('v'));
        let (numbers, rest) = match text.find(|char: char| char != '.' && !char.is_ascii_digit()) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let mut parts = numbers.split('.').map(|part| part.parse::<u64>().ok());
        let numbers = [
            parts.next()??,
            parts.next()??,
            parts.next().flatten().unwrap_or(0),
        ];
        let candidate = rest
            .strip_prefix(['-', '~'])
            .and_then(|rest| rest.strip_prefix("rc"))
            .and_then(|rest| first_number(rest.trim_start_matches('.')));
        Some(Self { numbers, candidate })
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let malformed = || serde::de::Error::custom(format!("{text:?} is not a version"));
        Self::parse(&text).ok_or_else(malformed)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let last = |candidate: Option<u64>| candidate.unwrap_or(u64::MAX);
        self.numbers
            .cmp(&other.numbers)
            .then(last(self.candidate).cmp(&last(other.candidate)))
    }
}

/// A package's version may have an epoch in front: `1:1.2.3`.
pub(super) fn without_epoch(text: &str) -> &str {
    text.split_once(':').map_or(text, |(_, rest)| rest)
}

pub(super) fn first_number(text: &str) -> Option<u64> {
    numbers(text).first().copied()
}

/// All numbers in a text, by which packages of one distribution are compared: those of
/// `219-62.el7_6.8` are 219, 62, 7, 6, 8.
pub(super) fn numbers(text: &str) -> Vec<u64> {
    text.split(|char: char| !char.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect()
}
