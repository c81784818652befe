//! Reading samples as `pleg analyze` reads files.

use std::path::Path;

use analyze::analysis::{Analysis, Analyzer};
use analyze::input::{NoObserver, each_line, read};
use analyze::series::PlegReading;
use times::WallTime;

/// In the middle of 2023.
pub fn now() -> WallTime {
    WallTime::from_unix_nanos(1_687_000_000_000_000_000).unwrap()
}

/// What these files of the samples tell together.
#[allow(dead_code, reason = "each test binary uses what it needs")]
#[track_caller]
pub fn files(names: &[&str]) -> Analysis {
    let mut analyzer = Analyzer::new();
    for name in names {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/samples")
            .join(name);
        let unreadable = read(
            &path.to_string_lossy(),
            now(),
            &mut analyzer,
            &mut NoObserver,
        );
        assert!(unreadable.is_empty(), "{unreadable:?}");
    }
    analyzer.finish()
}

/// What this text tells.
#[allow(dead_code, reason = "each test binary uses what it needs")]
pub fn text(text: impl AsRef<[u8]>) -> Analysis {
    texts(&[text.as_ref()])
}

/// What these texts tell together.
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

/// What the series proves.
#[allow(dead_code, reason = "each test binary uses what it needs")]
#[track_caller]
pub fn pleg(analysis: &Analysis) -> &PlegReading {
    analysis.pleg.as_ref().expect("there is a series")
}
