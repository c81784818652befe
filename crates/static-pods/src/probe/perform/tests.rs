use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pleg::runtime::{CallError, Rpc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::spec::ProbeKind;
use crate::spec::Scheme;

const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Ends each command with this result.
struct FixedExec(Result<ExecEnd, CallFailed>);

impl Exec for FixedExec {
    async fn exec(&self, _: &Id, _: &[String], _: Duration) -> Result<ExecEnd, CallFailed> {
        self.0.clone()
    }
}

fn unavailable() -> CallFailed {
    CallFailed {
        call: Rpc::ExecSync,
        subject: "one".into(),
        code: tonic::Code::Unavailable,
        why: CallError::Refused("no runtime".into()),
    }
}

fn check(check: Check) -> DueCheck {
    DueCheck {
        container: "app".into(),
        id: "one".into(),
        kind: ProbeKind::Liveness,
        check,
        timeout: Duration::from_millis(700),
    }
}

fn http(port: u16, path: &str, headers: &[(&str, &str)]) -> DueCheck {
    let headers = headers.iter();
    check(Check::Http {
        scheme: Scheme::Http,
        host: None,
        port,
        path: path.into(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
    })
}

async fn find(check: &DueCheck) -> CheckResult {
    let never = FixedExec(Err(unavailable()));
    perform(check, Some(HOME), &never).await
}

/// Answers each request with what `answer` returns for its path. Returns the port and the requests.
async fn server(
    answer: impl Fn(&str) -> String + Send + 'static,
) -> (u16, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind((HOME, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or("").to_owned();
            let _ = sender.send(request);
            let _ = stream.write_all(answer(&path).as_bytes()).await;
        }
    });
    (port, requests)
}

fn status(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
}

fn redirect(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
}

fn failure(message: &str) -> CheckResult {
    CheckResult::Failure(message.into())
}

#[tokio::test]
async fn answers_from_200_to_399_are_a_success() {
    let (port, _requests) = server(|path| status(&path[1..])).await;
    for code in ["200", "204", "302", "304", "399"] {
        let check = http(port, &format!("/{code}"), &[]);
        assert_eq!(find(&check).await, CheckResult::Success, "{code}");
    }
    for code in ["400", "404", "500", "503"] {
        let check = http(port, &format!("/{code}"), &[]);
        assert_eq!(find(&check).await, failure(&format!("HTTP status {code}")));
    }
}

#[tokio::test]
async fn characters_that_a_url_cannot_contain_are_escaped_even_in_a_redirect() {
    let (port, mut requests) = server(|path| match path {
        "/a%20b%3Cc%3E?d=e%20f" => redirect("/n ext?<"),
        "/n%20ext?%3C" => status("200 OK"),
        _ => status("404 Not Found"),
    })
    .await;
    let check = http(port, "/a b<c>?d=e f#part", &[]);
    assert_eq!(find(&check).await, CheckResult::Success);
    let first = requests.recv().await.unwrap();
    assert!(
        first.starts_with("GET /a%20b%3Cc%3E?d=e%20f HTTP/1.1\r\n"),
        "{first}"
    );
}

#[tokio::test]
async fn a_request_has_our_user_agent_unless_the_manifest_sets_it() {
    let (port, mut requests) = server(|_| status("200 OK")).await;
    let plain = http(port, "/health?full", &[]);
    assert_eq!(find(&plain).await, CheckResult::Success);
    let request = requests.recv().await.unwrap().to_lowercase();
    assert!(request.starts_with("get /health?full http/1.1\r\n"));
    assert!(request.contains("\r\nuser-agent: pleg-probe/"));
    assert!(request.contains("\r\naccept: */*\r\n"));
    assert!(request.contains(&format!("\r\nhost: 127.0.0.1:{port}\r\n")));

    let headers = [("Host", "web"), ("X-Key", "1"), ("user-agent", "me")];
    assert_eq!(find(&http(port, "/", &headers)).await, CheckResult::Success);
    let request = requests.recv().await.unwrap().to_lowercase();
    assert!(request.contains("\r\nhost: web\r\n"));
    assert!(request.contains("\r\nx-key: 1\r\n"));
    assert!(request.contains("\r\nuser-agent: me\r\n"));
    assert!(!request.contains("pleg-probe"));
}

#[tokio::test]
async fn at_most_ten_redirects_to_the_host_itself_are_followed() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let (port, _requests) = server(|path| match path {
        "/here" => redirect("/bad"),
        "/elsewhere" => redirect("http://192.0.2.1/bad"),
        "/loop" => {
            COUNT.fetch_add(1, Ordering::Relaxed);
            redirect("loop")
        }
        _ => status("500"),
    })
    .await;
    let here = find(&http(port, "/here", &[])).await;
    assert_eq!(here, failure("HTTP status 500"));
    let elsewhere = find(&http(port, "/elsewhere", &[])).await;
    assert_eq!(elsewhere, CheckResult::Success);
    let endless = find(&http(port, "/loop", &[])).await;
    assert_eq!(endless, failure("more than 10 redirects"));
    assert_eq!(COUNT.load(Ordering::Relaxed), 11);
}

