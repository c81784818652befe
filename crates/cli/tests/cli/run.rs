//! `pleg run`: the pods of a folder of manifests on a simulated runtime.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pleg::model::listed::ContainerState;
use pleg::runtime::Rpc;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    Ended, FakeRuntime, PATIENCE, Pleg, Running, assert_keys, assert_time, eventually, get,
};

/// The calls that change something of a pod.
const CHANGES: [Rpc; 7] = [
    Rpc::RunPodSandbox,
    Rpc::StopPodSandbox,
    Rpc::RemovePodSandbox,
    Rpc::CreateContainer,
    Rpc::StartContainer,
    Rpc::StopContainer,
    Rpc::RemoveContainer,
];

/// A manifest of a pod with one container, and more lines of its spec.
fn pod(name: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\n\
         kind: Pod\n\
         metadata:\n  name: {name}\n\
         spec:\n{more}  terminationGracePeriodSeconds: 2\n  \
           containers:\n  - name: app\n    image: example.test/app:1\n"
    )
}

fn job(name: &str) -> String {
    pod(name, "  restartPolicy: Never\n")
}

/// A simulated runtime, with a folder for everything that is kept on a host.
struct Node {
    runtime: FakeRuntime,
    folder: TempDir,
}

impl Node {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("manifests")).unwrap();
        fs::write(folder.path().join("agent.yaml"), "relistPeriod: 100ms\n").unwrap();
        let runtime = FakeRuntime::with_pods(&[]);
        Self { runtime, folder }
    }

    fn with(file: &str, manifest: &str) -> Self {
        let node = Self::new();
        node.write(file, manifest);
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn manifest(&self, file: &str) -> PathBuf {
        self.path("manifests").join(file)
    }

    fn write(&self, file: &str, manifest: &str) {
        fs::write(self.manifest(file), manifest).unwrap();
    }

    fn remove(&self, file: &str) {
        fs::remove_file(self.manifest(file)).unwrap();
    }

    fn socket(&self, owner: &str) -> String {
        self.path(&format!("agent-{owner}.sock"))
            .display()
            .to_string()
    }

    /// `pleg run` for that owner, with nothing outside of the folder.
    fn command_of(&self, owner: &str, more: &[&str]) -> Pleg {
        let text = |name: &str| self.path(name).display().to_string();
        let (config, root, logs) = (text("agent.yaml"), text("root"), text("logs/pods"));
        let (socket, endpoint) = (self.socket(owner), self.runtime.endpoint());
        let args = [
            &["-v", "run", "-r", &endpoint, "--config", &config][..],
            &["--root-dir", &root, "--pod-logs-dir", &logs],
            &["--listen", &socket, "--listen", "127.0.0.1:0"],
            &["--owner", owner, "--node-name", "node-1"],
            more,
        ];
        Pleg::new(&args.concat()).env("PLEG_STATE_DIR", &text("state"))
    }

    fn command(&self, more: &[&str]) -> Pleg {
        let manifests = self.path("manifests").display().to_string();
        // Another test plays a kubelet.
        let usual = ["--manifests", &manifests, "--beside-kubelet"];
        self.command_of("test", &[&usual, more].concat())
    }

    fn run(&self) -> Run {
        self.run_with(&[])
    }

    fn run_with(&self, more: &[&str]) -> Run {
        Run(self.command(&[&["-o", "json"], more].concat()).start())
    }

    fn down(&self) -> Ended {
        let down = ["--down", "--beside-kubelet", "-o", "json"];
        self.command_of("test", &down).run()
    }

    /// How often each of the calls was made that change something.
    fn changes(&self) -> [usize; CHANGES.len()] {
        CHANGES.map(|call| self.runtime.sim.calls_made(call))
    }

    fn state(&self, pod: &str) -> Option<ContainerState> {
        let mut world = self.runtime.sim.world();
        let pod = world.pods.get_mut(pod)?;
        Some(pod.container("app")?.state)
    }

    #[track_caller]
    fn wait_running(&self, pod: &str) {
        eventually(&format!("{pod} runs"), || {
            (self.state(pod) == Some(ContainerState::Running)).then_some(())
        });
    }

    /// Ends the container of a pod that runs.
    #[track_caller]
    fn exit(&self, pod: &str, code: i32) {
        self.wait_running(pod);
        self.runtime.sim.exit(pod, "app", code);
    }

    fn pods(&self) -> Vec<String> {
        self.runtime.sim.world().pods.keys().cloned().collect()
    }

    /// Waits until the pods were looked at a few times more.
    #[track_caller]
    fn look_again(&self) {
        let lists = || self.runtime.sim.calls_made(Rpc::ListContainers);
        let before = lists();
        eventually("there are more looks", || {
            (lists() > before + 5).then_some(())
        });
    }
}

