//! `pleg rules` and `--rules`: the example of docs/rules.md, and errors for mistakes.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::support::Pleg;

const DOCUMENT: &str = include_str!("../../../../docs/rules.md");

/// Writes the files of the example: each is a code block after its name.
fn example() -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut files = 0;
    for part in DOCUMENT.split("\n`rules/").skip(1) {
        let (name, rest) = part.split_once('`').unwrap();
        let (_, fenced) = rest.split_once("\n```").unwrap();
        let (_, text) = fenced.split_once('\n').unwrap();
        let (text, _) = text.split_once("\n```").unwrap();
        let path = folder.path().join("rules").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
        files += 1;
    }
    assert_eq!(files, 5, "files of the example");
    folder
}

fn rules(folder: &TempDir) -> String {
    folder.path().join("rules").display().to_string()
}

fn check(folder: &TempDir) -> crate::support::Ended {
    Pleg::new(&["rules", "check", &rules(folder)]).run()
}

fn change(folder: &TempDir, file: &str, from: &str, to: &str) {
    let path = folder.path().join("rules/acme-csi-hang").join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn the_example_of_the_documentation_works() {
    let folder = example();
    let out = check(&folder).assert_code(0).out;
    let (_, console) = DOCUMENT.split_once("$ pleg rules check rules\n").unwrap();
    assert_eq!(out.lines().next(), console.lines().next());
    let dir = rules(&folder);
    let log = format!("{dir}/acme-csi-hang/samples/hit/driver.log");
    let args = ["analyze", "-o", "json", "--rules", &dir, &log];
    let found = Pleg::new(&args).run().assert_code(1).value();
    let finding = &found["findings"][0];
    assert_eq!(finding["cause"], "acme-csi-hang", "{found:#}");
    assert_eq!(finding["title"], "the Acme CSI driver waits for its array");
    assert_eq!(finding["verdict"], "problem");
    let without = Pleg::new(&["analyze", "-o", "json", &log]).run().value();
    assert_eq!(without["findings"].as_array().map(Vec::len), Some(0));
    let page = Pleg::new(&["explain", "--rules", &dir, "acme-csi-hang"]);
    let page = page.run().assert_code(0).out;
    assert!(
        page.starts_with("# acme-csi-hang\n\n## What happens\n"),
        "{page}"
    );
    let list = Pleg::new(&["explain", "--rules", &dir])
        .run()
        .assert_code(0)
        .out;
    assert!(list.contains("acme-csi-hang"), "{list}");
}

#[test]
fn counted_nouns_are_in_the_singular_or_in_the_plural() {
    let folder = example();
    let cause = folder.path().join("rules/acme-csi-hang");
    let rules = fs::read_to_string(cause.join("rules.yaml")).unwrap();
    let (_, of_stacks) = rules.split_once("\n# The driver's kernel module").unwrap();
    fs::write(cause.join("rules.yaml"), format!("#{of_stacks}")).unwrap();
    fs::remove_dir_all(cause.join("samples/miss")).unwrap();
    fs::remove_file(cause.join("samples/hit/driver.log")).unwrap();
    let out = check(&folder).assert_code(0).out;
    let one = "1 rule is valid, and 1 sample gives the expected findings\n";
    assert_eq!(out, one);
    fs::write(cause.join("samples/hit/dmesg.txt"), "nothing\n").unwrap();
    let out = check(&folder).assert_code(1).out;
    let none = "acme-csi-hang is not found in this sample, and no other cause is\n1 error in 1 rule and 1 sample\n";
    assert!(out.ends_with(none), "{out}");
    fs::remove_dir_all(cause.join("samples")).unwrap();
    let out = check(&folder).assert_code(0).out;
    assert!(
        out.starts_with("1 rule is valid; samples are missing"),
        "{out}"
    );
}

/// Makes a mistake in a file, and asserts that the error contains these parts. File
/// and line are among them.
#[track_caller]
fn mistake(file: &str, from: &str, to: &str, code: i32, says: &[&str]) {
    let folder = example();
    change(&folder, file, from, to);
    let ended = check(&folder).assert_code(code);
    let said = format!("{}{}", ended.out, ended.err);
    for part in says {
        assert!(said.contains(part), "{part:?} in {said}");
    }
}

#[test]
fn a_mistake_is_reported_with_its_file_and_line() {
    mistake(
        "rules.yaml",
        "confidence: high\n  lines",
        "confidnce: high\n  lines",
        2,
        &["acme-csi-hang/rules.yaml:6: ", "confidnce"],
    );
    mistake(
        "rules.yaml",
        "writer: runtime",
        "writer: daemon",
        2,
        &["rules.yaml:5: ", "daemon", "runtime"],
    );
    mistake(
        "rules.yaml",
        "on: line",
        "on: lime",
        2,
        &["rules.yaml:2: ", "lime", "goroutines"],
    );
    mistake(
        "rules.yaml",
        "[\"dry run\"]",
        "$dryRun",
        2,
        &["rules.yaml:2: ", "dryRun", "lists.yaml"],
    );
    mistake(
        "rules.yaml",
        "acme-csi: volume not released",
        "released",
        2,
        &["rules.yaml:2: ", "too short"],
    );
    mistake("page.md", "title:", "titel:", 2, &["page.md:3: ", "titel"]);
}

#[test]
fn a_sample_with_another_finding_is_a_problem() {
    let miss = "samples/miss/dry-run.log";
    mistake(
        miss,
        " (dry run)",
        "",
        1,
        &["miss/dry-run.log: acme-csi-hang is found"],
    );
    let hit = "samples/hit/driver.log";
    mistake(
        hit,
        "vol-18",
        "vol-18 (dry run)",
        1,
        &["hit/driver.log: acme-csi-hang is not found"],
    );
    mistake(
        "samples/hit/driver.log",
        "acme-csi:",
        "other-csi:",
        1,
        &["rules.yaml:2: no file in samples/hit"],
    );
}

#[test]
fn a_folder_without_causes_or_that_does_not_exist_is_an_error() {
    let folder = TempDir::new().unwrap();
    let empty = folder.path().display().to_string();
    let ended = Pleg::new(&["rules", "check", &empty]).run().assert_code(2);
    assert!(
        ended.err.contains("there is no cause in it"),
        "{}",
        ended.err
    );
    let absent = Path::new(&empty).join("absent").display().to_string();
    let ended = Pleg::new(&["analyze", "--rules", &absent, "-"])
        .run()
        .assert_code(2);
    assert!(
        ended.err.contains("absent: cannot be read"),
        "{}",
        ended.err
    );
}
