//! The kubelet cannot report: its API server does not answer, or the clocks differ.

use causes::Cause;
use causes::finding::{Confidence, Finding, headline};

use super::Opinion;
use super::opinion::of_machine;
use crate::evidence::lack::lack;
use crate::facts::NodeFacts;
use crate::facts::host::{ApiAnswer, ApiServer, Lease};

/// From about this difference on, a valid certificate or token may be rejected as expired or not yet valid.
const CLOCKS_DIFFER_SECONDS: u64 = 60;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let fact = &facts.host.api_server;
    let found = fact.value().and_then(cannot_report);
    Opinion::of(found, [lack(fact)])
}

fn cannot_report(server: &ApiServer) -> Option<Finding> {
    let address = &server.address;
    let (confidence, sentence, advice) = match &server.answer {
        ApiAnswer::Answered => return overloaded(server).or_else(|| clocks_differ(server)),
        ApiAnswer::Refused => (
            Confidence::High,
            format!("the API server at {address} refuses connections"),
            "check whether the API server, or the load balancer before it, runs at this address",
        ),
        ApiAnswer::Unreachable(why) => (
            Confidence::High,
            format!("the API server at {address} cannot be reached: {why}"),
            "check the route and the firewall from this node to this address",
        ),
        ApiAnswer::CertificateRejected(why) => (
            Confidence::High,
            format!("the certificate of the API server at {address} is not accepted: {why}"),
            "compare the certificate authority in the kubelet's kubeconfig with the cluster's",
        ),
        ApiAnswer::Failed(why) => (
            Confidence::Medium,
            format!("a request to the API server at {address} failed: {why}"),
            "run `curl -k ADDRESS/livez` on this node",
        ),
    };
    let shown = format!("{sentence}; requested from this node");
    let advice = advice.replace("ADDRESS", address);
    Some(found(confidence, sentence, shown, advice))
}

/// The API server answers with a server error, not with the lease that was requested.
fn overloaded(server: &ApiServer) -> Option<Finding> {
    let Some(Lease::Other(status @ 500..)) = server.lease.value() else {
        return None;
    };
    let address = &server.address;
    let sentence = format!("the API server at {address} answers with HTTP status {status}");
    let shown = format!("{sentence} to a request for the lease of this node");
    let advice = "check the API server and etcd, and the load balancer before them".to_owned();
    Some(found(Confidence::Medium, sentence, shown, advice))
}

fn clocks_differ(server: &ApiServer) -> Option<Finding> {
    let clock = server.clock?;
    if clock.seconds < CLOCKS_DIFFER_SECONDS {
        return None;
    }
    let way = match clock.is_ahead {
        true => "ahead of",
        false => "behind",
    };
    let sentence = format!(
        "the clock of this node is {} s {way} that of the API server at {}",
        clock.seconds, server.address
    );
    let shown = format!("{sentence}, by the date of its response");
    let advice = "run `chronyc tracking` or `timedatectl timesync-status` on this node".to_owned();
    Some(found(Confidence::Medium, sentence, shown, advice))
}

fn found(confidence: Confidence, sentence: String, shown: String, advice: String) -> Finding {
    let mut found = of_machine(Cause::ApiServerUnreachable, confidence, vec![shown]);
    found.sentence = headline(&sentence);
    found.advising(advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::ClockDifference;
    use crate::node::{found as findings, node};

    fn answering(answer: ApiAnswer, clock: Option<ClockDifference>) -> NodeFacts {
        let mut facts = node("containerd", "1.7.24").facts();
        let server = ApiServer {
            address: "https://10.0.0.1:6443".to_owned(),
            answer,
            clock,
            lease: Fact::default(),
        };
        facts.host.api_server = Fact::known(server, "livez");
        facts
    }

    #[test]
    fn an_api_server_that_refuses_connections_is_named_with_its_address() {
        let found = &findings(judge(&answering(ApiAnswer::Refused, None)))[0];
        assert_eq!(found.confidence, Confidence::High);
        let expected = "the API server at https://10.0.0.1:6443 refuses connections";
        assert_eq!(found.sentence, expected);
    }

    #[test]
    fn an_api_server_that_answers_is_no_finding_unless_the_clocks_differ() {
        let clock = |seconds| {
            let is_ahead = false;
            Some(ClockDifference { is_ahead, seconds })
        };
        let facts = answering(ApiAnswer::Answered, clock(3));
        assert_eq!(judge(&facts), Opinion::Clear);
        let found = &findings(judge(&answering(ApiAnswer::Answered, clock(400))))[0];
        assert_eq!(found.confidence, Confidence::Medium);
        assert!(
            found
                .sentence
                .contains("is 400 s behind that of the API server")
        );
    }

    #[test]
    fn an_api_server_that_answers_with_a_server_error_is_suspected() {
        let mut facts = answering(ApiAnswer::Answered, None);
        let mut with = |status| {
            if let Fact::Known { value, .. } = &mut facts.host.api_server {
                value.lease = Fact::known(Lease::Other(status), "lease");
            }
            judge(&facts)
        };
        assert_eq!(with(404), Opinion::Clear);
        let found = &findings(with(503))[0];
        assert_eq!(found.confidence, Confidence::Medium);
        let expected = "the API server at https://10.0.0.1:6443 answers with HTTP status 503";
        assert_eq!(found.sentence, expected);
    }

    #[test]
    fn a_long_error_is_evidence_and_cut_in_the_headline() {
        let why = "invalid peer certificate: certificate not valid for name \"10.0.0.1\"";
        let answer = ApiAnswer::CertificateRejected(why.to_owned());
        let found = &findings(judge(&answering(answer, None)))[0];
        let expected = "the certificate of the API server at https://10.0.0.1:6443 is not accepted";
        assert_eq!(found.sentence, expected);
        assert!(found.evidence[0].contains(why));
    }

    #[test]
    fn an_api_server_that_was_not_called_is_not_judged() {
        let facts = node("containerd", "1.7.24").facts();
        assert!(matches!(judge(&facts), Opinion::Unknown(_)));
    }
}