/// A run that tells what it decides in JSON.
struct Run(Running);

impl Run {
    /// The next line that is wanted; each one until then has the shape that was promised.
    #[track_caller]
    fn told(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.0.record(what, |line| {
            assert_line(line);
            wanted(line)
        })
    }

    #[track_caller]
    fn action(&mut self, action: &str) -> Value {
        self.told(action, |line| line["action"] == action)
    }

    /// The next line about the pod as a whole.
    #[track_caller]
    fn pod(&mut self, action: &str) -> Value {
        let wanted = |line: &Value| line["kind"] == "pod" && line["action"] == action;
        self.told(action, wanted)
    }

    /// Where it serves over TCP.
    #[track_caller]
    fn address(&mut self) -> String {
        eventually("it reports where it serves", || {
            let log = self.0.log();
            let after = log.split("serving health and metrics on http://").nth(1)?;
            let (address, _) = after.split_once('\n')?;
            Some(address.to_owned())
        })
    }

    #[track_caller]
    fn end(self, signal: Signal) -> Ended {
        self.0.signal(signal);
        self.0.end(PATIENCE)
    }
}

#[track_caller]
fn assert_line(line: &Value) {
    assert_keys(line, &["kind", "time", "pod", "container", "action", "why"]);
    assert_time(&line["time"]);
    let kinds = ["step", "wait", "probe", "pod", "manifest"];
    assert!(kinds.contains(&line["kind"].as_str().unwrap()), "{line}");
    if !line["pod"].is_null() {
        assert_keys(&line["pod"], &["uid", "namespace", "name"]);
    }
    assert!(line["container"].is_null() || line["container"].is_string());
    assert!(!line["action"].as_str().unwrap().is_empty());
    assert!(!line["why"].as_str().unwrap().is_empty());
}

fn why(line: &Value) -> &str {
    line["why"].as_str().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn a_pod_comes_up_and_each_decision_is_an_object_with_six_keys() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    let mut told = Vec::new();
    let mut next = |run: &mut Run| {
        let line = run.told("any line", |_| true);
        let kind = line["kind"].as_str().unwrap().to_owned();
        told.push((kind, line["action"].as_str().unwrap().to_owned()));
        line
    };
    let added = next(&mut run);
    assert_eq!(added["pod"]["namespace"], "default");
    assert_eq!(added["pod"]["name"], "web");
    assert_eq!(added["container"], Value::Null);
    assert_eq!(added["why"], "web.yaml");
    while next(&mut run)["action"] != "Ready" {}
    let told: Vec<_> = told.iter().map(|(kind, it)| (&**kind, &**it)).collect();
    assert_eq!(
        told,
        [
            ("manifest", "Add"),
            ("step", "CreateSandbox"),
            ("pod", "Pending"),
            ("step", "EnsureImage"),
            ("step", "CreateContainer"),
            ("step", "StartContainer"),
            ("pod", "Running"),
            ("pod", "Ready"),
        ]
    );
    assert_eq!(node.state("web"), Some(ContainerState::Running));
}

#[test]
fn people_see_the_same_as_a_table() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.command(&[]).start();
    let header = run.line("the columns", |_| true);
    let columns: Vec<_> = header.split_whitespace().collect();
    assert_eq!(
        columns,
        ["TIME", "(UTC)", "ACTION", "POD", "CONTAINER", "WHY"]
    );
    let started = run.line("a start", |line| line.contains("StartContainer"));
    let (_, said) = started.split_once("StartContainer").unwrap();
    let said: Vec<_> = said.split_whitespace().collect();
    assert_eq!(
        said.join(" "),
        "default/web app the container was created",
        "{started}"
    );
}

