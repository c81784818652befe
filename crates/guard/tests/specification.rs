//! `SPECIFICATION.md` and the tests agree: each promise names existing tests that enforce it, and each test
//! that is marked with a promise is named there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A promise, the file of a test, and the test.
type Enforced = (String, String, String);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The texts between backquotes.
fn quoted(line: &str) -> Vec<String> {
    line.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The tests that the specification names, and its promises.
fn specified(text: &str) -> (BTreeSet<Enforced>, BTreeSet<String>) {
    let (mut named, mut promises) = (BTreeSet::new(), BTreeSet::new());
    let mut promise = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("**") {
            let (id, sentence) = rest.split_once(".** ").expect(line);
            assert!(sentence.ends_with('.'), "{id} is one sentence");
            promise = id.to_owned();
            assert!(promises.insert(promise.clone()), "{promise} is there twice");
        } else if line.starts_with("- `") {
            let mut words = quoted(line).into_iter();
            let file = words.next().expect(line);
            named.extend(words.map(|test| (promise.clone(), file.clone(), test)));
        }
    }
    (named, promises)
}

/// The promises that the tests of a file enforce: `/// Enforces G1, G2.` before the attribute of a test.
fn said(file: &Path, into: &mut BTreeSet<Enforced>) {
    let text = fs::read_to_string(file).unwrap();
    let name = file.strip_prefix(root()).unwrap().display().to_string();
    let mut promises: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(said) = line.strip_prefix("/// Enforces ") {
            let said = said.trim_end_matches('.').split(", ");
            promises = said.map(str::to_owned).collect();
        } else if let Some((_, rest)) = line.split_once("fn ") {
            let test = rest.split('(').next().unwrap_or_default();
            let enforced = promises.drain(..);
            into.extend(enforced.map(|promise| (promise, name.clone(), test.to_owned())));
        }
    }
}

fn sources(directory: &Path, into: &mut BTreeSet<Enforced>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let is_this = path.ends_with("guard/tests/specification.rs");
        match path.extension() {
            _ if path.is_dir() => sources(&path, into),
            Some(ending) if ending == "rs" && !is_this => said(&path, into),
            _ => {}
        }
    }
}

#[test]
fn the_specification_names_exactly_the_tests_that_enforce_its_promises() {
    let text = fs::read_to_string(root().join("SPECIFICATION.md")).unwrap();
    let (named, promises) = specified(&text);
    assert!(promises.len() > 20, "{promises:?}");
    let mut said = BTreeSet::new();
    for directory in ["crates", "testbed/e2e"] {
        sources(&root().join(directory), &mut said);
    }
    let unsaid: Vec<_> = named.difference(&said).collect();
    assert!(
        unsaid.is_empty(),
        "named, but no such test says so: {unsaid:#?}"
    );
    let unnamed: Vec<_> = said.difference(&named).collect();
    assert!(
        unnamed.is_empty(),
        "said by a test, but not named: {unnamed:#?}"
    );
    let enforced: BTreeSet<String> = named.into_iter().map(|(promise, ..)| promise).collect();
    assert_eq!(promises, enforced, "each promise has a test");
}
