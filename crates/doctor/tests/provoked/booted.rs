//! A real systemd as process 1 of a container, with its own bus: on top of this machine's
//! files, of which it changes none.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use doctor::cause::Cause;
use doctor::collect::host::Host;
use doctor::facts::NodeFacts;
use doctor::facts::host::Reach;
use doctor::finding::Confidence;

use crate::local::{Running, facts, findings, skipped};

/// The folder is mounted in a namespace of its own: here it stays empty. Control groups
/// are made below one of the test's own, so that all of them can be removed.
const BOOT: &str = "for root in systemd unified; do group=/sys/fs/cgroup/$root/$2; \
    mkdir $group 2>/dev/null && echo $$ > $group/cgroup.procs; done; \
    mount --bind / \"$1\" && exec systemd-nspawn --directory=\"$1\" \
    --volatile=overlay --keep-unit --register=no --private-network --console=pipe --boot -- \
    systemd.unit=basic.target";

struct Booted {
    init: u32,
    group: String,
    nspawn: Running,
    _folder: tempfile::TempDir,
}

impl Booted {
    /// Under a name of the test's own.
    fn start(name: &str) -> Option<Self> {
        let installed = Command::new("systemd-nspawn")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if installed.is_err() {
            skipped("there is no systemd-nspawn (package systemd-container)");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let group = format!("doctor-{name}-{}", std::process::id());
        let nspawn = Command::new("unshare")
            .args(["--mount", "sh", "-c", BOOT, "boot"])
            .arg(folder.path())
            .arg(&group)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let nspawn = Running(nspawn.expect("unshare"));
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            sleep(Duration::from_millis(200));
            let Some(init) = child(nspawn.pid(), "systemd") else {
                continue;
            };
            let socket = format!("/proc/{init}/root/run/dbus/system_bus_socket");
            if fs::exists(socket).unwrap_or(false) {
                return Some(Self {
                    init,
                    group,
                    nspawn,
                    _folder: folder,
                });
            }
        }
        skipped("systemd did not boot in a container here");
        None
    }

    /// What is seen from the inside of the container.
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

impl Drop for Booted {
    fn drop(&mut self) {
        // With its first process the whole container ends, and nspawn after it, when it
        // has cleared up.
        self.signal(self.init, "-KILL");
        let deadline = Instant::now() + Duration::from_secs(10);
        while matches!(self.nspawn.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(Duration::from_millis(50));
        }
        let group = |root| format!("/sys/fs/cgroup/{root}/{}", self.group);
        let groups = ["systemd", "unified"].map(group);
        let _ = Command::new("find")
            .args(groups)
            .args(["-depth", "-type", "d", "-exec", "rmdir", "{}", ";"])
            .stderr(Stdio::null())
            .status();
    }
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
fn a_real_systemd_is_asked_and_its_silence_and_that_of_its_bus_are_told_apart() {
    let Some(booted) = Booted::start("booted") else {
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
    // Its private socket takes nobody from outside of its namespace of processes.
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
fn a_kubelet_that_systemd_starts_again_and_again_is_named_until_it_runs() {
    let Some(booted) = Booted::start("restarted") else {
        return;
    };
    booted.service("containerd.service", "", "exec sleep 1000");
    let again = "Restart=always\nRestartSec=100ms";
    let named = "printf kubelet > /proc/self/comm; sleep";
    booted.service("kubelet.service", again, &format!("{named} 0.2"));
    // The bus starts with the first connection, and the kubelet five times.
    let deadline = Instant::now() + Duration::from_secs(60);
    let seen = loop {
        let seen = booted.facts();
        if !findings(&seen, Cause::RepairLoop).is_empty() || Instant::now() > deadline {
            break seen;
        }
    };
    let found = findings(&seen, Cause::RepairLoop);
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

    // On another machine the bundle says the same.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("node.json.gz");
    doctor::bundle::write(&file, &seen).expect("a bundle");
    let read = doctor::bundle::read(&file).expect("a bundle");
    assert_eq!(findings(&read, Cause::RepairLoop), found);

    // One that just runs, and whose control group alone tells its unit.
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