#[test]
fn a_container_that_exits_is_started_again_and_the_second_time_after_a_back_off() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    run.pod("Ready");
    node.exit("web", 3);
    let again = run.action("CreateContainer");
    assert_eq!(again["why"], "the container exited with code 3");
    run.pod("Ready");
    node.exit("web", 137);
    let waits = run.action("CrashLoopBackOff");
    assert_eq!(waits["kind"], "wait");
    assert_eq!(waits["container"], "app");
    assert_eq!(waits["why"], "back-off 10 s restarting the container");

    let socket = node.socket("test");
    let pods = |format: &str| {
        let args = ["pods", "--agent", &socket, "-o", format];
        Pleg::new(&args).run().assert_code(0)
    };
    let shown = pods("json").value();
    let its = &shown[0]["staticPod"];
    assert_keys(its, &["phase", "ready", "containers"]);
    assert_eq!(its["phase"], "Running");
    assert_eq!(its["ready"], false);
    let container = &its["containers"][0];
    assert_keys(container, &["name", "ready", "restarts", "waiting"]);
    assert_eq!(container["restarts"], 1);
    let waiting = &container["waiting"];
    assert_eq!(waiting["reason"], "CrashLoopBackOff");
    assert_eq!(waiting["message"], waits["why"]);
    let seconds = waiting["seconds"].as_f64().unwrap();
    assert!((0.0..=10.0).contains(&seconds), "{seconds}");

    let table = pods("text").out;
    let mut lines = table.lines();
    let header = lines.next().unwrap();
    assert!(header.trim_end().ends_with("READY  WAITING"), "{table}");
    let row = lines.find(|line| line.contains("exited (137)")).unwrap();
    assert!(row.contains("  no     CrashLoopBackOff ("), "{table}");
    run.pod("Ready");
}

#[test]
fn a_changed_manifest_replaces_its_pod_and_a_removed_one_ends_it() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    let first = run.pod("Ready");
    node.write("web.yaml", &pod("web", "  hostNetwork: true\n"));
    let killed = run.action("KillContainer");
    assert_eq!(killed["pod"], first["pod"]);
    assert_eq!(killed["why"], "the manifest was changed");
    let second = run.pod("Ready");
    assert_ne!(second["pod"]["uid"], first["pod"]["uid"]);
    assert_eq!(node.pods(), ["web"]);

    node.remove("web.yaml");
    let removed = run.action("Remove");
    assert_eq!(removed["kind"], "manifest");
    assert_eq!(removed["pod"], second["pod"]);
    let killed = run.action("KillContainer");
    assert_eq!(killed["why"], "the manifest was removed");
    run.pod("Gone");
    assert_eq!(node.pods(), Vec::<String>::new());
    // What was kept for it on the host is gone too.
    for folder in ["root/pods", "logs/pods"] {
        assert_eq!(names(&node.path(folder)), Vec::<String>::new(), "{folder}");
    }
}

#[test]
fn what_is_kept_on_the_host_is_where_the_options_say() {
    let node = Node::with("web.yaml", &pod("web", "  volumes: [{name: data}]\n"));
    let mut run = node.run();
    let uid = run.pod("Ready")["pod"]["uid"].clone();
    let uid = uid.as_str().unwrap();
    assert!(
        node.path("root/pods")
            .join(uid)
            .join("volumes/data")
            .is_dir()
    );
    let logs = format!("default_web_{uid}");
    assert_eq!(names(&node.path("logs/pods")), [logs]);
}

