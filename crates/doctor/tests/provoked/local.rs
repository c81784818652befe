//! The machine on which the tests run, and what a test may create on it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use causes::Cause;
use causes::finding::Finding;
use doctor::collect::helper::Helpers;
use doctor::collect::host::{Host, collect};
use doctor::diagnosis::diagnose;
use doctor::facts::{NodeFacts, ProbeFacts};
use pleg::model::wall_time::WallTime;

/// Prints why a test is skipped, directly to standard error, because the test harness shows only the output of
/// failing tests.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// The facts of this machine, without those of a runtime.
pub fn facts(host: &Host) -> NodeFacts {
    let mut helpers = Helpers::threads(3).expect("threads");
    let start = Instant::now();
    let host = collect(host, &mut helpers, || {
        sleep(Duration::from_secs(1));
        start.elapsed()
    });
    NodeFacts {
        taken: WallTime::from_unix_nanos(1_700_000_000_000_000_000).expect("a time"),
        probes: ProbeFacts::default(),
        host,
    }
}

/// The findings of a cause.
pub fn findings(facts: &NodeFacts, cause: Cause) -> Vec<Finding> {
    diagnose(facts, |wanted| wanted == cause).findings
}

/// The finding of a cause whose culprit is this process.
pub fn about(facts: &NodeFacts, cause: Cause, pid: u32) -> Option<Finding> {
    let mut found = findings(facts, cause).into_iter();
    found.find(|finding| finding.culprit.pid == Some(pid))
}

/// A process that ends with the test.
pub struct Running(pub Child);

impl Running {
    /// A shell that takes the name `name` and then runs `script`.
    pub fn shell(name: &str, script: &str) -> Self {
        Self::saying(&format!(
            "printf '%s' '{name}' > /proc/self/comm; echo ready >&2; {script}"
        ))
    }

    /// A shell whose script prints a line to standard error when it is ready.
    pub fn saying(script: &str) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        await_ready(child.stderr.as_mut().expect("a pipe"));
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

/// Waits for the first line, which must be `ready`.
pub fn await_ready(pipe: &mut impl Read) {
    let mut line = String::new();
    BufReader::with_capacity(1, pipe)
        .read_line(&mut line)
        .expect("to read");
    assert_eq!(line.trim(), "ready");
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A control group that a test creates. It must be dropped after the processes in it.
pub struct Group {
    folder: PathBuf,
    path: String,
}

impl Group {
    /// Creates a group in a hierarchy of version 1. If there is none, prints that and returns `None`.
    pub fn new(controller: &str, name: &str) -> Option<Self> {
        let path = format!("/doctor-{name}-{}", std::process::id());
        let folder = Path::new("/sys/fs/cgroup")
            .join(controller)
            .join(&path[1..]);
        match fs::create_dir(&folder) {
            Ok(()) => Some(Self { folder, path }),
            Err(error) => {
                skipped(&format!("{}: {error}", folder.display()));
                None
            }
        }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn write(&self, file: &str, text: &str) {
        let path = self.folder.join(file);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).expect("to read")
    }

    pub fn add(&self, process: &Running) {
        self.write("cgroup.procs", &process.pid().to_string());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A frozen process does not end.
        let _ = fs::write(self.folder.join("freezer.state"), "THAWED");
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }
}

/// A mount that a test creates.
pub struct Mount {
    path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl Mount {
    /// Mounts a small file system. If it cannot be mounted, prints that and returns `None`.
    pub fn small() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Self::of("tmpfs", "size=256k,nr_inodes=32", folder.path())?;
        mount._folder = Some(folder);
        Some(mount)
    }

    pub fn of(kind: &str, options: &str, path: &Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", kind, "-o", options, "none"])
            .arg(path)
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self {
                path: path.to_owned(),
                _folder: None,
            });
        }
        skipped(&format!("{kind} cannot be mounted here"));
        None
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
