//! The API server that the kubelet reports to, from its kubeconfig, and the certificate that the kubelet
//! presents there.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use causes::Cause;
use causes::finding::Confidence;
use doctor::diagnosis::diagnose;
use doctor::facts::NodeFacts;
use doctor::facts::host::{ApiAnswer, ApiServer, Lease};
use pleg::model::wall_time::WallTime;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, Stream};

use crate::built::{Machine, shows};

const EXPIRED: &str = include_str!("certificates/expired.pem");
const CERTIFICATE: &str = include_str!("certificates/api-server.pem");
const KEY: &str = include_str!("certificates/api-server.key");
const KUBELET: &str = include_str!("certificates/kubelet-client.pem");
const KUBELET_FILE: &str = "var/lib/kubelet/pki/kubelet-client-current.pem";

/// A kubeconfig as kubeadm writes it.
fn kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: default-cluster\n  cluster:\n    \
         certificate-authority: /etc/kubernetes/pki/ca.crt\n    server: https://127.0.0.1:{port}\n\
         users:\n- name: default-auth\n  user:\n    \
         client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n    \
         client-key: /var/lib/kubelet/pki/kubelet-client-current.pem\n"
    )
}

/// A machine whose API server listens on this port.
fn reporting_to(port: u16) -> Machine {
    Machine::healthy()
        .file("etc/kubernetes/kubelet.conf", &kubeconfig(port))
        .file("etc/kubernetes/pki/ca.crt", CERTIFICATE)
}

fn api_server(machine: &Machine) -> ApiServer {
    let host = machine.facts().host;
    host.api_server.value().expect("it was asked").clone()
}

/// Listens on a port, which is returned, and gives each connection to `serve`.
fn listening(serve: impl Fn(std::net::TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(stream);
        }
    });
    port
}

/// Starts an API server that answers each request with this head. Returns its port.
fn answering(head: &'static str) -> u16 {
    serving(KUBELET, move |_| head.to_owned()).0
}

/// Starts an API server that accepts the client certificates of this authority. Returns its port and the
/// requests that it receives: the first line of each, and whether the client presented a certificate.
fn serving(
    authority: &str,
    answer: impl Fn(&str) -> String + Send + 'static,
) -> (u16, Receiver<(String, bool)>) {
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("one");
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate(authority)).expect("an authority");
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let verifier = verifier
        .allow_unauthenticated()
        .build()
        .expect("a verifier");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate(CERTIFICATE)], key)
        .expect("a certificate");
    let config = Arc::new(config);
    let (requested, requests) = channel();
    let port = listening(move |mut stream| {
        let mut connection = ServerConnection::new(config.clone()).expect("a connection");
        let mut tls = Stream::new(&mut connection, &mut stream);
        let mut request = [0; 1024];
        let length = tls.read(&mut request).unwrap_or(0);
        let request = String::from_utf8_lossy(&request[..length]);
        let line = request.lines().next().unwrap_or_default().to_owned();
        let _ = tls.write_all(answer(&line).as_bytes());
        let _ = tls.flush();
        let _ = requested.send((line, connection.peer_certificates().is_some()));
    });
    (port, requests)
}

/// A lease that was renewed this many seconds ago.
fn lease(seconds: u64) -> String {
    let time = WallTime::now().before(Duration::from_secs(seconds));
    let time = time.timestamp().strftime("%FT%T.%6fZ");
    let body = format!(
        r#"{{"kind":"Lease","spec":{{"holderIdentity":"node-1","leaseDurationSeconds":40,"renewTime":"{time}"}}}}"#
    );
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")
}

const LEASE: &str =
    "GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1 HTTP/1.1";

const ANSWER: &str = "HTTP/1.1 401 Unauthorized\r\nDate: Fri, 10 Nov 2023 22:13:20 GMT\r\n\
                      Content-Length: 0\r\n\r\n";

