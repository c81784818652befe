//! A guard as an operator starts, switches and installs it.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pleg::runtime::Rpc;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{FakeRuntime, Pleg, eventually, get, value};

mod ended;
mod installed;

const PODS: &[(&str, &[&str])] = &[("web", &["app"])];

/// A guard and an agent in a temporary folder; killed when this is dropped.
struct Guard {
    folder: TempDir,
    process: Child,
    agent: Child,
}

impl Guard {
    fn start(runtime: &FakeRuntime) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = start_guard(folder.path(), runtime, None);
        wait_for_guard(folder.path());
        let agent = start_agent(folder.path(), runtime);
        let guard = Self {
            folder,
            process,
            agent,
        };
        guard.wait();
        guard
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn wait(&self) {
        eventually("the agent has seen the pods and the guard", || {
            let answers = UnixStream::connect(self.path("agent.sock")).is_ok();
            let is_ready = answers && get(&self.path("agent.sock"), "/readyz").code == 200;
            (is_ready && self.status()["guard"]["mode"] != "off").then_some(())
        });
    }

    fn status(&self) -> Value {
        get(&self.path("agent.sock"), "/v1/status").json()
    }

    fn mode(&self, mode: &str) {
        let socket = self.path("cri.sock");
        let switch = ["guard", "mode", mode, "--listen", &socket];
        let said = Pleg::new(&switch).run().assert_code(0).out;
        assert!(said.starts_with(&format!("{mode}: ")), "{said}");
    }

    /// The pods that a kubelet behind the guard observes.
    fn listed(&self) -> Value {
        let cri = self.path("cri.sock");
        let pods = Pleg::new(&["pods", "-r", &cri, "--agent", "off", "-o", "json"]);
        pods.run().assert_code(0).value()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for process in [&mut self.process, &mut self.agent] {
            end(process);
        }
    }
}

fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}

