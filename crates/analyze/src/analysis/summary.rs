//! One sentence about all inputs.

use causes::finding::{Finding, Verdict, headline};

use super::Analysis;
use crate::goroutines::short;
use crate::words::capital;

pub(super) fn summary(analysis: &Analysis, chain: Option<String>) -> String {
    let pleg = analysis.pleg.as_ref();
    let holder = analysis.goroutines.as_ref();
    let said = if let Some(chain) = chain {
        chain
    } else if let Some(finding) = analysis.leading() {
        of_finding(finding)
    } else if let Some(pleg) = pleg.filter(|pleg| pleg.pattern.is_fault()) {
        headline(pleg.reading.trim_end_matches('.'))
    } else if let Some(holder) = holder.and_then(|all| all.likely_holder.as_ref()) {
        let function = short(&holder.function);
        headline(&format!(
            "{function} probably blocks the others: {}",
            holder.why
        ))
    } else if let Some(first) = analysis.unexplained.first() {
        let says = first.split_once(": ").map_or(&**first, |(_, says)| says);
        let lead = "There is a problem, but the input does not show its cause";
        headline(&format!("{lead}: {says}"))
    } else {
        return nothing_found(analysis);
    };
    capital(said) + "."
}

fn of_finding(finding: &Finding) -> String {
    let word = match finding.verdict {
        Verdict::Problem => "",
        Verdict::Suspect => "suspected: ",
    };
    let said = finding.said();
    let whole = match finding.sentence.is_empty() {
        true => format!("{word}{said}{}", culprit_of(finding)),
        false => format!("{word}{said}"),
    };
    // If the culprit does not fit, leave it out: a truncated name identifies nothing.
    match headline(&whole) == whole {
        true => whole,
        false => headline(&format!("{word}{said}")),
    }
}

fn nothing_found(analysis: &Analysis) -> String {
    if !analysis.is_recognised() {
        return "Nothing in the input was recognised, so it is not evidence of a problem or of a healthy node."
            .to_owned();
    }
    let lines: u64 = analysis.inputs.iter().map(|input| input.lines).sum();
    let unread: u64 = analysis.inputs.iter().map(|input| input.unread_lines).sum();
    let kinds = analysis.errors.iter().map(|error| error.lines);
    match kinds.sum::<u64>() + analysis.other_errors {
        0 if unread * 2 > lines => format!(
            "Only {} of {lines} lines were recognised; they show no problem.",
            lines - unread
        ),
        0 => "No problem was found in the input.".to_owned(),
        1 => "Nothing conclusive: one line reports an error.".to_owned(),
        lines => format!("Nothing conclusive: {lines} lines report errors."),
    }
}

fn culprit_of(finding: &Finding) -> String {
    let culprit = &finding.culprit;
    let pod = || {
        let pod = culprit.pod.as_ref()?;
        let (namespace, name) = (pod.namespace.as_deref()?, pod.name.as_deref()?);
        Some(format!("pod {namespace}/{name}"))
    };
    let process = || match (culprit.process.as_deref()?, culprit.pid) {
        (process, Some(pid)) => Some(format!("{process} ({pid})")),
        // "The fault is inside the kubelet: kubelet" would name it twice.
        (process, None) if finding.title.contains(process) => None,
        (process, None) => Some(process.to_owned()),
    };
    let id = || Some(culprit.id.as_ref()?.chars().take(13).collect());
    let name = pod().or_else(process).or_else(id);
    name.map_or_else(String::new, |name| format!(": {name}"))
}
