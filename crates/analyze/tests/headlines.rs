//! The headline for each sample is whole, short, and contains no id of a container or an exec.

use std::fs;
use std::path::{Path, PathBuf};

use analyze::analysis::{Analysis, Analyzer};
use causes::finding::Finding;
use pleg_text::WallTime;

/// The files in this folder and in those below it.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

fn analyze(paths: &[PathBuf]) -> Analysis {
    let mut analyzer = Analyzer::new();
    for path in paths {
        analyzer.begin(&path.display().to_string(), WallTime::now());
        let bytes = fs::read(path).expect("a file");
        for line in bytes.split(|byte| *byte == b'\n') {
            analyzer.line(line, false);
        }
    }
    analyzer.finish()
}

fn is_headline(said: &str) -> bool {
    let mut words = said.split(|char: char| !char.is_ascii_hexdigit());
    let has_id = words.any(|word| word.len() >= 32);
    said.chars().count() < 100 && !has_id
}

#[test]
fn every_headline_of_a_sample_is_whole_and_shorter_than_100_characters() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut samples = Vec::new();
    for folder in ["../causes/causes", "tests/samples"] {
        files(&root.join(folder), &mut samples);
    }
    assert!(samples.len() > 100, "{}", samples.len());
    let mut bad = Vec::new();
    // Each sample alone, and with the next ones: a chain needs several dumps.
    for at in 0..samples.len() {
        for count in [1, 3] {
            let analysis = analyze(&samples[at..samples.len().min(at + count)]);
            let said = analysis.findings.iter().map(Finding::said);
            let said = said
                .chain([&*analysis.summary])
                .filter(|it| !is_headline(it));
            bad.extend(said.map(|said| format!("{}: {said}", samples[at].display())));
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}
