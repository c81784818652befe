//! Rules on rows of tables and on figures: cells, and the limits for them.

use std::collections::BTreeMap;
use std::fmt;

use causes::Cause;
use causes::facts::facts;
use causes::finding::Confidence;
use causes::versions::{Fault, has_fault};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use super::{Rules, Texts};
use crate::evidence::Evidence;
use crate::table::{Cell, TableRow, cells_of};

/// A rule for rows of a table, or for a figure.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TableRule {
    #[serde(alias = "figure")]
    pub(super) table: String,
    /// Whether the rule is `on: figure`.
    #[serde(skip)]
    pub(super) is_figure: bool,
    /// The limits of a figure, which only a rule with `on: figure` has.
    least: Option<Limit>,
    most: Option<Limit>,
    #[serde(default)]
    pub(super) cells: BTreeMap<String, Condition>,
    /// How sure the rule is; `None` for a rule that supports no cause.
    pub(super) confidence: Option<Confidence>,
    /// What the row shows, in a sentence without a full stop; cells are filled in.
    says: String,
    /// The headline that replaces the title, with cells filled in; used only if all its cells are known.
    headline: Option<String>,
    /// What to do with this node first, with cells filled in; used only if all its cells are known.
    advice: Option<String>,
    /// Whether the evidence counts only beside other evidence for the cause.
    #[serde(default)]
    beside: bool,
}

/// What a cell must contain. A row without the cell does not match if `least`, `above`, `is`, `any` or
/// `fault` is set; a row with the cell does not match if `absent` is set.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Condition {
    least: Option<Limit>,
    above: Option<Limit>,
    most: Option<Limit>,
    below: Option<Limit>,
    #[serde(default)]
    absent: bool,
    #[serde(default)]
    pub(super) is: Texts,
    #[serde(default)]
    pub(super) any: Texts,
    #[serde(default)]
    pub(super) without: Texts,
    fault: Option<Fault>,
}

