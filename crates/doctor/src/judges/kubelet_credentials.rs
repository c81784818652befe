//! The certificate with which the kubelet authenticates has expired, is not valid yet, or is not accepted
//! by the API server.

use causes::Cause;
use causes::finding::{Confidence, Finding};
use pleg::model::wall_time::WallTime;

use super::Opinion;
use super::opinion::of_machine;
use crate::evidence::lack::lack;
use crate::facts::NodeFacts;
use crate::facts::host::{ApiServer, ClientCertificate, Lease};

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let fact = &facts.host.client_certificate;
    let certificate = fact.value();
    let by_date = certificate.and_then(|it| invalid(it, fact.source(), facts.taken));
    let server = &facts.host.api_server;
    let by_answer = server.value().and_then(refused);
    let unasked = match server.value() {
        Some(server) => match server.lease.value() {
            Some(Lease::Other(status @ 500..)) => {
                Some(format!("the API server answers with HTTP status {status}"))
            }
            _ => lack(&server.lease),
        },
        None => lack(server),
    };
    Opinion::of(by_date.or(by_answer), [lack(fact), unasked])
}

/// A finding if the API server does not accept the certificate, whatever its dates are.
fn refused(server: &ApiServer) -> Option<Finding> {
    let (confidence, sentence, answer) = match server.lease.value()? {
        Lease::Unauthorized => (
            Confidence::High,
            "the API server does not accept the kubelet's client certificate (401 Unauthorized)",
            "HTTP status 401".to_owned(),
        ),
        Lease::CertificateRejected(alert) => (
            Confidence::High,
            "the API server does not accept the kubelet's client certificate",
            format!("the TLS alert {alert}"),
        ),
        Lease::Forbidden => (
            Confidence::Medium,
            "the API server does not let the kubelet read its own lease (403 Forbidden)",
            "HTTP status 403".to_owned(),
        ),
        Lease::Renewed { .. } | Lease::Other(_) => return None,
    };
    let address = &server.address;
    let shown = format!("{address} answers a request with this certificate with {answer}");
    Some(found(confidence, sentence.to_owned(), shown))
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
    let shown = format!(
        "{path} is valid from {} to {}; the time here is {}",
        on(not_before),
        on(not_after),
        on(now)
    );
    Some(found(Confidence::Certain, sentence, shown))
}

fn found(confidence: Confidence, sentence: String, shown: String) -> Finding {
    let mut found = of_machine(Cause::KubeletCredentials, confidence, vec![shown]);
    found.sentence = sentence;
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::ApiAnswer;
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
            node: Some("node-1".to_owned()),
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
    fn for_a_certificate_that_is_not_valid_yet_the_clock_is_questioned() {
        let facts = with(|now| now.after(DAY), |now| now.after(DAY * 2));
        assert!(
            found(judge(&facts))[0]
                .sentence
                .ends_with("is the clock right")
        );
    }

    /// A certificate that is valid by its dates, and what the API server answers to it.
    fn answered(lease: Fact<Lease>) -> NodeFacts {
        let mut facts = with(|now| now.before(DAY), |now| now.after(DAY));
        let server = ApiServer {
            address: "https://10.0.0.1:6443".to_owned(),
            answer: ApiAnswer::Answered,
            clock: None,
            lease,
        };
        facts.host.api_server = Fact::known(server, "lease");
        facts
    }

    #[test]
    fn a_certificate_that_the_api_server_accepts_is_no_finding() {
        let renewed = Lease::Renewed { seconds_ago: 4 };
        let facts = answered(Fact::known(renewed, "lease"));
        assert_eq!(judge(&facts), Opinion::Clear);
    }

    #[test]
    fn a_rejected_certificate_is_distinguished_from_missing_rights() {
        for (lease, confidence, said) in [
            (Lease::Unauthorized, Confidence::High, "(401 Unauthorized)"),
            (Lease::Forbidden, Confidence::Medium, "(403 Forbidden)"),
        ] {
            let found = &found(judge(&answered(Fact::known(lease, "lease"))))[0];
            assert_eq!(found.confidence, confidence);
            assert!(found.sentence.ends_with(said), "{}", found.sentence);
            assert!(found.evidence[0].starts_with("https://10.0.0.1:6443 answers"));
        }
        let alert = Lease::CertificateRejected("UnknownCA".to_owned());
        let found = &found(judge(&answered(Fact::known(alert, "lease"))))[0];
        assert!(found.evidence[0].ends_with("the TLS alert UnknownCA"));
    }

    #[test]
    fn a_certificate_that_no_api_server_received_is_judged_by_its_dates_only() {
        let failing = answered(Fact::known(Lease::Other(503), "lease"));
        assert!(matches!(judge(&failing), Opinion::Unknown(_)));
        let unknown = answered(Fact::missing(
            "the client certificate names no node",
            "lease",
        ));
        assert!(matches!(judge(&unknown), Opinion::Unknown(_)));
        let none = node("containerd", "1.7.24").facts();
        assert!(matches!(judge(&none), Opinion::Unknown(_)));
    }
}
