//! The samples of a site: files in which a cause is found, and files in which it is not.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use pleg_text::WallTime;

use super::folder::Sample;
use super::{Error, LineSearch, Rules};
use crate::analysis::Analyzer;
use crate::input::{self, NoObserver, each_line};

/// What was checked, and the mistakes.
#[derive(Debug)]
pub struct Checked {
    /// The number of rules of the folders.
    pub rules: usize,
    /// The number of samples.
    pub samples: usize,
    /// What is wrong with the samples and the rules.
    pub errors: Vec<Error>,
}

impl Rules {
    /// Analyzes all samples. These rules must be the active ones.
    pub fn check(&'static self, now: WallTime) -> Checked {
        let wrong = self.samples.iter().filter_map(|sample| wrong(sample, now));
        Checked {
            rules: self.count() - self.built_in,
            samples: self.samples.len(),
            errors: wrong.chain(self.without_sample()).collect(),
        }
    }

    /// An error for each rule on lines that matches no line of a sample that shows its cause.
    fn without_sample(&'static self) -> Vec<Error> {
        let mut seen = BTreeSet::new();
        for sample in self.samples.iter().filter(|sample| sample.hits) {
            if let Ok(text) = std::fs::read(&sample.path) {
                let each = |line: &[u8], _| seen.extend(LineSearch::active().find(line).rules);
                // Reading from memory does not fail.
                let _ = each_line(&text[..], each);
            }
        }
        let rules = self.lines.iter().enumerate().skip(self.built_in_lines);
        let untested = rules.filter(|(index, _)| !seen.contains(index));
        let untested = untested.map(|(_, of)| {
            let says = "no file in samples/hit has a line for this rule: add one".to_owned();
            Error::at(&of.place, says)
        });
        untested.collect()
    }
}

fn wrong(sample: &Sample, now: WallTime) -> Option<Error> {
    let path = sample.path.display().to_string();
    let mut analyzer = Analyzer::new();
    let one = NonZeroUsize::MIN;
    let files = [path.clone()];
    let unreadable = input::read(&files, now, one, &mut analyzer, &mut NoObserver);
    if let Some(error) = unreadable.first() {
        return Some(Error::at(&path, error.to_string()));
    }
    let analysis = analyzer.finish();
    let cause = sample.cause;
    let findings = analysis.findings.iter();
    let others: Vec<&str> = findings.map(|finding| finding.cause.id()).collect();
    let is_found = others.contains(&cause.id());
    let others = match others.is_empty() {
        true => "no other cause is".to_owned(),
        false => format!("these are: {}", others.join(", ")),
    };
    let says = match (sample.hits, is_found) {
        (true, false) => format!("{cause} is not found in this sample, and {others}"),
        (false, true) => format!("{cause} is found in this sample, and should not be"),
        _ => return None,
    };
    Some(Error::at(&path, says))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use causes::Cause;

    use super::*;

    fn catalogue() -> &'static Rules {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../causes/causes");
        let mut rules = Rules::built_in();
        rules.built_in_lines = 0;
        for cause in Cause::ALL {
            rules.add_samples(cause, &folder.join(cause.id())).unwrap();
        }
        Box::leak(Box::new(rules))
    }

    #[test]
    fn each_rule_of_the_catalogue_has_a_sample_that_is_read_as_it_should_be() {
        let now = WallTime::from_unix_nanos(1_687_000_000_000_000_000).unwrap();
        let errors: Vec<String> = catalogue()
            .check(now)
            .errors
            .iter()
            .map(Error::to_string)
            .collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}