/// A number, or `$name` of a limit in `facts.yaml`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit(f64);

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrName;

        impl Visitor<'_> for NumberOrName {
            type Value = Limit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or $NAME of a limit in facts.yaml")
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Limit, E> {
                Ok(Limit(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Limit, E> {
                Ok(Limit(number as f64))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Limit, E> {
                Ok(Limit(number as f64))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Limit, E> {
                let name = text.strip_prefix('$');
                let named = name.and_then(|name| facts().limits.get(name));
                named.copied().map(Limit).ok_or_else(|| {
                    E::custom(format!(
                        "{text:?} is neither a number nor a limit in facts.yaml"
                    ))
                })
            }
        }

        deserializer.deserialize_any(NumberOrName)
    }
}

impl Condition {
    fn holds(&self, cell: Option<&Cell>) -> bool {
        let is = |limit: Option<Limit>, of: fn(&f64, &f64) -> bool, number: &f64| {
            limit.is_none_or(|Limit(limit)| of(number, &limit))
        };
        match cell {
            Some(_) if self.absent => false,
            Some(Cell::Number(number)) => {
                is(self.least, f64::ge, number)
                    && is(self.above, f64::gt, number)
                    && is(self.most, f64::le, number)
                    && is(self.below, f64::lt, number)
            }
            Some(Cell::Text(text)) => {
                (self.is.is_empty() || self.is.iter().any(|pattern| is_like(text, pattern)))
                    && self.any.allow(text.as_bytes())
                    && !self.without.are_in(text.as_bytes())
                    && self
                        .fault
                        .is_none_or(|fault| has_fault(fault, text) == Some(true))
            }
            None => {
                let needs_number = self.least.is_some() || self.above.is_some();
                let needs_text = !self.is.is_empty() || !self.any.is_empty();
                !needs_number && !needs_text && self.fault.is_none()
            }
        }
    }
}

/// Whether a text is like a pattern, in which each `*` stands for any text.
pub(crate) fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let begin = parts.next().unwrap_or_default();
    let (Some(mut rest), end) = (text.strip_prefix(begin), parts.next_back()) else {
        return false;
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    end.map_or(rest.is_empty(), |end| rest.ends_with(end))
}

/// The names of the cells in a sentence.
fn filled(sentence: &str) -> impl Iterator<Item = &str> {
    let names = sentence.split('{').skip(1);
    names.filter_map(|rest| Some(rest.split_once('}')?.0))
}

impl TableRule {
    /// Puts the limits of a figure into its cell, and checks the rule. The error is a sentence.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        let has_limits = self.least.is_some() || self.most.is_some();
        if self.is_figure && !self.cells.is_empty() {
            return Err("a figure has no `cells`: set `least` or `most`".to_owned());
        }
        if !self.is_figure && has_limits {
            return Err("the limits of a table belong to one of its `cells`".to_owned());
        }
        if self.is_figure {
            let value = Condition {
                least: self.least,
                most: self.most,
                ..Condition::default()
            };
            self.cells = BTreeMap::from([("value".to_owned(), value)]);
        }
        self.check()
    }

    /// Checks that the table exists and has the cells that the rule uses. The error is a sentence.
    fn check(&self) -> Result<(), String> {
        let (name, is_figure) = (&self.table, self.is_figure);
        let Some(cells) = cells_of(name) else {
            let kind = if is_figure { "figure" } else { "table" };
            let names = facts().tables.iter();
            let names = names.filter(|(_, cells)| (*cells == &["value"]) == is_figure);
            let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
            return Err(format!(
                "there is no {kind} {name:?}; there are {}",
                names.join(", ")
            ));
        };
        if is_figure != (cells == ["value"]) {
            let on = if is_figure { "table" } else { "figure" };
            return Err(format!(
                "{name} is a {on}: write `on: {on}` and `{on}: {name}`"
            ));
        }
        let sentences = [
            Some(&self.says),
            self.headline.as_ref(),
            self.advice.as_ref(),
        ];
        let filled = sentences.into_iter().flatten().flat_map(|it| filled(it));
        let mut named = self.cells.keys().map(String::as_str).chain(filled);
        match named.find(|name| !cells.iter().any(|cell| cell == name)) {
            Some(cell) => Err(format!(
                "the table {name} has no cell {cell:?}; it has {}",
                cells.join(", ")
            )),
            None => Ok(()),
        }
    }

    fn holds(&self, row: &TableRow) -> bool {
        let mut cells = self.cells.iter();
        self.table == row.table && cells.all(|(name, cell)| cell.holds(row.cell(name)))
    }

    fn evidence(&self, cause: Cause, row: &TableRow) -> Evidence {
        let confidence = self.confidence.unwrap_or(Confidence::Low);
        let if_filled = |sentence: &Option<String>| {
            let sentence = sentence.as_deref();
            let known = sentence.filter(|it| filled(it).all(|name| row.cell(name).is_some()));
            known.map(|it| row.fill(it))
        };
        let evidence = Evidence::new(cause, confidence, row.line, row.fill(&self.says));
        Evidence {
            culprit: row.culprit(),
            headline: if_filled(&self.headline),
            advice: if_filled(&self.advice),
            is_beside: self.beside,
            ..evidence
        }
    }
}

/// What a row shows.
#[derive(Debug)]
pub(crate) enum Shown {
    /// The row supports causes.
    Evidence(Vec<Evidence>),
    /// The row shows that something failed.
    Failure(String),
    Nothing,
}

impl Rules {
    /// The evidence in a row.
    pub fn evidence(&self, row: &TableRow) -> Vec<Evidence> {
        let rules = self.tables.iter().filter(|of| of.rule.holds(row));
        rules.map(|of| of.rule.evidence(of.cause, row)).collect()
    }

    /// Whether a rule of the cause reads this table.
    pub fn reads(&self, cause: Cause, table: &str) -> bool {
        let mut rules = self.tables.iter();
        rules.any(|of| of.cause == cause && of.rule.table == table)
    }

    /// What a row shows: evidence, or else that something failed.
    pub(crate) fn of_row(&self, row: &TableRow) -> Shown {
        let evidence = self.evidence(row);
        let mut failures = self.failed_tables.iter();
        match failures.find(|rule| evidence.is_empty() && rule.holds(row)) {
            _ if !evidence.is_empty() => Shown::Evidence(evidence),
            Some(failure) => Shown::Failure(row.fill(&failure.says)),
            None => Shown::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_in_the_document_are_valid() {
        let document = include_str!("../../../../docs/rules.md");
        let blocks = document.split("```yaml\n- on: ").skip(1);
        let mut checked = 0;
        for block in blocks.filter_map(|block| block.split_once("```")) {
            let text = format!("- on: {}", block.0);
            crate::rules::file::parse("rules.md", &text, &Default::default()).unwrap();
            checked += 1;
        }
        assert_eq!(checked, 2);
    }

    #[test]
    fn a_cell_or_a_limit_that_does_not_exist_is_refused_with_its_line() {
        for (rule, says) in [
            (
                "on: table\n  table: disks\n  cells: { mounted: {} }",
                "no cell \"mounted\"; it has",
            ),
            ("on: table\n  table: disk", "no table \"disk\""),
            ("on: table\n  table: mounts", "write `on: figure`"),
            ("on: figure\n  figure: disks", "write `on: table`"),
            (
                "on: figure\n  figure: mounts\n  least: $many",
                "nor a limit in facts.yaml",
            ),
        ] {
            let text = format!("- {rule}\n  confidence: low\n  says: x\n");
            let error = crate::rules::file::parse("rules.yaml", &text, &Default::default());
            let error = error.unwrap_err().to_string();
            assert!(
                error.starts_with("rules.yaml:") && error.contains(says),
                "{error}"
            );
        }
    }

    #[test]
    fn a_pattern_is_the_whole_text_or_a_part_where_it_has_a_star() {
        for (pattern, text, is) in [
            ("/var*", "/var/lib", true),
            ("/var", "/var/lib", false),
            ("*.service", "docker.service", true),
            ("*kubepods*", "/sys/kubepods/x", true),
            ("*kubepods*", "/sys/system.slice", false),
            (
                "FATA[*images*refused",
                "FATA[0] images: connection refused",
                true,
            ),
            ("FATA[*images*refused", "FATA[0] refused: images", false),
            ("aa*a", "aa", false),
        ] {
            assert_eq!(is_like(text, pattern), is, "{pattern} {text}");
        }
    }
}
