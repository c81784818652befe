//! A guard as people start, switch and install it.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use pleg::runtime::Rpc;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{FakeRuntime, PATIENCE, Pleg, eventually, get, value};

const PODS: &[(&str, &[&str])] = &[("web", &["app"])];

/// A guard in a folder of its own; killed when it is dropped.
struct Guard {
    folder: TempDir,
    process: Child,
}

fn config(folder: &Path) -> String {
    let path = folder.join("agent.yaml");
    let socket = folder.join("agent.sock").display().to_string();
    fs::write(&path, format!("listen: 127.0.0.1:0\nsocket: {socket}\n")).unwrap();
    path.display().to_string()
}

impl Guard {
    fn start(runtime: &FakeRuntime) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = process(folder.path(), runtime, None);
        let guard = Self { folder, process };
        guard.wait();
        guard
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn wait(&self) {
        eventually("the guard's agent has seen the pods", || {
            let answers = Path::new(&self.path("agent.sock")).exists();
            (answers && get(&self.path("agent.sock"), "/readyz").code == 200).then_some(())
        });
    }

    fn status(&self) -> Value {
        get(&self.path("agent.sock"), "/v1/status").json()
    }

    fn mode(&self, mode: &str) {
        let socket = self.path("agent.sock");
        let switch = ["guard", "mode", mode, "--agent", &socket];
        Pleg::new(&switch).run().assert_code(0);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a guard; `held` is the socket that its supervisor holds for it.
fn process(folder: &Path, runtime: &FakeRuntime, held: Option<&UnixListener>) -> Child {
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
        .args(["-r", &runtime.endpoint(), "--config", &config(folder)])
        .args(["--listen", &folder.join("cri.sock").display().to_string()])
        .env("PLEG_STATE_DIR", folder)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap()
}

#[test]
fn a_guard_says_what_it_does_and_is_switched_while_it_runs() {
    let runtime = FakeRuntime::with_pods(PODS);
    let guard = Guard::start(&runtime);
    let cri = guard.path("cri.sock");
    for mode in ["guard", "shadow", "pass", "guard"] {
        guard.mode(mode);
        let shown = &guard.status()["guard"];
        assert_eq!(shown["mode"], mode);
        assert_eq!(shown["guarding"], false);
        assert_eq!(shown["differences"], 0);
        // Through it everything is as it is without it.
        let through = Pleg::new(&["pods", "-r", &cri, "--agent", "off", "-o", "json"]);
        let pods = through.run().assert_code(0).value();
        assert_eq!(pods[0]["name"], "web");
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
    let socket = guard.path("agent.sock");
    let wrong = Pleg::new(&["guard", "mode", "sideways", "--agent", &socket]);
    wrong.run().assert_code(2);
}

#[test]
fn whoever_watches_is_told_that_a_guard_answers_and_that_it_does_no_more() {
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
    // Of one of them the last known status is shown.
    let pods = Pleg::new(&["pods", "-r", &cri, "--agent", "off"]);
    pods.run().assert_code(1);
    let told = watch.record("the guard answers", |record| {
        is(record, "Degraded", "Guarding")
    });
    let message = told["message"].as_str().unwrap();
    assert!(
        message.starts_with("the guard answers in place of the runtime"),
        "{message}"
    );
    // The guard knows the culprit by its own calls.
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
fn its_agent_keeps_its_connection_when_mode_pass_leaves_the_events_to_others() {
    let runtime = FakeRuntime::with_pods(PODS);
    // As containerd, which does not open the stream before its first event.
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
    // Whatever is told until a pod that is new now has come.
    runtime.sim.lift_all();
    runtime.sim.run("new", &["app"]);
    watch.record("the new pod", |record| {
        assert_ne!(record["reason"], "RuntimeUnreachable", "{record}");
        record["type"] == "ContainerStarted"
    });
}

#[test]
fn while_the_whole_runtime_is_silent_a_guard_says_that_it_cannot_answer() {
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

#[test]
fn a_kubelet_is_served_also_while_others_have_the_sockets_of_the_guards_agent() {
    let runtime = FakeRuntime::with_pods(PODS);
    let folder = tempfile::tempdir().unwrap();
    let theirs = UnixListener::bind(folder.path().join("agent.sock")).unwrap();
    let process = process(folder.path(), &runtime, None);
    let guard = Guard { folder, process };
    let cri = guard.path("cri.sock");
    let asked = ["pods", "-r", &cri, "--agent", "off"];
    eventually("the kubelet is served", || {
        let pods = Pleg::new(&asked).run();
        (pods.code == Some(0) && pods.out.contains("web")).then_some(())
    });
    let log = fs::read_to_string(guard.path("log")).unwrap();
    assert!(log.contains("something already listens on"), "{log}");
    assert!(log.contains("The kubelet is served"), "{log}");
    drop(theirs);
    fs::remove_file(guard.path("agent.sock")).unwrap();
    guard.wait();
}

#[test]
fn its_agent_sees_a_runtime_go_and_come_back_as_it_would_without_a_guard() {
    let mut runtime = FakeRuntime::with_pods(PODS);
    let guard = Guard::start(&runtime);
    let until = |what: &str, wanted: &dyn Fn(&Value) -> bool| {
        eventually(what, || {
            let status = guard.status();
            wanted(&status["health"]).then_some(status)
        })
    };
    runtime.go_away();
    let status = until("it is gone", &|health| {
        health["reason"] == "RuntimeUnreachable"
    });
    let said = status["health"]["message"].as_str().unwrap();
    assert!(
        said.contains("no such file or directory") || said.contains("connection refused"),
        "{said}"
    );
    runtime.come_back();
    until("it is back", &|health| health["state"] == "Healthy");
}

#[test]
fn a_socket_that_a_supervisor_holds_outlives_the_guard() {
    let runtime = FakeRuntime::with_pods(PODS);
    let folder = tempfile::tempdir().unwrap();
    let held = UnixListener::bind(folder.path().join("cri.sock")).unwrap();
    let process_of = |folder: &Path| process(folder, &runtime, Some(&held));
    let mut guard = Guard {
        process: process_of(folder.path()),
        folder,
    };
    guard.wait();
    let cri = guard.path("cri.sock");
    let pods = || {
        let pods = Pleg::new(&["pods", "-r", &cri, "--agent", "off", "-o", "json"]);
        pods.run().assert_code(0).value()
    };
    assert_eq!(pods()[0]["name"], "web");

    guard.process.kill().unwrap();
    guard.process.wait().unwrap();
    let waiting = std::thread::scope(|scope| {
        // Nobody accepts: it waits, and is not refused.
        let waiting = scope.spawn(|| (pods(), Instant::now()));
        std::thread::sleep(std::time::Duration::from_millis(200));
        guard.process = process_of(guard.folder.path());
        waiting.join().unwrap()
    });
    assert_eq!(waiting.0[0]["name"], "web");
    assert!(waiting.1.elapsed() < PATIENCE);
}

#[test]
fn it_is_installed_and_taken_back_without_a_trace() {
    let runtime = FakeRuntime::with_pods(PODS);
    let units = tempfile::tempdir().unwrap();
    let directory = units.path().to_str().unwrap();
    let endpoint = runtime.endpoint();
    let options = ["--unit-directory", directory, "--listen", "/run/x/cri.sock"];
    let install = [&["guard", "install", "-r", &endpoint], &options[..]].concat();
    let said = Pleg::new(&install).run().assert_code(0).out;
    let setting = "containerRuntimeEndpoint: unix:///run/x/cri.sock\n";
    assert!(said.contains(setting), "{said}");
    let service = fs::read_to_string(units.path().join("pleg-guard.service")).unwrap();
    assert!(service.contains(&format!(" --runtime-endpoint {endpoint} ")));
    let socket = fs::read_to_string(units.path().join("pleg-guard.socket")).unwrap();
    assert!(socket.contains("ListenStream=/run/x/cri.sock\n"));

    let uninstall = ["guard", "uninstall", "--unit-directory", directory];
    let said = Pleg::new(&uninstall).run().assert_code(0).out;
    assert!(said.contains(&endpoint), "{said}");
    assert_eq!(fs::read_dir(units.path()).unwrap().count(), 0);
    Pleg::new(&uninstall).run().assert_code(2);
}

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