#[test]
fn the_runtime_is_told_absolute_paths_whatever_the_options_say() {
    let node = Node::with("web.yaml", &pod("web", "  volumes: [{name: data}]\n"));
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count() - 1);
    let relative = |name: &str| {
        let path = node.path(name).display().to_string();
        format!("{up}{}", path.trim_start_matches('/'))
    };
    let manifests = node.path("manifests").display().to_string();
    let args = [
        &["run", "--manifests", &manifests, "--beside-kubelet"][..],
        &["-r", &node.runtime.endpoint(), "-o", "json"],
        &["--root-dir", &relative("root")],
        &["--pod-logs-dir", &relative("logs/pods")],
        &["--listen", &node.socket("test"), "--listen", "127.0.0.1:0"],
    ];
    let state = node.path("state").display().to_string();
    let pleg = Pleg::new(&args.concat()).env("PLEG_STATE_DIR", &state);
    let mut run = Run(pleg.start());
    run.pod("Ready");
    let given = {
        let mut world = node.runtime.sim.world();
        let sandbox = world.pod("web").sandbox().unwrap();
        sandbox.given.clone().unwrap()
    };
    let logs = &given.sandbox_config.as_ref().unwrap().log_directory;
    assert!(logs.starts_with('/'), "{logs}");
    assert!(!names(&node.path("root/pods")).is_empty());
    assert_eq!(names(&node.path("logs/pods")).len(), 1);
}

/// A run ends by a signal, and the next one finds its pod as it was.
fn check_adoption(signal: Signal, code: Option<i32>) {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    let first = run.pod("Ready");
    assert_eq!(run.end(signal).code, code);
    assert_eq!(node.state("web"), Some(ContainerState::Running));
    let before = node.changes();

    let mut run = node.run();
    assert_eq!(run.pod("Ready")["pod"], first["pod"]);
    node.look_again();
    assert_eq!(node.changes(), before, "{CHANGES:?}");
    // Ready is not all: it is kept running.
    node.exit("web", 1);
    let again = run.action("CreateContainer");
    assert_eq!(again["why"], "the container exited with code 1");
    run.pod("Ready");
    assert_eq!(node.runtime.sim.calls_made(Rpc::RunPodSandbox), 1);
}

#[test]
fn sigterm_leaves_the_pods_running_and_the_next_run_adopts_them() {
    check_adoption(Signal::TERM, Some(0));
}

#[test]
fn so_does_ctrl_c() {
    check_adoption(Signal::INT, Some(0));
}

#[test]
fn after_kill_9_the_next_run_adopts_them_too() {
    check_adoption(Signal::KILL, None);
}

