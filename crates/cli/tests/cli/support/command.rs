//! The real `pleg`, run to its end or until the test ends it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{TEST_LIMIT, eventually};

const OTHER_USER: u32 = 65534;

/// A command line.
pub struct Pleg(Command);

/// The exit code and the output of a command.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// A running command, killed when dropped.
pub struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
    readers: Vec<JoinHandle<()>>,
    seen: Vec<String>,
    logged: String,
}

impl Pleg {
    /// `pleg` with these arguments, without the environment and the agent of this machine.
    pub fn new(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pleg"));
        command.args(args).stdin(Stdio::null());
        for name in [
            "CONTAINER_RUNTIME_ENDPOINT",
            "RUST_LOG",
            "NO_COLOR",
            "CLICOLOR_FORCE",
            "RUST_BACKTRACE",
        ] {
            command.env_remove(name);
        }
        command.env("PLEG_STATE_DIR", env!("CARGO_TARGET_TMPDIR"));
        Self(command)
    }

    /// `pleg` as kubectl starts a plugin.
    pub fn as_plugin(args: &[&str]) -> Self {
        let mut pleg = Self::new(args);
        pleg.0.arg0("kubectl-pleg");
        pleg
    }

    /// `pleg` as kubectl starts it to complete a command line.
    pub fn as_completer(words: &[&str]) -> Self {
        let mut pleg = Self::new(words);
        pleg.0.arg0("/usr/bin/kubectl_complete-pleg");
        pleg
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs the command as another user, without permissions; `None` with a message
    /// if that is not possible.
    pub fn with_other_user(mut self) -> Option<Self> {
        let program = self.0.get_program().to_owned();
        let mut probe = Command::new(program);
        probe
            .arg("--version")
            .stdout(Stdio::null())
            .uid(OTHER_USER)
            .gid(OTHER_USER);
        match probe.status() {
            Ok(status) if status.success() => {
                self.0.uid(OTHER_USER).gid(OTHER_USER);
                Some(self)
            }
            _ => {
                let why = "SKIPPED: the command cannot be run as another user from here";
                // Written to the process's standard error, because the harness captures
                // output of passing tests.
                let _ = writeln!(std::io::stderr(), "{why}");
                None
            }
        }
    }

    /// Runs the command to its end.
    #[track_caller]
    pub fn run(self) -> Ended {
        self.start().end(TEST_LIMIT)
    }

    /// Starts the command.
    pub fn start(mut self) -> Running {
        let child = self.0.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("pleg was built");
        let (out, out_reader) = lines_of(child.stdout.take().unwrap());
        let (err, err_reader) = lines_of(child.stderr.take().unwrap());
        Running {
            child,
            out,
            err,
            readers: vec![out_reader, err_reader],
            seen: Vec::new(),
            logged: String::new(),
        }
    }
}

fn lines_of(source: impl Read + Send + 'static) -> (Receiver<String>, JoinHandle<()>) {
    let (sender, receiver) = channel();
    let reader = std::thread::spawn(move || {
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        while source.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8(std::mem::take(&mut line)).expect("output is UTF-8");
            let _ = sender.send(text);
        }
    });
    (receiver, reader)
}

impl Running {
    /// The next line of the output that matches.
    #[track_caller]
    pub fn line(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let left = TEST_LIMIT.saturating_sub(begun.elapsed());
            let Ok(line) = self.out.recv_timeout(left) else {
                let seen = self.seen.concat();
                panic!("never came: {what}\nout: {seen}\nerr: {}", self.log());
            };
            self.seen.push(line.clone());
            if wanted(&line) {
                return line;
            }
        }
    }

    /// The next JSON record that matches.
    #[track_caller]
    pub fn record(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let line = self.line(what, |line| wanted(&json(line)));
        json(&line)
    }

    /// The log of the command until now.
    pub fn log(&mut self) -> &str {
        self.logged.extend(self.err.try_iter());
        &self.logged
    }

    /// The peak memory of the process, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes: u64 = peak.unwrap().trim_end_matches("kB").trim().parse().unwrap();
        kilobytes * 1024
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until the command ends, at most this long.
    #[track_caller]
    pub fn end(mut self, within: Duration) -> Ended {
        let begun = Instant::now();
        let status = eventually("the command ends", || {
            let status = self.child.try_wait().unwrap();
            let late = status.is_none() && begun.elapsed() > within;
            assert!(!late, "still running after {within:?}:\n{}", self.log());
            status
        });
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        self.log();
        self.seen.extend(self.out.try_iter());
        Ended {
            code: status.code(),
            out: self.seen.concat(),
            err: std::mem::take(&mut self.logged),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Usually the command has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    #[track_caller]
    pub fn assert_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Asserts that the command failed with one sentence, and returns the sentence.
    #[track_caller]
    pub fn sentence(self) -> String {
        let ended = self.assert_code(2);
        assert_eq!(ended.out, "");
        let said = ended.err.trim_end();
        let said = said
            .strip_prefix("pleg: ")
            .unwrap_or_else(|| panic!("{said}"));
        assert!(
            !said.contains('\n') && said.len() < 400,
            "one sentence: {said}"
        );
        said.to_owned()
    }

    /// The output as JSON lines.
    #[track_caller]
    pub fn records(&self) -> Vec<Value> {
        self.out.lines().map(json).collect()
    }

    /// The output as one JSON value.
    #[track_caller]
    pub fn value(&self) -> Value {
        json(&self.out)
    }
}

#[track_caller]
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("no JSON ({error}): {text:?}"))
}
