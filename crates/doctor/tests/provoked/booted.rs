//! A real systemd as process 1 of a container, with its own bus: it boots from a folder that the testbed
//! fetches, or else from this machine's files, and changes none of them.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use causes::Cause;
use causes::finding::Confidence;
use doctor::collect::host::Host;
use doctor::facts::NodeFacts;
use doctor::facts::host::Reach;

use crate::local::{Running, facts, findings, skipped};

const BOOT: &str = include_str!("boot.sh");

/// The files of this machine that must exist to boot from it.
const COMPLETE: [&str; 4] = [
    "/lib/systemd/systemd",
    "/lib/systemd/system/dbus.socket",
    "/usr/bin/dbus-daemon",
    "/usr/bin/systemd-nspawn",
];

fn root() -> Option<PathBuf> {
    let packages = env::var_os("PLEG_TESTBED_CACHE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/testbed/packages"),
        PathBuf::from,
    );
    let fetched = packages.join("systemd");
    if fetched.exists() {
        return Some(fetched);
    }
    let complete = COMPLETE.iter().all(|file| Path::new(file).exists());
    complete.then(|| PathBuf::from("/"))
}

/// The shell that removes everything once its standard input is closed.
struct Keeper(Running);

struct Booted {
    init: u32,
    _keeper: Keeper,
}

impl Keeper {
    /// Starts the shell. Returns it with the process id of systemd-nspawn, if that was started.
    fn start(root: &Path) -> (Self, Option<u32>) {
        let mut shell = Command::new("sh")
            .args(["-c", BOOT, "boot"])
            .arg(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a shell");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("to read");
        (Self(Running(shell)), line.trim().parse().ok())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let shell = &mut self.0.0;
        drop(shell.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(15);
        while matches!(shell.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(Duration::from_millis(20));
        }
    }
}

impl Booted {
    fn start() -> Option<Self> {
        let Some(root) = root() else {
            skipped("there is no systemd to boot: `testbed/testbed fetch systemd` fetches one");
            return None;
        };
        let (keeper, nspawn) = Keeper::start(&root);
        let Some(init) = nspawn.and_then(await_bus) else {
            skipped("systemd did not boot in a container here");
            return None;
        };
        Some(Self {
            init,
            _keeper: keeper,
        })
    }

    /// The facts that are visible from inside the container.
    fn facts(&self) -> NodeFacts {
        let mut host = Host::at(format!("/proc/{}/root", self.init));
        host.step = Duration::from_secs(2);
        facts(&host)
    }

    /// Starts a service of this name in the container.
    fn service(&self, unit: &str, options: &str, script: &str) {
        let file = format!("/proc/{}/root/run/systemd/system/{unit}", self.init);
        let text = format!(
            "[Unit]\nDefaultDependencies=no\nStartLimitIntervalSec=0\n\
             [Service]\n{options}\nExecStart=/bin/sh -c '{script}'\n"
        );
        fs::create_dir_all(file.trim_end_matches(unit)).expect("a folder");
        fs::write(file, text).expect("to write");
        self.systemctl(&["daemon-reload"]);
        self.systemctl(&["start", unit]);
    }

    fn systemctl(&self, arguments: &[&str]) {
        let ended = Command::new("nsenter")
            .args(["--mount", "--pid", "--ipc", "--uts", "--root", "--target"])
            .arg(self.init.to_string())
            .arg("systemctl")
            .args(arguments)
            .output()
            .expect("nsenter");
        assert!(ended.status.success(), "{arguments:?}: {ended:?}");
    }

    fn signal(&self, pid: u32, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &pid.to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()));
    }
}

/// The first process of the container, as soon as the socket of its bus exists.
fn await_bus(nspawn: u32) -> Option<u32> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline && runs(nspawn) {
        let listens = |init: &u32| {
            fs::exists(format!("/proc/{init}/root/run/dbus/system_bus_socket")).unwrap_or(false)
        };
        let init = child(nspawn, "systemd").filter(listens);
        if init.is_some() {
            return init;
        }
        sleep(Duration::from_millis(100));
    }
    None
}

/// Whether a process runs. One that has ended, but was not waited for, has no executable file any more.
fn runs(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

fn child(parent: u32, name: &str) -> Option<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(&format!("({name}) ")) && stat.contains(&format!(" {parent} "))
    })
}

#[test]
fn a_real_systemd_that_does_not_answer_is_distinguished_from_its_bus_that_does_not() {
    let Some(booted) = Booted::start() else {
        return;
    };
    // The first connection starts the bus, to which systemd then connects.
    let mut seen = booted.facts();
    for _ in 0..10 {
        if matches!(seen.host.bus.owner.value(), Some(Some(_))) {
            break;
        }
        seen = booted.facts();
    }
    let bus = &seen.host.bus;
    assert_eq!(bus.reach.value(), Some(&Reach::Connected));
    // systemd's private socket accepts no connection from outside of its PID namespace.
    assert_eq!(bus.private.value(), None);
    let version = bus.systemd.value().expect("a version");
    assert!(
        version.starts_with(|first: char| first.is_ascii_digit()),
        "{version}"
    );
    let serial = bus.serial.value().expect("two answers");
    let grown = serial.later - serial.first;
    assert!((2..500).contains(&grown), "{serial:?}");
    for cause in [
        Cause::SystemdCookieOverflow,
        Cause::SystemdOverloaded,
        Cause::BusUnavailable,
    ] {
        assert_eq!(findings(&seen, cause), [], "{cause}");
    }

    booted.signal(booted.init, "-STOP");
    sleep(Duration::from_millis(500));
    let stopped = booted.facts();
    booted.signal(booted.init, "-CONT");
    let found = findings(&stopped, Cause::BusUnavailable);
    assert_eq!(found[0].confidence, Confidence::Certain, "{found:?}");
    assert!(found[0].evidence[0].contains("in state T"), "{found:?}");
    assert_eq!(found[0].culprit.pid, Some(1));

    let daemon = child(booted.init, "dbus-daemon").expect("a bus");
    booted.signal(daemon, "-STOP");
    let stopped = booted.facts();
    booted.signal(daemon, "-CONT");
    assert!(matches!(
        stopped.host.bus.reach.value(),
        Some(Reach::Silent { .. })
    ));
    let found = findings(&stopped, Cause::BusUnavailable);
    assert_eq!(found[0].confidence, Confidence::High, "{found:?}");
    assert_eq!(found[0].culprit.process.as_deref(), Some("dbus-daemon"));

    let again = booted.facts();
    assert_eq!(findings(&again, Cause::BusUnavailable), []);
}

