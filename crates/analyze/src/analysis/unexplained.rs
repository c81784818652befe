//! Problems whose cause is not known. They are reported only if no cause was found.

use super::Results;
use super::calls::Method;

pub(super) fn conclude(results: &mut Results) {
    if !results.collected.is_empty() || !results.troubles.is_empty() {
        return;
    }
    let mut late = results.calls.late.iter();
    let first = late.find_map(|(method, late)| Some((*method, late.quotes.first()?)));
    if let Some((method, quote)) = first {
        let says = match method {
            Method::StopPodSandbox => {
                "StopPodSandbox timed out: it waits for a CNI plugin, or for the sandbox's shim"
            }
            _ => "a call to the runtime timed out",
        };
        let (file, line) = (quote.file.clone(), quote.line);
        results.trouble(&file, line, says);
    }
    for failed in std::mem::take(&mut results.failures) {
        if failed.lines >= failed.failure.lines {
            let (place, says) = (failed.place, &failed.failure.says);
            results.troubles.push(format!("{place}: {says}"));
        }
    }
}
