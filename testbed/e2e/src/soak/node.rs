//! The processes of the node: a containerd, a guard on a socket that this process keeps open, and an agent.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use guard_api::{Mode, StatusRequest};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testbed_driver::Testbed;

/// How long a guard may take to answer a request for its status.
const STATUS_WITHIN: Duration = Duration::from_secs(5);

/// How long a guard may take to end after SIGTERM.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct Node {
    pub(super) testbed: Testbed,
    programs: Programs,
    /// The guard's socket. Like systemd (pleg-guard.socket), this process keeps it open: callers wait while
    /// the guard restarts.
    listener: UnixListener,
    guard: Child,
    agent: Child,
    place: TempDir,
}

/// The paths of the programs under test.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The path of `pleg`.
    pub pleg: PathBuf,
    /// The path of `pleg-guard`.
    pub guard: PathBuf,
}

/// The resources that a process uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Anonymous memory in KiB.
    pub anonymous: u64,
    /// Open file descriptors.
    pub descriptors: u64,
}

impl Node {
    pub(super) fn start(testbed: Testbed, programs: Programs, mode: &str) -> Self {
        let place = tempfile::tempdir().expect("a temporary directory");
        let listener = UnixListener::bind(place.path().join("cri.sock")).expect("it is new");
        let guard = start_guard(&programs, &listener, place.path(), &testbed, mode);
        let agent = start_agent(&programs, place.path(), &testbed);
        Self {
            testbed,
            programs,
            listener,
            guard,
            agent,
            place,
        }
    }

    pub(super) fn guarded(&self) -> cri::Endpoint {
        cri::Endpoint::new(self.place.path().join("cri.sock"))
    }

    /// The status of the guard, with its counts since its start.
    pub(super) async fn guard_status(&self) -> Option<guard_api::Status> {
        let client = guard_api::Client::new(self.place.path().join("cri.sock"));
        let status = client.status(StatusRequest::default(), STATUS_WITHIN).await;
        status.ok()
    }

    pub(super) async fn set_mode(&self, mode: Mode) {
        let client = guard_api::Client::new(self.place.path().join("cri.sock"));
        let set = client.set_mode(mode, STATUS_WITHIN).await;
        set.expect("the guard changes its mode");
    }

    /// Ends the guard with this signal, and starts a new one, like systemd.
    pub(super) async fn replace_guard(&mut self, signal: Signal, mode: &str) {
        if signal == Signal::TERM {
            terminate(&self.guard);
            let deadline = std::time::Instant::now() + ENDS_WITHIN;
            while matches!(self.guard.try_wait(), Ok(None)) && std::time::Instant::now() < deadline
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        end(&mut self.guard);
        let place = self.place.path();
        self.guard = start_guard(&self.programs, &self.listener, place, &self.testbed, mode);
    }

    pub(super) fn replace_agent(&mut self) {
        end(&mut self.agent);
        self.agent = start_agent(&self.programs, self.place.path(), &self.testbed);
    }

    /// The current usage of the guard and the agent.
    pub(super) fn usage(&self) -> [Usage; 2] {
        [&self.guard, &self.agent].map(|process| usage(process.id()))
    }

    /// The panics in the guard's log.
    pub(super) fn panics(&self) -> Vec<String> {
        let log = fs::read_to_string(self.place.path().join("guard.log")).unwrap_or_default();
        let panics = log.lines().filter(|line| line.contains("panicked"));
        panics.map(str::to_owned).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        end(&mut self.guard);
        end(&mut self.agent);
    }
}

fn end(process: &mut Child) {
    // It may have ended by itself.
    let _ = process.kill();
    let _ = process.wait();
}

fn terminate(process: &Child) {
    let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
}

fn log(place: &Path, name: &str) -> File {
    let path = place.join(name);
    let log = File::options().create(true).append(true).open(path);
    log.expect("the temporary directory is writable")
}

fn start_guard(
    programs: &Programs,
    listener: &UnixListener,
    place: &Path,
    testbed: &Testbed,
    mode: &str,
) -> Child {
    let held = listener.try_clone().expect("a descriptor is free");
    // A supervisor passes the socket as descriptor 3 (sd_listen_fds(3)).
    let script = "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
    Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&programs.guard)
        .args(["-r", &testbed.endpoint().to_string(), "--mode", mode])
        .arg("--listen")
        .arg(place.join("cri.sock"))
        .env("PLEG_STATE_DIR", place)
        .stdin(Stdio::from(OwnedFd::from(held)))
        .stdout(Stdio::null())
        .stderr(log(place, "guard.log"))
        .spawn()
        .expect("sh is installed")
}

fn start_agent(programs: &Programs, place: &Path, testbed: &Testbed) -> Child {
    let config = place.join("config.yaml");
    let (socket, guard) = (place.join("agent.sock"), place.join("cri.sock"));
    let (socket, guard) = (socket.display(), guard.display());
    let lines = format!("socket: {socket}\nguard: {guard}\nlisten: 127.0.0.1:0\n");
    fs::write(&config, lines).expect("the temporary directory is writable");
    Command::new(&programs.pleg)
        .args(["agent", "-r", &testbed.endpoint().to_string(), "--config"])
        .arg(config)
        .env("PLEG_STATE_DIR", place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log(place, "agent.log"))
        .spawn()
        .expect("pleg was built")
}

/// The current usage of a process; zero if it has ended.
pub(super) fn usage(pid: u32) -> Usage {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
    Usage {
        anonymous: kib.unwrap_or_default(),
        descriptors: descriptors.map_or(0, |all| all.count() as u64),
    }
}