#[test]
fn a_kubelet_whose_unit_has_failed_is_named_with_what_systemd_reports() {
    let Some(booted) = Booted::start() else {
        return;
    };
    booted.service("kubelet.service", "Restart=no", "exit 1");
    let deadline = Instant::now() + Duration::from_secs(30);
    let found = loop {
        let found = findings(&booted.facts(), Cause::KubeletNotRunning);
        if !found.is_empty() || Instant::now() > deadline {
            break found;
        }
    };
    assert_eq!(found.len(), 1, "{:?}", booted.facts().host.bus.services);
    assert_eq!(found[0].confidence, Confidence::Certain);
    let expected = "no kubelet is running: kubelet.service has failed";
    assert_eq!(found[0].sentence, expected);
}

#[test]
fn a_kubelet_that_systemd_starts_again_and_again_is_named_until_it_runs() {
    let Some(booted) = Booted::start() else {
        return;
    };
    booted.service("containerd.service", "", "exec sleep 1000");
    let again = "Restart=always\nRestartSec=100ms";
    let named = "printf kubelet > /proc/self/comm; sleep";
    booted.service("kubelet.service", again, &format!("{named} 0.2"));
    // The first connection starts the bus, and the kubelet is started five times. Whether this is reported
    // as exits or as a repair loop depends on how long the machine has been up.
    let loops = |seen: &NodeFacts| {
        let by_itself = findings(seen, Cause::KubeletNotRunning).into_iter();
        let by_itself = by_itself.filter(|found| found.culprit.pid.is_some());
        let repaired = findings(seen, Cause::RepairLoop);
        by_itself.chain(repaired).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let seen = loop {
        let seen = booted.facts();
        if !loops(&seen).is_empty() || Instant::now() > deadline {
            break seen;
        }
    };
    let found = loops(&seen);
    assert_eq!(found.len(), 1, "{found:?} {:?}", seen.host.bus.services);
    assert_eq!(found[0].culprit.unit.as_deref(), Some("kubelet.service"));
    assert!(found[0].confidence >= Confidence::Medium, "{found:?}");
    let services = seen.host.bus.services.value().expect("services");
    let runtime = services
        .iter()
        .find(|service| service.unit == "containerd.service");
    let runtime = runtime.expect("the runtime");
    assert_eq!(
        (runtime.state.as_str(), runtime.restarts),
        ("running", Some(0))
    );

    // On another machine, the bundle leads to the same findings.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("node.json.gz");
    doctor::bundle::write(&file, &seen).expect("a bundle");
    let read = doctor::bundle::read(&file).expect("a bundle");
    assert_eq!(loops(&read), found);

    // A kubelet that just runs, and whose unit is known from its control group alone.
    booted.systemctl(&["stop", "kubelet.service"]);
    let runs = "printf k3s-server > /proc/self/comm; sleep 1000";
    booted.service("k3s.service", again, runs);
    let well = booted.facts();
    let services = well.host.bus.services.value().expect("services");
    let of = |unit: &str| services.iter().find(|service| service.unit == unit);
    assert_eq!(of("kubelet.service"), None);
    let k3s = of("k3s.service").expect("the kubelet");
    assert_eq!(k3s.restarts, Some(0));
    let pid = k3s.main_pid.expect("a process");
    let process = well.host.process(pid).expect("a process");
    assert_eq!(process.service(), Some("k3s.service"));
    assert_eq!(findings(&well, Cause::RepairLoop), []);
}

#[test]
fn a_runtime_that_systemd_starts_again_and_again_is_named_with_its_unit() {
    let Some(booted) = Booted::start() else {
        return;
    };
    let again = "Restart=always\nRestartSec=100ms";
    let exits = "printf containerd > /proc/self/comm; sleep 0.2; exit 1";
    booted.service("containerd.service", again, exits);
    let deadline = Instant::now() + Duration::from_secs(60);
    let (seen, found) = loop {
        let seen = booted.facts();
        let found = findings(&seen, Cause::RuntimeRestartLoop);
        if !found.is_empty() || Instant::now() > deadline {
            break (seen, found);
        }
    };
    assert_eq!(found.len(), 1, "{:?}", seen.host.bus.services);
    assert!(found[0].confidence >= Confidence::Medium, "{found:?}");
    let unit = found[0].culprit.unit.as_deref();
    assert_eq!(unit, Some("containerd.service"));
    assert!(
        found[0]
            .sentence
            .starts_with("systemd has restarted containerd.service ")
    );
    // The service that is restarted is not a kubelet, and this machine is not set up for one.
    assert_eq!(findings(&seen, Cause::RepairLoop), []);
    assert_eq!(findings(&seen, Cause::KubeletNotRunning), []);
}