#[test]
fn an_api_server_that_answers_with_any_status_is_reachable() {
    let server = api_server(&reporting_to(answering(ANSWER)));
    assert_eq!(server.answer, ApiAnswer::Answered);
    let clock = server.clock.expect("the time of the server");
    assert!(clock.is_ahead && clock.seconds > 86_400, "{clock:?}");
}

#[test]
fn an_api_server_that_refuses_connections_is_a_problem() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let finding = reporting_to(port).finding(Cause::ApiServerUnreachable);
    assert_eq!(finding.confidence, Confidence::High);
    shows(&finding, "refuses connections");
}

#[test]
fn an_api_server_that_accepts_and_says_nothing_is_given_up_in_time() {
    let (keep, kept) = std::sync::mpsc::channel();
    let port = listening(move |stream| keep.send(stream).expect("the test goes on"));
    let start = Instant::now();
    let server = api_server(&reporting_to(port));
    assert!(start.elapsed() < Duration::from_secs(8));
    assert!(
        matches!(server.answer, ApiAnswer::Unreachable(_)),
        "{server:?}"
    );
    drop(kept);
}

#[test]
fn an_api_server_of_another_authority_is_distinguished_from_one_that_cannot_be_reached() {
    let machine = reporting_to(answering(ANSWER)).file("etc/kubernetes/pki/ca.crt", EXPIRED);
    let server = api_server(&machine);
    assert!(
        matches!(server.answer, ApiAnswer::CertificateRejected(_)),
        "{server:?}"
    );
}

#[test]
fn the_date_of_an_expired_client_certificate_is_read() {
    let machine = reporting_to(answering(ANSWER)).file(KUBELET_FILE, EXPIRED);
    let facts = machine.facts();
    let certificate = facts.host.client_certificate.value();
    let until = certificate.expect("it was read").not_after;
    assert_eq!(until.to_string(), "2025-01-01T00:00:00.000000000Z");
}

#[test]
fn nothing_of_a_kubeconfig_but_addresses_is_kept() {
    let with_token = kubeconfig(1).replace("client-key: ", "token: s3cr3t-token\n    client-key: ");
    let machine = reporting_to(1).file("etc/kubernetes/kubelet.conf", &with_token);
    let kept = serde_json::to_string(&machine.facts()).expect("JSON");
    assert!(!kept.contains("s3cr3t-token"));
    let broken = "clusters: [token: s3cr3t-token";
    let machine = reporting_to(1).file("etc/kubernetes/kubelet.conf", broken);
    let kept = serde_json::to_string(&machine.facts()).expect("JSON");
    assert!(!kept.contains("s3cr3t-token"));
    assert!(kept.contains("the kubelet's kubeconfig cannot be parsed"));
}

#[test]
fn the_lease_is_requested_with_the_kubelets_own_certificate() {
    let (port, requests) = serving(KUBELET, |_| lease(12));
    let server = api_server(&reporting_to(port).file(KUBELET_FILE, KUBELET));
    let Some(Lease::Renewed { seconds_ago }) = server.lease.value() else {
        panic!("{server:?}");
    };
    assert!((12..60).contains(seconds_ago), "{seconds_ago}");
    assert_eq!(
        requests.recv().expect("a request"),
        (LEASE.to_owned(), true)
    );
    assert!(requests.try_recv().is_err(), "one request is enough");
}

#[test]
fn a_certificate_in_the_kubeconfig_itself_is_shown_unless_the_kubelet_has_rotated_it() {
    let inline = |certificate: &str| {
        let data = STANDARD.encode(certificate);
        kubeconfig(1)
            .replace(
                "client-certificate: /",
                &format!("client-certificate-data: {data}\n    x: /"),
            )
            .replace(
                "client-key: /",
                &format!("client-key-data: {data}\n    y: /"),
            )
    };
    let (port, requests) = serving(KUBELET, |_| lease(1));
    let with = |certificate| {
        let config = inline(certificate).replace("127.0.0.1:1", &format!("127.0.0.1:{port}"));
        reporting_to(port).file("etc/kubernetes/kubelet.conf", &config)
    };
    api_server(&with(KUBELET));
    assert_eq!(
        requests.recv().expect("a request"),
        (LEASE.to_owned(), true)
    );
    api_server(&with(EXPIRED).file(KUBELET_FILE, KUBELET));
    assert_eq!(
        requests.recv().expect("a request"),
        (LEASE.to_owned(), true)
    );
}

