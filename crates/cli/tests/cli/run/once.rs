//! `--once`: the run ends when all pods that can finish have finished.

use pleg::model::listed::ContainerState;
use rustix::process::Signal;

use super::node::{CHANGES, Node, job, pod, why};
use crate::support::TEST_LIMIT;

#[test]
fn once_ends_with_exit_code_0_when_all_pods_have_succeeded() {
    let node = Node::with("ok.yaml", &job("ok"));
    // The run does not wait for a pod that is always restarted.
    node.write("server.yaml", &pod("server", ""));
    let mut run = node.run_with(&["--once"]);
    node.wait_running("server");
    node.exit("ok", 0);
    run.pod("Succeeded");
    run.0.end(TEST_LIMIT).assert_code(0);
    assert_eq!(node.state("server"), Some(ContainerState::Running));
    // The job has finished, and the next run does not run it again.
    let before = node.changes();
    let run = node.run_with(&["--once"]);
    run.0.end(TEST_LIMIT).assert_code(0);
    let created = |changes: [usize; CHANGES.len()]| (changes[0], changes[3]);
    assert_eq!(created(node.changes()), created(before));
}

#[test]
fn once_ends_with_exit_code_1_when_a_pod_has_failed() {
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
    run.0.end(TEST_LIMIT).assert_code(1);
}

#[test]
fn once_ends_with_exit_code_2_if_a_job_has_not_finished() {
    let node = Node::with("job.yaml", &job("job"));
    let mut run = node.run_with(&["--once"]);
    run.pod("Running");
    node.remove("job.yaml");
    let ended = run.0.end(TEST_LIMIT).assert_code(2);
    let said = "the manifest of pod default/job was changed or removed before the pod had finished";
    assert!(ended.err.contains(said), "{}", ended.err);

    node.write("other.yaml", &job("other"));
    let mut run = node.run_with(&["--once"]);
    run.pod("Running");
    run.0.signal(Signal::TERM);
    let ended = run.0.end(TEST_LIMIT).assert_code(2);
    let said = "stopped before all pods had finished";
    assert!(ended.err.contains(said), "{}", ended.err);
}

#[test]
fn once_ends_with_exit_code_2_if_a_manifest_is_refused_or_no_pod_can_finish() {
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