#[test]
fn it_stops_although_nobody_reads_what_it_writes() {
    let node = Node::new();
    // More than a pipe holds.
    let wrong = "x: 0\n".repeat(20);
    for number in 0..200 {
        node.write(&format!("{number}.yaml"), &pod("web", &wrong));
    }
    node.write("ok.yaml", &pod("ok", ""));
    let text = |name: &str| node.path(name).display().to_string();
    let mut run = Command::new(env!("CARGO_BIN_EXE_pleg"))
        .args(["run", "--beside-kubelet", "-r", &node.runtime.endpoint()])
        .args([
            "--manifests",
            &text("manifests"),
            "--root-dir",
            &text("root"),
        ])
        .args(["--pod-logs-dir", &text("logs/pods")])
        .args(["--listen", &node.socket("test"), "--listen", "127.0.0.1:0"])
        .env("PLEG_STATE_DIR", text("state"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    node.wait_running("ok");
    let begun = Instant::now();
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    let status = eventually("it ends", || run.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert!(begun.elapsed() < PATIENCE / 3, "{:?}", begun.elapsed());
}

#[test]
fn what_happened_to_manifests_meanwhile_is_done_by_the_next_run() {
    let node = Node::with("a.yaml", &pod("kept", ""));
    node.write("b.yaml", &pod("changed", ""));
    node.write("c.yaml", &pod("removed", ""));
    let mut run = node.run();
    for _ in 0..3 {
        run.pod("Ready");
    }
    run.end(Signal::KILL);
    node.write("b.yaml", &pod("changed", "  hostNetwork: true\n"));
    node.remove("c.yaml");

    let run = node.run();
    eventually("the removed one is gone", || {
        (node.pods() == ["changed", "kept"]).then_some(())
    });
    eventually("the changed one was replaced", || {
        (node.runtime.sim.calls_made(Rpc::RunPodSandbox) == 4).then_some(())
    });
    node.wait_running("changed");
    node.look_again();
    assert_eq!(node.runtime.sim.calls_made(Rpc::RunPodSandbox), 4);
    drop(run);
}

#[test]
fn down_ends_all_pods_of_the_owner_and_touches_no_other() {
    let node = Node::with("web.yaml", &pod("web", ""));
    // Nobody knows whose it is.
    node.runtime.sim.run("stranger", &["app"]);
    let mut run = node.run();
    run.pod("Ready");
    run.end(Signal::TERM);
    node.remove("web.yaml");
    node.write("theirs.yaml", &pod("theirs", ""));
    let manifests = node.path("manifests").display().to_string();
    let other = ["--manifests", &manifests, "--beside-kubelet", "-o", "json"];
    let mut other = Run(node.command_of("other", &other).start());
    other.pod("Ready");

    let lines = node.down().assert_code(0).records();
    lines.iter().for_each(assert_line);
    let killed = lines.iter().find(|line| line["action"] == "KillContainer");
    assert_eq!(killed.unwrap()["why"], "all pods are being ended");
    assert_eq!(lines.last().unwrap()["action"], "Gone");
    assert!(lines.iter().all(|line| line["pod"]["name"] == "web"));
    assert_eq!(node.pods(), ["stranger", "theirs"]);
    for pod in node.pods() {
        assert_eq!(node.state(&pod), Some(ContainerState::Running), "{pod}");
    }
    assert_eq!(node.runtime.sim.calls_made(Rpc::StopContainer), 1);
    // Nothing is left to end.
    assert_eq!(node.down().assert_code(0).out, "");
}

#[test]
fn once_ends_well_when_all_pods_have_succeeded() {
    let node = Node::with("ok.yaml", &job("ok"));
    // What never finishes is not waited for.
    node.write("server.yaml", &pod("server", ""));
    let mut run = node.run_with(&["--once"]);
    node.wait_running("server");
    node.exit("ok", 0);
    run.pod("Succeeded");
    run.0.end(PATIENCE).assert_code(0);
    assert_eq!(node.state("server"), Some(ContainerState::Running));
    // It has finished, and is not run again.
    let before = node.changes();
    let run = node.run_with(&["--once"]);
    run.0.end(PATIENCE).assert_code(0);
    let created = |changes: [usize; CHANGES.len()]| (changes[0], changes[3]);
    assert_eq!(created(node.changes()), created(before));
}

#[test]
fn once_tells_by_its_exit_code_that_a_pod_has_failed_and_names_the_container() {
    let node = Node::with("ok.yaml", &job("ok"));
    node.write("bad.yaml", &job("bad"));
    let mut run = node.run_with(&["--once"]);
    node.exit("ok", 0);
    node.exit("bad", 3);
    let failed = run.pod("Failed");
    assert_eq!(failed["pod"]["name"], "bad");
    let said = why(&failed);
    assert!(
        said.contains(": container app exited with code 3"),
        "{said}"
    );
    run.0.end(PATIENCE).assert_code(1);
}

#[test]
fn once_does_not_end_well_if_a_job_is_ended_or_it_is_stopped_before_the_job_has_finished() {
    let node = Node::with("job.yaml", &job("job"));
    let mut run = node.run_with(&["--once"]);
    run.pod("Running");
    node.remove("job.yaml");
    let ended = run.0.end(PATIENCE).assert_code(2);
    let said = "the manifest of pod default/job was changed or removed before the pod had finished";
    assert!(ended.err.contains(said), "{}", ended.err);

    node.write("other.yaml", &job("other"));
    let mut run = node.run_with(&["--once"]);
    run.pod("Running");
    run.0.signal(Signal::TERM);
    let ended = run.0.end(PATIENCE).assert_code(2);
    let said = "stopped before all pods had finished";
    assert!(ended.err.contains(said), "{}", ended.err);
}

#[test]
fn once_cannot_be_done_with_a_refused_manifest_or_if_no_pod_can_finish() {
    for (file, text, said) in [
        (
            "bad.yaml",
            job("job").replace("image", "imagee"),
            "pleg: bad.yaml was refused, so not all pods can be run\n",
        ),
        (
            "web.yaml",
            pod("web", ""),
            "pleg: no pod can finish: the restartPolicy of each is Always\n",
        ),
    ] {
        let node = Node::with(file, &text);
        let ended = node.command(&["--once"]).run().assert_code(2);
        assert!(ended.err.ends_with(said), "{}", ended.err);
    }
}

#[test]
fn an_unknown_field_is_refused_with_its_file_line_and_path() {
    let wrong = pod("web", "").replace("image:", "imagee:");
    let node = Node::with("web.yaml", &wrong);
    let mut run = node.run();
    let refused = run.action("Refuse");
    assert_eq!(refused["kind"], "manifest");
    assert_eq!(refused["pod"], Value::Null);
    let line = "web.yaml:9: spec.containers[0].imagee: unknown field, did you mean image?";
    let mut lines = why(&refused).lines();
    assert!(lines.any(|it| it == line), "{refused}");
    node.write("web.yaml", &pod("web", "  hostPID: true\n"));
    let refused = run.action("Refuse");
    assert_eq!(
        why(&refused),
        "web.yaml:6: spec.hostPID: not supported",
        "{refused}"
    );
    assert_eq!(node.changes(), [0; CHANGES.len()]);
    node.write("web.yaml", &pod("web", ""));
    run.action("Solve");
    run.pod("Ready");
}

#[test]
fn a_half_written_manifest_is_refused_and_its_pod_is_kept_as_it_was() {
    let whole = pod("web", "");
    let (half, _) = whole.split_once("  terminationGrace").unwrap();
    let node = Node::with("web.yaml", half);
    let mut run = node.run();
    let refused = run.action("Refuse");
    assert!(why(&refused).starts_with("web.yaml:"), "{refused}");
    node.write("web.yaml", &whole);
    run.action("Solve");
    let ready = run.pod("Ready");
    let before = node.changes();

    node.write("web.yaml", half);
    let refused = run.action("Refuse");
    assert_eq!(refused["pod"], ready["pod"]);
    let kept = "web.yaml: pod default/web is kept as it was";
    assert!(why(&refused).ends_with(kept), "{refused}");
    node.write("web.yaml", &whole);
    run.action("Solve");
    node.look_again();
    assert_eq!(node.changes(), before);
}

#[test]
fn of_two_files_that_define_one_pod_the_first_is_used_until_it_is_removed() {
    let node = Node::with("a.yaml", &pod("web", ""));
    node.write("b.yaml", &pod("web", "  hostNetwork: true\n"));
    let mut run = node.run();
    let refused = run.action("Refuse");
    assert_eq!(
        why(&refused),
        "b.yaml: pod default/web is already defined by a.yaml"
    );
    let first = run.pod("Ready");
    assert_eq!(node.pods(), ["web"]);
    node.remove("a.yaml");
    let second = run.pod("Ready");
    assert_ne!(second["pod"]["uid"], first["pod"]["uid"]);
    assert_eq!(node.pods(), ["web"]);
}

#[test]
fn hidden_files_and_folders_are_left_alone_and_links_are_followed() {
    let node = Node::new();
    // As a volume of a config map is: all links lead through one that is swapped.
    for (version, more) in [("..1", ""), ("..2", "  hostNetwork: true\n")] {
        fs::create_dir(node.manifest(version)).unwrap();
        node.write(&format!("{version}/web.yaml"), &pod("web", more));
    }
    symlink("..1", node.manifest("..data")).unwrap();
    symlink("..data/web.yaml", node.manifest("web.yaml")).unwrap();
    node.write(".web.yaml.swp", "not a manifest");
    fs::create_dir(node.manifest("more")).unwrap();
    node.write("more/other.yaml", &pod("other", ""));
    symlink("nowhere", node.manifest("z.yaml")).unwrap();

    let mut run = node.run();
    let refused = run.action("Refuse");
    assert_eq!(
        why(&refused),
        "z.yaml: cannot be read: the symbolic link leads nowhere"
    );
    let first = run.pod("Ready");
    assert_eq!(node.pods(), ["web"]);
    symlink("..2", node.manifest("..next")).unwrap();
    fs::rename(node.manifest("..next"), node.manifest("..data")).unwrap();
    let second = run.pod("Ready");
    assert_ne!(second["pod"]["uid"], first["pod"]["uid"]);
    assert_eq!(node.pods(), ["web"]);
}

#[test]
fn while_the_folder_is_gone_all_pods_are_kept() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    run.pod("Ready");
    let before = node.changes();
    let (here, away) = (node.path("manifests"), node.path("away"));
    fs::rename(&here, &away).unwrap();
    let refused = run.action("Refuse");
    let folder = here.display();
    assert_eq!(
        why(&refused),
        format!("{folder}: cannot be read: No such file or directory\n{folder}: all pods are kept")
    );
    node.look_again();
    assert_eq!(node.changes(), before);
    // They are still kept running.
    node.exit("web", 1);
    run.pod("Ready");
    fs::rename(&away, &here).unwrap();
    run.action("Solve");
    node.look_again();
    assert_eq!(node.runtime.sim.calls_made(Rpc::StopContainer), 0);
    node.remove("web.yaml");
    run.pod("Gone");
}

#[test]
fn beside_a_kubelet_it_does_not_start_unless_it_is_told_to() {
    let kubelet = match TcpListener::bind("127.0.0.1:10248") {
        Ok(kubelet) => kubelet,
        Err(error) => {
            let why = format!("SKIPPED: no kubelet can be played on port 10248: {error}");
            // Past the harness, which shows only what failing tests print.
            let _ = writeln!(std::io::stderr(), "{why}");
            return;
        }
    };
    let node = Node::with("web.yaml", &pod("web", ""));
    let manifests = node.path("manifests").display().to_string();
    let alone = node.command_of("test", &["--manifests", &manifests]).run();
    assert_eq!(
        alone.sentence(),
        "a kubelet runs on this node (it answers on 127.0.0.1:10248); \
         --beside-kubelet starts anyway"
    );
    assert_eq!(node.changes(), [0; CHANGES.len()]);
    node.run().pod("Ready");
    drop(kubelet);
}

#[test]
fn the_ready_condition_of_the_node_is_served_over_tcp_and_on_the_socket() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    let address = run.address();
    run.pod("Ready");
    for place in [address.as_str(), &node.socket("test")] {
        let answer = get(place, "/v1/node");
        assert_eq!(answer.code, 200, "{answer:?}");
        let condition = answer.json();
        assert_keys(
            &condition,
            &[
                "type",
                "status",
                "reason",
                "message",
                "lastHeartbeatTime",
                "lastTransitionTime",
            ],
        );
        assert_eq!(condition["type"], "Ready");
        assert_eq!(condition["status"], "True");
        assert_eq!(condition["reason"], "KubeletReady");
    }
    // Nothing else of it is shown to everybody.
    assert_eq!(get(&address, "/v1/pods").code, 404);
}

#[test]
fn a_pod_that_waits_for_the_network_is_told_and_shown() {
    let node = Node::with("web.yaml", &pod("web", ""));
    node.write("host.yaml", &pod("host", "  hostNetwork: true\n"));
    node.runtime.sim.world().network_error = Some("no plugin".to_owned());
    let mut run = node.run();
    let waits = run.action("NetworkNotReady");
    assert_eq!(waits["kind"], "wait");
    assert_eq!(waits["pod"]["name"], "web");
    assert_eq!(run.pod("Ready")["pod"]["name"], "host");
    let socket = node.socket("test");
    let condition = get(&socket, "/v1/node").json();
    assert_eq!(condition["status"], "False");
    let message = condition["message"].as_str().unwrap();
    assert!(message.ends_with("message:no plugin"), "{message}");
    let pods = Pleg::new(&["pods", "--agent", &socket]).run();
    let table = pods.assert_code(0).out;
    let row = table.lines().find(|line| line.contains(" web ")).unwrap();
    assert!(row.trim_end().ends_with("NetworkNotReady"), "{table}");

    node.runtime.sim.world().network_error = None;
    assert_eq!(run.pod("Ready")["pod"]["name"], "web");
}

#[test]
fn init_containers_that_have_succeeded_are_ready_and_do_not_make_the_pod_unready() {
    let init = "  initContainers: [{name: first, image: example.test/app:1}]\n";
    let node = Node::with("web.yaml", &pod("web", init));
    let mut run = node.run();
    eventually("the init container runs", || {
        let mut world = node.runtime.sim.world();
        let first = world.pods.get_mut("web")?.container("first")?;
        (first.state == ContainerState::Running).then_some(())
    });
    node.runtime.sim.exit("web", "first", 0);
    run.pod("Ready");
    node.exit("web", 1);
    let not_ready = run.pod("NotReady");
    assert_eq!(why(&not_ready), "container app is not ready");
    run.pod("Ready");
    let socket = node.socket("test");
    let pods = Pleg::new(&["pods", "--agent", &socket, "-o", "json"]).run();
    let containers = &pods.assert_code(0).value()[0]["staticPod"]["containers"];
    assert_eq!(containers[0]["name"], "first");
    assert_eq!(containers[0]["ready"], true);
}

#[test]
fn beside_a_stuck_pod_the_others_are_worked_on_and_the_node_stays_ready() {
    let node = Node::with("innocent.yaml", &pod("innocent", ""));
    node.runtime.sim.run("stuck", &["app"]);
    let config = "relistPeriod: 100ms\nrelistThreshold: 2s\n";
    fs::write(node.path("agent.yaml"), config).unwrap();
    let mut run = node.run();
    run.pod("Ready");
    node.runtime.sim.status_lock("stuck", "app");
    let socket = node.socket("test");
    eventually("the lists hang", || {
        let status = get(&socket, "/v1/status").json();
        (status["health"]["state"] == "Degraded").then_some(())
    });
    // Twice the threshold.
    std::thread::sleep(Duration::from_secs(4));
    let condition = get(&socket, "/v1/node").json();
    assert_eq!(condition["status"], "True", "{condition}");
    node.runtime.sim.exit("innocent", "app", 1);
    // The simulated runtime creates nothing while the lock is held.
    run.action("CreateContainer");
    node.runtime.sim.status_unlock("stuck", "app");
    run.pod("Ready");
}

#[test]
fn what_cannot_be_begun_is_one_sentence() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let run = |manifests: &str, endpoint: &str| {
        let args = ["--manifests", manifests, "--beside-kubelet", "-r", endpoint];
        let text = |name: &str| node.path(name).display().to_string();
        let (root, socket) = (text("root"), node.socket("test"));
        let places = [
            "--root-dir",
            &root,
            "--listen",
            &socket,
            "--listen",
            "127.0.0.1:0",
        ];
        let pleg = Pleg::new(&[&["run"], &args[..], &places].concat());
        pleg.env("PLEG_STATE_DIR", &text("state")).run().sentence()
    };
    let here = node.path("manifests").display().to_string();
    let endpoint = node.runtime.endpoint();
    let nowhere = node.path("nowhere").display().to_string();
    assert_eq!(
        run(&nowhere, &endpoint),
        format!("cannot read the manifests in {nowhere}: no such file or directory")
    );
    let file = node.manifest("web.yaml").display().to_string();
    assert_eq!(
        run(&file, &endpoint),
        format!("cannot read the manifests in {file}: not a directory")
    );
    let said = run(&here, &format!("unix://{nowhere}"));
    let expected = format!("no container runtime at unix://{nowhere}: ");
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.ends_with("no such file or directory"), "{said}");
    let said = run(&here, "tcp://runtime:1");
    assert!(said.contains("is not a unix socket"), "{said}");
}

#[test]
fn of_one_owner_there_is_one_run_at_a_time() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    run.pod("Ready");
    let second = node.command(&[]).run().assert_code(2);
    let said = "something already listens on";
    assert!(second.err.contains(said), "{}", second.err);
    let before = node.changes();
    node.look_again();
    assert_eq!(node.changes(), before);
}

#[test]
fn an_owner_is_a_name_and_options_that_contradict_each_other_are_refused() {
    let node = Node::new();
    let manifests = node.path("manifests").display().to_string();
    for args in [
        &["run"][..],
        &["run", "--down", "--manifests", &manifests],
        &["run", "--down", "--once"],
        &["run", "--manifests", &manifests, "--owner", "a/b"],
        &["run", "--manifests", &manifests, "--owner", ""],
        &["run", "--manifests", &manifests, "--owner", "cri"],
        &["run", "--manifests", &manifests, "--owner", "agent"],
        &["run", "--manifests", &manifests, "--policy", "all"],
    ] {
        let ended = Pleg::new(args).run().assert_code(2);
        assert_eq!(ended.out, "", "{args:?}");
    }
}
