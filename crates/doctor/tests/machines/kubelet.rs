//! Whom the kubelet reports to: the API server of its kubeconfig, and the certificate it shows there.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use causes::Cause;
use causes::finding::Confidence;
use doctor::facts::host::{ApiAnswer, ApiServer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};

use crate::built::{Machine, shows};

const EXPIRED: &str = include_str!("certificates/expired.pem");
const CERTIFICATE: &str = include_str!("certificates/api-server.pem");
const KEY: &str = include_str!("certificates/api-server.key");

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

/// A machine whose API server listens there.
fn reporting_to(port: u16) -> Machine {
    Machine::healthy()
        .file("etc/kubernetes/kubelet.conf", &kubeconfig(port))
        .file("etc/kubernetes/pki/ca.crt", CERTIFICATE)
}

fn api_server(machine: &Machine) -> ApiServer {
    let host = machine.facts().host;
    host.api_server.value().expect("it was asked").clone()
}

/// A port on which each connection is given to `serve`.
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

/// An API server that answers with this head.
fn answering(head: &'static str) -> u16 {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).expect("one");
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate");
    let config = Arc::new(config);
    listening(move |mut stream| {
        let mut connection = ServerConnection::new(config.clone()).expect("a connection");
        let mut tls = Stream::new(&mut connection, &mut stream);
        let _ = tls.read(&mut [0; 1024]);
        let _ = tls.write_all(head.as_bytes());
        let _ = tls.flush();
    })
}

const ANSWER: &str = "HTTP/1.1 401 Unauthorized\r\nDate: Fri, 10 Nov 2023 22:13:20 GMT\r\n\
                      Content-Length: 0\r\n\r\n";

#[test]
fn an_api_server_that_answers_whatever_is_reached() {
    let server = api_server(&reporting_to(answering(ANSWER)));
    assert_eq!(server.answer, ApiAnswer::Answered);
    let clock = server.clock.expect("it told its time");
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
fn an_api_server_of_another_authority_is_told_from_one_that_cannot_be_reached() {
    let machine = reporting_to(answering(ANSWER)).file("etc/kubernetes/pki/ca.crt", EXPIRED);
    let server = api_server(&machine);
    assert!(
        matches!(server.answer, ApiAnswer::CertificateRejected(_)),
        "{server:?}"
    );
}

#[test]
fn a_client_certificate_that_has_expired_is_a_problem_with_its_date() {
    let machine = reporting_to(answering(ANSWER))
        .file("var/lib/kubelet/pki/kubelet-client-current.pem", EXPIRED);
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
