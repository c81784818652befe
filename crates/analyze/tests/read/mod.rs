//! Reads samples as `pleg analyze` reads files.

use std::num::NonZeroUsize;

use analyze::analysis::{Analysis, Analyzer};
use analyze::input::{NoObserver, each_line, read};
use analyze::series::PlegReading;
use pleg_text::WallTime;

/// A time in the middle of 2023.
pub fn now() -> WallTime {
    WallTime::from_unix_nanos(1_687_000_000_000_000_000).unwrap()
}

/// What these files of the samples show together.
#[allow(dead_code, reason = "each test binary uses what it needs")]
#[track_caller]
pub fn files(names: &[&str]) -> Analysis {
    files_at_once(names, 1)
}

/// What these files show together, with `at_once` of them read in parallel.
#[allow(dead_code, reason = "each test binary uses what it needs")]
#[track_caller]
pub fn files_at_once(names: &[&str], at_once: usize) -> Analysis {
    let mut analyzer = Analyzer::new();
    let paths = names
        .iter()
        .map(|name| format!("{}/tests/samples/{name}", env!("CARGO_MANIFEST_DIR")));
    let paths: Vec<_> = paths.collect();
    let at_once = NonZeroUsize::new(at_once).unwrap();
    let unreadable = read(&paths, now(), at_once, &mut analyzer, &mut NoObserver);
    assert!(unreadable.is_empty(), "{unreadable:?}");
    analyzer.finish()
}

/// What this text shows.
#[allow(dead_code, reason = "each test binary uses what it needs")]
pub fn text(text: impl AsRef<[u8]>) -> Analysis {
    texts(&[text.as_ref()])
}

/// What these texts show together.
#[allow(dead_code, reason = "each test binary uses what it needs")]
pub fn texts(texts: &[&[u8]]) -> Analysis {
    let mut analyzer = Analyzer::new();
    for (number, text) in texts.iter().enumerate() {
        analyzer.begin(&format!("text-{number}"), now());
        each_line(*text, |line, cut| analyzer.line(line, cut)).unwrap();
    }
    analyzer.finish()
}

/// The causes that were found, the surest first.
#[allow(dead_code, reason = "each test binary uses what it needs")]
pub fn causes(analysis: &Analysis) -> Vec<&'static str> {
    analysis
        .findings
        .iter()
        .map(|finding| finding.cause.id())
        .collect()
}

/// What the series shows.
#[allow(dead_code, reason = "each test binary uses what it needs")]
#[track_caller]
pub fn pleg(analysis: &Analysis) -> &PlegReading {
    analysis.pleg.as_ref().expect("there is a series")
}
