//! Properties of any input. The fuzz targets call the same functions.

use std::io::Read;

use analyze::analysis::{Analysis, Analyzer};
use analyze::goroutines::{Groups, StackReader};
use analyze::input::{Frames, each_line};
use analyze::line::calendar::Calendar;
use analyze::line::prefix::split;
use analyze::line::stamp::take;
use analyze::line::{bare, klog, quoted};
use analyze::series::Said;
use pleg_text::WallTime;

fn now() -> WallTime {
    WallTime::from_unix_nanos(1_687_000_000_000_000_000).expect("it is not zero")
}

/// The whole analysis: each line is counted once, and the result is consistent.
pub fn analysis(bytes: &[u8]) {
    let mut analyzer = Analyzer::new();
    analyzer.begin("any", now());
    each_line(bytes, |line, cut| analyzer.line(line, cut)).expect("memory can be read");
    let analysis = analyzer.finish();
    let input = &analysis.inputs[0];
    let ends = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    let unended = u64::from(bytes.last().is_some_and(|byte| *byte != b'\n'));
    assert_eq!(input.lines, ends + unended);
    assert!(input.unread_lines <= input.lines, "{input:?}");
    consistent(&analysis);
}

fn consistent(analysis: &Analysis) {
    let json = serde_json::to_string(analysis).expect("all of it can be written");
    assert!(!json.contains('\u{1b}'), "nothing disturbs a terminal");
    if let Some(goroutines) = &analysis.goroutines {
        let grouped: u64 = goroutines
            .groups
            .iter()
            .map(|group| group.count)
            .fold(0, u64::saturating_add);
        assert!(grouped <= goroutines.total);
    }
    for interval in analysis.pleg.iter().flat_map(|pleg| &pleg.intervals) {
        assert!(interval.peak_seconds.is_finite() && interval.peak_seconds >= 0.0);
        assert!(interval.lines > 0);
    }
}

/// Prefixes are removed from the beginning of a line, so the rest is its end.
pub fn carriers(bytes: &[u8]) {
    let line = bare(bytes);
    let carried = split(line);
    assert!(line.ends_with(carried.body));
    if let Some(klog) = klog::parse(carried.body) {
        assert!(carried.body.ends_with(klog.message));
    }
    if let Some(at) = klog::find(line) {
        assert!(klog::begins(&line[at..]));
    }
    if let Some((stamp, rest)) = take(line) {
        assert!(line.ends_with(rest));
        let mut calendar = Calendar::until(now());
        calendar.learn(&stamp);
        let _ = calendar.resolve(&stamp);
    }
    let _ = quoted::value(line, "msg");
    assert!(quoted::unescape(line).len() <= line.len());
    assert!(quoted::without_entities(line).len() <= line.len());
    let _ = Said::of(line);
}

/// No goroutine is lost between lines and groups.
pub fn dumps(bytes: &[u8]) {
    let mut reader = StackReader::default();
    for (number, line) in String::from_utf8_lossy(bytes).split('\n').enumerate() {
        reader.line(line, number as u64, "any");
    }
    reader.finish();
    let stacks: Vec<_> = reader.take_done().collect();
    let count = stacks.len() as u64;
    let mut groups = Groups::default();
    for stack in stacks {
        groups.add(stack, "any");
    }
    let (groups, total, dropped) = groups.sorted();
    assert_eq!(total, count);
    assert_eq!(
        groups.iter().map(|group| group.count).sum::<u64>() + dropped,
        count
    );
}

/// Reading compressed text ends or fails, and never takes more memory than the maximum window.
pub fn frames(bytes: &[u8]) {
    let mut most = Frames::new(bytes).take(16 << 20);
    let _ = std::io::copy(&mut most, &mut std::io::sink());
}
