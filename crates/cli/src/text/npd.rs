//! One line for node-problem-detector, which shows 80 characters of it.

use causes::finding::{Culprit, Finding};
use doctor::diagnosis::{Diagnosis, NodeVerdict};

use super::printable;

/// The maximum length of a line, below the default limit of node-problem-detector.
const MAX_LENGTH: usize = 79;

/// The diagnosis in one line of ASCII of fewer than 80 characters.
pub fn line(diagnosis: &Diagnosis) -> String {
    let current = diagnosis.current();
    let count = current.len();
    let (text, others) = match (diagnosis.verdict, current.first()) {
        (NodeVerdict::Problem, Some(finding)) => (of_finding(finding), count - 1),
        (NodeVerdict::Unknown, _) => (format!("unknown: {}", diagnosis.summary), count),
        _ => (format!("ok: {}", diagnosis.summary), count),
    };
    let others = match (others, diagnosis.verdict) {
        (0, _) => String::new(),
        (others, NodeVerdict::Problem) => format!(" (and {others} more)"),
        (others, _) => format!(" ({others} of low confidence)"),
    };
    let text = printable(&text);
    let ascii = text.chars().map(|it| if it.is_ascii() { it } else { '?' });
    let mut line: String = ascii.collect();
    let longest = MAX_LENGTH - others.len();
    if line.len() > longest {
        line.truncate(longest - 3);
        line.push_str("...");
    }
    line.push_str(&others);
    line.push('\n');
    line
}

/// The culprit, because a sentence might be cut off before it; the sentence if there is no culprit.
fn of_finding(finding: &Finding) -> String {
    match culprit(&finding.culprit) {
        Some(culprit) => format!("{}: {culprit}", finding.cause),
        None => format!("{}: {}", finding.cause, finding.said()),
    }
}

fn culprit(culprit: &Culprit) -> Option<String> {
    let pod = culprit.pod.as_ref().map(|pod| {
        let name = pod.name.as_deref().unwrap_or("*");
        format!("{}/{name}", pod.namespace.as_deref().unwrap_or("?"))
    });
    let pid = culprit.pid.map(|pid| pid.to_string());
    let process = culprit.process.clone();
    let parts: Vec<String> = [pod, culprit.container.clone(), process, pid]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use causes::Cause;
    use causes::finding::{Confidence, PodName};
    use doctor::diagnosis::SerialsLeft;

    use super::*;

    fn diagnosis(verdict: NodeVerdict, summary: &str, findings: Vec<Finding>) -> Diagnosis {
        Diagnosis {
            verdict,
            summary: summary.to_owned(),
            findings,
            not_checked: Vec::new(),
            is_partial: false,
            not_permitted: Vec::new(),
            systemd_cookie_left_seconds: SerialsLeft::Unknown,
        }
    }

    #[test]
    fn long_names_do_not_make_the_line_longer() {
        let mut finding = Finding::new(Cause::ContainerStatusLock, Confidence::Certain);
        let pod = |name: &str| {
            Some(PodName {
                uid: None,
                namespace: Some("shop".to_owned()),
                name: Some(name.to_owned()),
            })
        };
        finding.culprit.pod = pod("web");
        finding.culprit.container = Some("app".to_owned());
        let diagnosis = |finding| diagnosis(NodeVerdict::Problem, "", vec![finding]);
        let said = line(&diagnosis(finding.clone()));
        assert_eq!(said, "container-status-lock: shop/web app\n");
        let mut two = diagnosis(finding.clone());
        two.findings.push(finding.clone());
        assert_eq!(
            line(&two),
            "container-status-lock: shop/web app (and 1 more)\n"
        );
        two.findings[0].culprit.pod = pod(&"x".repeat(100));
        let said = line(&two);
        assert!(
            said.len() == 80 && said.ends_with("x... (and 1 more)\n"),
            "{said}"
        );
        finding.culprit.pod = pod(&"\u{1b}ü".repeat(1000));
        let said = line(&diagnosis(finding));
        assert!(
            said.len() == 80 && said.is_ascii() && !said.contains('\u{1b}'),
            "{said}"
        );
    }

    #[test]
    fn a_suspicion_of_low_confidence_alone_does_not_begin_the_line() {
        let diagnosis = |verdict| {
            let finding = Finding::new(Cause::RuncInitFrozen, Confidence::Low);
            diagnosis(verdict, "containerd responds normally", vec![finding])
        };
        let said = line(&diagnosis(NodeVerdict::Ok));
        assert_eq!(
            said,
            "ok: containerd responds normally (1 of low confidence)\n"
        );
        assert!(line(&diagnosis(NodeVerdict::Unknown)).starts_with("unknown: "));
    }

    #[test]
    fn the_line_has_at_most_80_plain_characters_for_any_names() {
        let plain = |line: &str| {
            let text = line.strip_suffix('\n').expect("a line");
            let is_plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
            line.chars().count() <= 80 && line.len() <= 80 && text.bytes().all(is_plain)
        };
        for odd in [
            "\u{754c}",
            "\u{1f9d1}\u{200d}\u{1f680}",
            "e\u{301}",
            "\u{0}",
            "\u{7f}",
            "\u{9b}",
            "\t",
            "\r\n",
            "\u{2028}",
            "\u{200b}",
            "\u{202e}",
            "\u{feff}",
            "\u{e0041}",
            "\u{ad}",
        ] {
            for count in [1, 20, 76, 80, 253, 5000] {
                let name = odd.repeat(count);
                let mut finding = Finding::new(Cause::ContainerStatusLock, Confidence::Certain);
                finding.sentence = name.clone();
                let mut diagnosis = diagnosis(NodeVerdict::Unknown, &name, Vec::new());
                assert!(plain(&line(&diagnosis)), "{odd:?} {count}");
                diagnosis.findings = vec![finding];
                assert!(plain(&line(&diagnosis)), "{odd:?} {count}");
                let culprit = &mut diagnosis.findings[0].culprit;
                culprit.pod = Some(PodName {
                    uid: Some(name.clone()),
                    namespace: Some(name.clone()),
                    name: Some(name.clone()),
                });
                culprit.container = Some(name.clone());
                culprit.process = Some(name);
                assert!(plain(&line(&diagnosis)), "{odd:?} {count}");
            }
        }
    }
}
