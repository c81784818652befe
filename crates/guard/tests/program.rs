//! The program `pleg-guard`, as a kubelet and an administrator use it.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use cri::{ApiVersion, Endpoint, Rpc};
use guard_api::{Client, Mode, StatusRequest};
use tempfile::TempDir;

const SECOND: Duration = Duration::from_secs(1);

struct Guard {
    folder: TempDir,
    process: Child,
    started: Instant,
}

impl Guard {
    /// A guard in front of a runtime that does not exist.
    fn start(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pleg-guard"));
        command.arg("-r").arg(folder.path().join("runtime.sock"));
        command.arg("--listen").arg(folder.path().join("cri.sock"));
        command.args(options).env("PLEG_STATE_DIR", folder.path());
        command.env_remove("RUST_LOG").stderr(Stdio::piped());
        let started = Instant::now();
        Self {
            process: command.spawn().unwrap(),
            folder,
            started,
        }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("cri.sock")
    }

    /// Waits until the guard answers. Returns its mode, and the time since its start.
    async fn answers(&self) -> (Mode, Duration) {
        let client = Client::new(self.socket());
        loop {
            let status = client.status(StatusRequest::default(), SECOND * 5).await;
            if let Ok(status) = status {
                return (status.mode(), self.started.elapsed());
            }
            assert!(self.started.elapsed() < SECOND * 10, "{status:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits for a log line with this text, and returns the line.
    fn logs(&mut self, wanted: &str) -> String {
        let log = BufReader::new(self.process.stderr.take().unwrap());
        let mut lines = log.lines().map_while(Result::ok);
        lines.find(|line| line.contains(wanted)).expect(wanted)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pleg-guard"));
    command.env_remove("CONTAINER_RUNTIME_ENDPOINT");
    command.args(arguments).output().unwrap()
}

/// Enforces G13.
#[tokio::test]
async fn the_guard_answers_soon_after_its_start_without_a_runtime() {
    for mode in ["guard", "shadow", "pass"] {
        let guard = Guard::start(&["--mode", mode]);
        let (answered, took) = guard.answers().await;
        let expected = match mode {
            "guard" => Mode::Guard,
            "shadow" => Mode::Shadow,
            _ => Mode::Pass,
        };
        assert_eq!(answered, expected);
        // The limit allows for a debug build on a busy machine.
        assert!(took < SECOND * 2, "{took:?}");
    }
}

#[tokio::test]
async fn a_guard_takes_over_the_socket_of_a_killed_one_and_not_of_a_running_one() {
    let mut guard = Guard::start(&[]);
    guard.answers().await;
    let (socket, folder) = (guard.socket(), guard.folder.path().to_owned());
    let another = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pleg-guard"));
        command.arg("-r").arg(folder.join("runtime.sock"));
        command.arg("--listen").arg(&socket);
        command.env("PLEG_STATE_DIR", &folder);
        command
    };
    let second = another().output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&second.stderr);
    assert!(stderr.contains("something already listens on"), "{stderr}");
    let mut next = another();
    // SIGKILL: its socket is left, and no process listens there.
    guard.process.kill().unwrap();
    guard.process.wait().unwrap();
    guard.process = next.stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(guard.answers().await.0, Mode::Guard);
}

/// The headers of a gRPC call with this authority: indexed fields of the static table of HPACK, and
/// literals.
fn headers(authority: &str) -> Vec<u8> {
    let literal = |index: u8, text: &str| {
        let length = u8::try_from(text.len()).unwrap();
        [&[0x40 | index, length][..], text.as_bytes()].concat()
    };
    let path = "/runtime.v1.RuntimeService/Version";
    [vec![0x83, 0x86], literal(4, path), literal(1, authority)].concat()
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let header = [0, 0, length, kind, flags, 0, 0, 0, stream];
    [&header[..], payload].concat()
}

fn call(socket: &Path, authority: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let end_headers_and_stream = 0x5;
    let call = frame(1, end_headers_and_stream, 1, &headers(authority));
    let bytes = [&preface[..], &frame(4, 0, 0, &[]), &call].concat();
    stream.write_all(&bytes).unwrap();
    stream
}

/// Enforces G15.
#[tokio::test]
async fn a_refused_kubelet_before_1_31_is_logged_with_the_reason() {
    let mut guard = Guard::start(&[]);
    guard.answers().await;
    let good = call(&guard.socket(), "localhost");
    let bad = call(&guard.socket(), "/run/pleg/cri.sock");
    tokio::time::sleep(SECOND / 2).await;
    drop((good, bad));
    let line = guard.logs("a client was refused");
    assert!(line.contains("Kubelets before 1.31"), "{line}");
}

/// What other protocols send first.
const NO_HTTP2: [&[u8]; 4] = [
    b"GET /v1.43/version HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a ClientHello of TLS",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n and then no frame of any known kind",
    &[0; 64],
];

#[tokio::test]
async fn a_client_that_sends_no_http2_is_disconnected_and_logged_with_the_reason() {
    for bytes in NO_HTTP2 {
        let mut guard = Guard::start(&[]);
        guard.answers().await;
        let mut stream = UnixStream::connect(guard.socket()).unwrap();
        stream.set_read_timeout(Some(SECOND * 5)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        // If the guard did not read everything, the connection is reset.
        let ended = stream.read_to_end(&mut rest).map_err(|error| error.kind());
        assert!(
            matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)),
            "{ended:?}"
        );
        guard.answers().await;
        let line = guard.logs("a client was refused");
        assert!(line.contains("not HTTP/2"), "{line}");
    }
}

#[tokio::test]
async fn a_runtime_that_answers_no_http2_is_an_error_that_says_so() {
    for bytes in NO_HTTP2 {
        let guard = Guard::start(&[]);
        guard.answers().await;
        let runtime = UnixListener::bind(guard.folder.path().join("runtime.sock")).unwrap();
        std::thread::spawn(move || {
            for stream in runtime.incoming() {
                let mut stream = stream.unwrap();
                // The guard may have ended; then the test has ended too.
                let _ = stream.write_all(bytes);
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            }
        });
        let client = cri::Client::new(&Endpoint::new(guard.socket()), 1 << 20);
        for rpc in [Rpc::Version, Rpc::ListContainers, Rpc::ImageStatus] {
            let call = client.unary::<(), ()>(ApiVersion::V1, rpc, ());
            let answer = tokio::time::timeout(SECOND * 5, call).await;
            let error = answer.expect("no call hangs").unwrap_err();
            assert_eq!(error.code(), tonic::Code::Unavailable, "{error}");
            assert!(error.message().contains("not HTTP/2"), "{error}");
        }
    }
}

#[test]
fn an_invalid_command_line_ends_with_one_error_line() {
    for (arguments, message) in [
        (
            &["--remedy", "shim"][..],
            "unexpected argument \"--remedy\"",
        ),
        (
            &["--mode", "sideways", "-r", "/a.sock"],
            "guard, shadow or pass",
        ),
        (&["-r", "tcp://127.0.0.1"], "is not a unix socket"),
    ] {
        let ended = run(arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(
            stderr.contains(message) && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
    let version = run(&["--version"]);
    let expected = format!("pleg-guard {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&version.stdout), expected);
    let help = run(&["--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("--limit"));
}
