//! The certificate by which the kubelet shows who it is has expired, or is not valid yet.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use pleg::model::wall_time::WallTime;

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack;
use crate::facts::host::ClientCertificate;
use crate::facts::{Fact, NodeFacts};

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let fact = &facts.host.client_certificate;
    match fact {
        Fact::Known { value, source } => {
            Opinion::of(invalid(value, source, facts.taken), [None::<String>])
        }
        Fact::Missing { .. } => Opinion::of(None, [lack(fact)]),
    }
}

fn invalid(certificate: &ClientCertificate, path: &str, now: WallTime) -> Option<Finding> {
    let on = |time: WallTime| time.timestamp().strftime("%F %T UTC").to_string();
    let (not_before, not_after) = (certificate.not_before, certificate.not_after);
    let sentence = if now > not_after {
        format!(
            "the kubelet's client certificate expired on {}",
            on(not_after)
        )
    } else if now < not_before {
        let from = on(not_before);
        format!("the kubelet's client certificate is valid only from {from} on: is the clock right")
    } else {
        return None;
    };
    let evidence = vec![format!(
        "{path} is valid from {} to {}; the time here is {}",
        on(not_before),
        on(not_after),
        on(now)
    )];
    let mut found = finding(
        Cause::KubeletCredentials,
        Confidence::Certain,
        Culprit::default(),
        evidence,
    );
    found.sentence = sentence;
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::{found, node};

    const DAY: Duration = Duration::from_secs(86_400);

    fn with(
        from: impl Fn(WallTime) -> WallTime,
        until: impl Fn(WallTime) -> WallTime,
    ) -> NodeFacts {
        let mut facts = node("containerd", "1.7.24").facts();
        facts.taken = WallTime::now();
        let certificate = ClientCertificate {
            not_before: from(facts.taken),
            not_after: until(facts.taken),
        };
        let path = "/var/lib/kubelet/pki/kubelet-client-current.pem";
        facts.host.client_certificate = Fact::known(certificate, path);
        facts
    }

    #[test]
    fn an_expired_certificate_is_named_with_its_date() {
        let facts = with(|now| now.before(DAY * 2), |now| now.before(DAY));
        let found = &found(judge(&facts))[0];
        assert_eq!(found.confidence, Confidence::Certain);
        assert!(
            found
                .sentence
                .starts_with("the kubelet's client certificate expired on 20")
        );
        assert!(found.evidence[0].starts_with("/var/lib/kubelet/pki/kubelet-client-current.pem"));
    }

    #[test]
    fn a_certificate_that_is_not_valid_yet_is_doubted_by_the_clock() {
        let facts = with(|now| now.after(DAY), |now| now.after(DAY * 2));
        assert!(
            found(judge(&facts))[0]
                .sentence
                .ends_with("is the clock right")
        );
    }

    #[test]
    fn a_valid_certificate_is_no_finding_and_a_missing_one_cannot_be_judged() {
        let facts = with(|now| now.before(DAY), |now| now.after(DAY));
        assert_eq!(judge(&facts), Opinion::Clear);
        let none = node("containerd", "1.7.24").facts();
        assert!(matches!(judge(&none), Opinion::CannotTell(_)));
    }
}
