//! Parses Prometheus' exposition text.

use std::collections::{BTreeMap, BTreeSet};

/// A family of metrics: type, help, and the label sets of its samples.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Family {
    pub kind: String,
    pub help: String,
    pub series: BTreeSet<String>,
}

/// Parses exposition text, without values.
pub fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::<String, Family>::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (of, help) = rest.split_once(' ').unwrap();
            name = of.to_owned();
            families.entry(name.clone()).or_default().help = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (of, kind) = rest.split_once(' ').unwrap();
            families.entry(of.to_owned()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#') {
            let (series, _) = line.rsplit_once(' ').unwrap();
            assert!(series.starts_with(&name), "{line}");
            let family = families.get_mut(&name).unwrap();
            family.series.insert(series.to_owned());
        }
    }
    families
}

/// The value of a series.
pub fn value(text: &str, series: &str) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let (_, value) = lines.find(|(name, _)| *name == series)?;
    Some(value.parse().unwrap())
}
