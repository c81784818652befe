//! The program `pleg-guard`, as a kubelet and an administrator meet it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use guard_api::{Client, Mode, StatusRequest};
use tempfile::TempDir;

const SECOND: Duration = Duration::from_secs(1);

struct Guard {
    folder: TempDir,
    process: Child,
    started: Instant,
}

impl Guard {
    /// One in front of a runtime that is not there.
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

    /// Its mode, once it answers, and how long that took from its start.
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

    /// Waits until it logs this.
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
async fn it_answers_soon_after_its_start_although_there_is_no_runtime() {
    for mode in ["guard", "shadow", "pass"] {
        let guard = Guard::start(&["--mode", mode]);
        let (answered, took) = guard.answers().await;
        let expected = match mode {
            "guard" => Mode::Guard,
            "shadow" => Mode::Shadow,
            _ => Mode::Pass,
        };
        assert_eq!(answered, expected);
        // Without optimisation, on a machine that does other things.
        assert!(took < SECOND * 2, "{took:?}");
    }
}

#[tokio::test]
async fn a_guard_that_was_killed_is_replaced_by_the_next_one_and_a_live_one_is_not() {
    let mut guard = Guard::start(&[]);
    guard.answers().await;
    let (socket, folder) = (guard.socket(), guard.folder.path().to_owned());
    let beside = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pleg-guard"));
        command.arg("-r").arg(folder.join("runtime.sock"));
        command.arg("--listen").arg(&socket);
        command.env("PLEG_STATE_DIR", &folder);
        command
    };
    let second = beside().output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("something already listens on"), "{said}");
    let mut next = beside();
    // SIGKILL: its socket is left, and no process listens there.
    guard.process.kill().unwrap();
    guard.process.wait().unwrap();
    guard.process = next.stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(guard.answers().await.0, Mode::Guard);
}

/// The headers of a call of gRPC, with this authority: indexed fields of HPACK's static table, and
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
async fn that_a_kubelet_before_1_31_is_refused_is_logged_with_the_reason() {
    let mut guard = Guard::start(&[]);
    guard.answers().await;
    let good = call(&guard.socket(), "localhost");
    let bad = call(&guard.socket(), "/run/pleg/cri.sock");
    tokio::time::sleep(SECOND / 2).await;
    drop((good, bad));
    let line = guard.logs("a client was refused");
    assert!(line.contains("Kubelets before 1.31"), "{line}");
}

#[test]
fn a_command_line_that_is_not_understood_is_refused_in_one_sentence() {
    for (arguments, says) in [
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
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains(says) && said.lines().count() == 1, "{said}");
    }
    let version = run(&["--version"]);
    let expected = format!("pleg-guard {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&version.stdout), expected);
    let help = run(&["--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("--limit"));
}
