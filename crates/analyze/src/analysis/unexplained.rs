//! What is wrong, where nothing tells why. It is told only if nothing else was found: what has a
//! cause needs no further words.

use super::Told;

pub(super) fn conclude(told: &mut Told) {
    if !told.collected.is_empty() || !told.troubles.is_empty() {
        return;
    }
    let late = told.calls.late.values();
    if let Some(quote) = late.filter_map(|late| late.quotes.first()).next() {
        let place = format!("{}:{}", quote.file, quote.line);
        told.troubles
            .push(format!("{place}: a call to the runtime timed out"));
    }
    for failed in std::mem::take(&mut told.failures) {
        if failed.lines >= failed.failure.lines {
            let (place, says) = (failed.place, failed.failure.says);
            told.troubles.push(format!("{place}: {says}"));
        }
    }
}