#[test]
fn without_a_certificate_that_names_a_node_none_is_shown() {
    let (port, requests) = serving(KUBELET, |_| ANSWER.to_owned());
    let livez = || {
        let request = requests.recv().expect("a request");
        assert_eq!(request, ("GET /livez HTTP/1.1".to_owned(), false));
    };
    let none = api_server(&reporting_to(port));
    livez();
    let other = api_server(&reporting_to(port).file(KUBELET_FILE, CERTIFICATE));
    livez();
    let key_of_another = KUBELET.split("-----BEGIN PRIVATE").next().expect("a part");
    let broken = format!("{key_of_another}{KEY}");
    let broken = api_server(&reporting_to(port).file(KUBELET_FILE, &broken));
    livez();
    for server in [none, other, broken] {
        assert_eq!(server.answer, ApiAnswer::Answered);
        assert!(server.lease.why().is_some(), "{server:?}");
    }
}

/// The findings about a machine, as of now.
fn found_now(machine: &Machine, cause: Cause) -> Vec<causes::finding::Finding> {
    let facts = NodeFacts {
        taken: WallTime::now(),
        ..machine.facts()
    };
    diagnose(&facts, |wanted| wanted == cause).findings
}

#[test]
fn an_unknown_certificate_is_distinguished_from_a_server_that_ends_the_connection() {
    let (port, _requests) = serving(KUBELET, |_| ANSWER.to_owned());
    let machine = reporting_to(port).file(KUBELET_FILE, KUBELET);
    let found = found_now(&machine, Cause::KubeletCredentials);
    assert_eq!(found[0].confidence, Confidence::High, "{found:#?}");
    assert!(found[0].sentence.ends_with("(401 Unauthorized)"));

    let (port, _requests) = serving(EXPIRED, |_| ANSWER.to_owned());
    let machine = reporting_to(port).file(KUBELET_FILE, KUBELET);
    let found = found_now(&machine, Cause::KubeletCredentials);
    assert_eq!(found[0].confidence, Confidence::High, "{found:#?}");
    shows(&found[0], "the TLS alert UnknownCA");
    assert_eq!(found_now(&machine, Cause::ApiServerUnreachable), []);
}

#[test]
fn a_kubelet_that_does_not_renew_its_lease_is_suspected_of_it_and_a_healthy_one_is_not() {
    let (port, _requests) = serving(KUBELET, |_| lease(300));
    let machine = reporting_to(port).file(KUBELET_FILE, KUBELET);
    let found = found_now(&machine, Cause::KubeletInternal);
    assert_eq!(found[0].confidence, Confidence::Medium, "{found:#?}");
    assert!(
        found[0]
            .sentence
            .starts_with("kubelet (600) runs, but has not renewed its lease")
    );

    let (port, _requests) = serving(KUBELET, |_| lease(8));
    let machine = reporting_to(port).file(KUBELET_FILE, KUBELET);
    for cause in [
        Cause::KubeletInternal,
        Cause::KubeletCredentials,
        Cause::ApiServerUnreachable,
    ] {
        assert_eq!(found_now(&machine, cause), [], "{cause}");
    }
}

#[test]
fn the_key_of_the_client_certificate_is_in_no_bundle() {
    let (port, _requests) = serving(KUBELET, |_| lease(8));
    let machine = reporting_to(port).file(KUBELET_FILE, KUBELET);
    let kept = serde_json::to_string(&machine.facts()).expect("JSON");
    let key = KUBELET.split("PRIVATE KEY-----").nth(1).expect("a key");
    let line = key.trim().lines().next().expect("a line");
    assert!(line.len() > 40 && !kept.contains(line));
}
