//! What is wrong, where nothing tells why. It is told only if nothing else was found: what has a
//! cause needs no further words.

use super::Told;
use super::calls::Method;

pub(super) fn conclude(told: &mut Told) {
    if !told.collected.is_empty() || !told.troubles.is_empty() {
        return;
    }
    let mut late = told.calls.late.iter();
    let first = late.find_map(|(method, late)| Some((*method, late.quotes.first()?)));
    if let Some((method, quote)) = first {
        let says = match method {
            Method::StopPodSandbox => {
                "StopPodSandbox timed out: it waits for a CNI plugin, or for the sandbox's shim"
            }
            _ => "a call to the runtime timed out",
        };
        told.troubles
            .push(format!("{}:{}: {says}", quote.file, quote.line));
    }
    for failed in std::mem::take(&mut told.failures) {
        if failed.lines >= failed.failure.lines {
            let (place, says) = (failed.place, &failed.failure.says);
            told.troubles.push(format!("{place}: {says}"));
        }
    }
}