#[tokio::test]
async fn a_server_that_does_not_answer_or_breaks_off_has_failed() {
    let listener = TcpListener::bind((HOME, 0)).await.unwrap();
    let unresponsive = listener.local_addr().unwrap().port();
    let result = find(&http(unresponsive, "/", &[])).await;
    assert_eq!(result, failure("no answer within 0.7 s"));

    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort";
    let (port, _requests) = server(|_| cut.into()).await;
    assert!(matches!(
        find(&http(port, "/", &[])).await,
        CheckResult::Failure(_)
    ));
}

#[tokio::test]
async fn an_endless_answer_is_a_success_after_ten_kilobytes() {
    let listener = TcpListener::bind((HOME, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        while stream.write_all(&[b'x'; 1024]).await.is_ok() {}
    });
    assert_eq!(find(&http(port, "/", &[])).await, CheckResult::Success);
}

#[tokio::test]
async fn an_https_probe_of_a_server_without_tls_fails() {
    let (port, _requests) = server(|_| status("200 OK")).await;
    let https = check(Check::Http {
        scheme: Scheme::Https,
        host: None,
        port,
        path: "/".into(),
        headers: Vec::new(),
    });
    let CheckResult::Failure(message) = find(&https).await else {
        panic!("plain HTTP was taken for HTTPS");
    };
    assert!(message.starts_with("no TLS: "), "{message}");
}

/// The certificate is self-signed and has expired: it was valid for one day.
#[tokio::test]
async fn an_https_probe_accepts_any_certificate() {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

    let certificate = CertificateDer::from(&include_bytes!("self-signed.cert.der")[..]);
    let key = PrivatePkcs8KeyDer::from(&include_bytes!("self-signed.key.der")[..]);
    let provider = rustls::crypto::ring::default_provider();
    let config = rustls::ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::from(key))
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((HOME, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut request = vec![0; 4096];
        let _ = stream.read(&mut request).await;
        let answer = status("200 OK");
        stream.write_all(answer.as_bytes()).await.unwrap();
        let _ = stream.shutdown().await;
    });
    let https = check(Check::Http {
        scheme: Scheme::Https,
        host: None,
        port,
        path: "/".into(),
        headers: Vec::new(),
    });
    assert_eq!(find(&https).await, CheckResult::Success);
}

#[tokio::test]
async fn a_tcp_probe_succeeds_with_a_connection() {
    let listener = TcpListener::bind((HOME, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tcp = |host: Option<&str>| {
        let host = host.map(str::to_owned);
        check(Check::Tcp { host, port })
    };
    assert_eq!(find(&tcp(None)).await, CheckResult::Success);
    assert_eq!(find(&tcp(Some("localhost"))).await, CheckResult::Success);
    drop(listener);
    let CheckResult::Failure(message) = find(&tcp(None)).await else {
        panic!("connected to a closed port");
    };
    assert!(message.starts_with(&format!("no connection to 127.0.0.1 port {port}: ")));
}

#[tokio::test]
async fn the_check_of_a_pod_without_an_address_has_no_result() {
    let tcp = check(Check::Tcp {
        host: None,
        port: 80,
    });
    let never = FixedExec(Ok(ExecEnd::TimedOut));
    let result = perform(&tcp, None, &never).await;
    assert!(matches!(result, CheckResult::Unknown(_)));
}

#[tokio::test]
async fn a_command_succeeds_by_its_exit_code_and_a_failed_call_has_no_result() {
    let run = check(Check::Exec(vec!["test".into()]));
    let exited = |code, stdout: &str, stderr: &str| {
        Ok(ExecEnd::Exited {
            code,
            stdout: stdout.into(),
            stderr: stderr.into(),
        })
    };
    for (end, result) in [
        (exited(0, "ok", ""), CheckResult::Success),
        (
            exited(2, "reading\n", " no file\n"),
            failure("exit code 2: reading\n no file"),
        ),
        (exited(1, "", ""), failure("exit code 1")),
        (
            exited(1, "", "login --password hunter2 failed"),
            failure("exit code 1: login --password [redacted] failed"),
        ),
        (
            Ok(ExecEnd::TimedOut),
            failure("the command took longer than 0.7 s"),
        ),
        (
            Err(unavailable()),
            CheckResult::Unknown(unavailable().to_string().into()),
        ),
    ] {
        assert_eq!(perform(&run, None, &FixedExec(end)).await, result);
    }
}