fn start_agent(folder: &Path, runtime: &FakeRuntime) -> Child {
    let config = folder.join("agent.yaml");
    let socket = folder.join("agent.sock").display().to_string();
    fs::write(&config, format!("listen: 127.0.0.1:0\nsocket: {socket}\n")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_pleg"))
        .args(["agent", "-r", &runtime.endpoint(), "--config"])
        .arg(config)
        .env("PLEG_STATE_DIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("agent.log")).unwrap())
        .spawn()
        .unwrap()
}

/// Starts a guard; `held` is the socket that its supervisor holds for it.
fn start_guard(folder: &Path, runtime: &FakeRuntime, held: Option<&UnixListener>) -> Child {
    let program = Path::new(env!("CARGO_BIN_EXE_pleg")).with_file_name("pleg-guard");
    assert!(
        program.exists(),
        "{} was not built: `cargo test` of the whole workspace builds it",
        program.display()
    );
    // A supervisor puts the socket at the descriptor 3 (sd_listen_fds(3)).
    let script = match held {
        Some(_) => "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"",
        None => "exec \"$@\"",
    };
    let stdin = match held {
        Some(socket) => Stdio::from(OwnedFd::from(socket.try_clone().unwrap())),
        None => Stdio::null(),
    };
    Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_pleg"), "guard"])
        .args(["-r", &runtime.endpoint()])
        .args(["--listen", &folder.join("cri.sock").display().to_string()])
        .env("PLEG_STATE_DIR", folder)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap()
}

fn wait_for_guard(folder: &Path) {
    eventually("the guard listens", || {
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        log.contains("guarding unix://").then_some(())
    });
}

#[test]
fn the_mode_of_a_running_guard_is_shown_and_changed() {
    let runtime = FakeRuntime::with_pods(PODS);
    let guard = Guard::start(&runtime);
    let cri = guard.path("cri.sock");
    for mode in ["guard", "shadow", "pass", "guard"] {
        guard.mode(mode);
        let shown = &guard.status()["guard"];
        assert_eq!(shown["mode"], mode);
        assert_eq!(shown["guarding"], false);
        assert_eq!(shown["differences"], 0);
        // Through the guard, the answer is the same as without it.
        assert_eq!(guard.listed()[0]["name"], "web");
        let printed = Pleg::new(&["guard", "mode", "--listen", &cri, "-o", "json"]);
        assert_eq!(printed.run().assert_code(0).value()["mode"], mode);
    }
    let metrics = get(&guard.path("agent.sock"), "/metrics").body;
    let of = |series: &str| value(&metrics, series);
    assert_eq!(of("pleg_guard_mode{mode=\"guard\"}"), Some(1.0));
    assert_eq!(of("pleg_guard_guarding"), Some(0.0));
    assert_eq!(of("pleg_guard_differences_total"), Some(0.0));
    assert!(
        of("pleg_guard_added_seconds_count") > Some(4.0),
        "{metrics}"
    );
    assert_eq!(of("pleg_guard_unresponsive"), Some(0.0));
    let wrong = Pleg::new(&["guard", "mode", "sideways", "--listen", &cri]);
    wrong.run().assert_code(2);
    let runtime = runtime.endpoint();
    let none = Pleg::new(&["guard", "mode", "--listen", &runtime]);
    let said = none.run().assert_code(2).err;
    assert!(said.contains("no guard serves"), "{said}");
}

#[test]
fn a_watch_reports_when_a_guard_begins_and_stops_answering() {
    let runtime = FakeRuntime::with_pods(&[("web", &["app"]), ("shop", &["app"])]);
    let guard = Guard::start(&runtime);
    let socket = guard.path("agent.sock");
    let mut watch = Pleg::new(&["watch", "-o", "json", "--agent", &socket]).start();
    let is = |record: &Value, state: &str, reason: &str| {
        record["kind"] == "health" && record["state"] == state && record["reason"] == reason
    };
    watch.record("it is well", |record| is(record, "Healthy", "AllSeen"));
    runtime.sim.status_lock("web", "app");
    let cri = guard.path("cri.sock");
    // One of the pods is shown with its last known status, so the exit code is 1.
    let pods = Pleg::new(&["pods", "-r", &cri, "--agent", "off"]);
    pods.run().assert_code(1);
    let record = watch.record("the guard answers", |record| {
        is(record, "Degraded", "Guarding")
    });
    let message = record["message"].as_str().unwrap();
    assert!(
        message.starts_with("the guard answers in place of the runtime"),
        "{message}"
    );
    // The guard's own calls show the culprit.
    let culprits = eventually("the culprit is known", || {
        let status = guard.status();
        let culprits = status["guard"]["culprits"].clone();
        (!culprits.as_array().unwrap().is_empty()).then_some(culprits)
    });
    assert_eq!(culprits[0]["id"], "web/app.0");
    assert_eq!(culprits[0]["pod"]["name"], "web");
    runtime.sim.lift_all();
    watch.record("it is well again", |record| {
        is(record, "Healthy", "AllSeen")
    });
}

#[test]
fn an_agent_keeps_its_connection_when_mode_pass_leaves_the_events_to_others() {
    let runtime = FakeRuntime::with_pods(PODS);
    // Like containerd, which opens the stream with its first event.
    runtime
        .sim
        .fault(Rpc::GetContainerEvents, None, sim::Fault::Hang);
    let guard = Guard::start(&runtime);
    let socket = guard.path("agent.sock");
    let mut watch = Pleg::new(&["watch", "-o", "json", "--agent", &socket]).start();
    watch.record("it is well", |record| {
        record["kind"] == "health" && record["state"] == "Healthy"
    });
    runtime
        .sim
        .fault(Rpc::ListContainers, None, sim::Fault::Hang);
    watch.record("a list hangs", |record| {
        record["kind"] == "health" && record["state"] == "Degraded"
    });
    guard.mode("pass");
    // Checks all records until the event of a new pod.
    runtime.sim.lift_all();
    runtime.sim.run("new", &["app"]);
    watch.record("the new pod", |record| {
        assert_ne!(record["reason"], "RuntimeUnreachable", "{record}");
        record["type"] == "ContainerStarted"
    });
}

#[test]
fn while_the_runtime_is_unresponsive_a_guard_reports_that_it_cannot_answer() {
    let runtime = FakeRuntime::with_pods(PODS);
    let guard = Guard::start(&runtime);
    let socket = guard.path("agent.sock");
    for call in pleg::runtime::CALLS {
        runtime.sim.fault(call, None, sim::Fault::Hang);
    }
    let cri = guard.path("cri.sock");
    let _asking = Pleg::new(&["pods", "-r", &cri, "--agent", "off"]).start();
    eventually("the guard has nothing to answer from", || {
        let status = guard.status();
        assert_eq!(status["guard"]["guarding"], false, "{status}");
        (status["guard"]["runtimeSilent"] == true).then_some(())
    });
    let page = Pleg::new(&["status", "--agent", &socket]).run();
    let says = "cannot answer lists: the runtime answers no call";
    assert!(page.out.contains(says), "{}", page.out);
    assert!(!page.out.contains("in place of"), "{}", page.out);
    runtime.sim.lift_all();
    eventually("it is over", || {
        (guard.status()["guard"]["runtimeSilent"] == false).then_some(())
    });
}

/// Enforces D2.
#[test]
fn on_the_socket_of_a_guard_the_runtime_behind_it_is_diagnosed() {
    let runtime = FakeRuntime::with_pods(PODS);
    let guard = Guard::start(&runtime);
    let cri = guard.path("cri.sock");
    let bundle = guard.path("bundle.json.gz");
    let agent = guard.path("agent.sock");
    let diagnose = ["doctor", "-o", "json", "-r", &cri, "--agent", &agent];
    let diagnose = [&diagnose[..], &["--bundle", &bundle]].concat();
    let found = Pleg::new(&diagnose).run();
    assert!(found.value()["guard"]["mode"] == "guard", "{}", found.out);
    let bundle = flate2::read::GzDecoder::new(File::open(&bundle).unwrap());
    let bundle: Value = serde_json::from_reader(bundle).unwrap();
    let probed = format!("\"endpoint\":\"{}\"", runtime.endpoint());
    assert!(bundle.to_string().contains(&probed), "{bundle:#}");
}
