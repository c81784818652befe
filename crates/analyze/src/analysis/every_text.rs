//! Tests that a long line takes time in proportion to its length, whichever text of a rule it repeats.

use std::collections::BTreeSet;
use std::time::Duration;

use pleg_text::WallTime;

use super::Analyzer;
use crate::rules::LineSearch;

/// The length of the lines, in bytes.
const LONG: usize = 64 << 10;

/// Each line is compared with its beginning, which is this many times shorter.
const SHORTER: usize = 4;

/// The work may grow by twice the factor by which the line grows; if it were quadratic, it would
/// grow by the square of that factor.
const MAX_GROWTH: u32 = 2 * SHORTER as u32;

/// Shorter times depend on caches more than on the line.
const TOO_SHORT: Duration = Duration::from_millis(40);

fn analyzed(line: &[u8]) -> Duration {
    let mut analyzer = Analyzer::new();
    let begun = processor_time();
    analyzer.begin("x.log", WallTime::from_unix_nanos(1).unwrap());
    analyzer.line(line, false);
    assert_eq!(analyzer.finish().inputs[0].lines, 1);
    processor_time() - begun
}

/// The processor time of this thread, which does not depend on other work on the machine.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanos = text.split(' ').next().unwrap();
    Duration::from_nanos(nanos.parse().unwrap())
}

fn repeated(head: &str, text: &str, length: usize) -> Vec<u8> {
    let repeats = text.bytes().chain([b' ']).cycle();
    head.bytes().chain(repeats).take(length).collect()
}

/// The shortest of three measurements: disturbances only make them longer.
fn shortest(work: impl Fn() -> Duration) -> Duration {
    (0..3).map(|_| work()).min().unwrap_or_default()
}

#[test]
fn a_line_that_repeats_any_text_of_any_rule_takes_time_in_proportion_to_its_length() {
    let texts = LineSearch::active().texts();
    let texts = texts.chain(crate::goroutines::searched_texts());
    let texts: BTreeSet<&str> = texts.chain(crate::kernel::searched_texts()).collect();
    assert!(texts.len() > 700, "{}", texts.len());
    let all: Vec<&str> = texts.iter().copied().collect();
    let all = all.join(" ");
    for text in texts.into_iter().chain([&*all]) {
        for head in ["", "E0505 13:59:56.872880    2858 kubelet.go:2055] "] {
            let long = repeated(head, text, LONG);
            let time = analyzed(&long);
            if time < TOO_SHORT {
                continue;
            }
            let short = shortest(|| analyzed(&long[..LONG / SHORTER]));
            let time = shortest(|| analyzed(&long));
            assert!(
                time <= MAX_GROWTH * short + TOO_SHORT,
                "{head}{text}: {LONG} bytes take {time:?}, a part of them {short:?}"
            );
        }
    }
}
