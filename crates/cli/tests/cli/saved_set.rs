//! An agent that starts during a fault uses the ids that the last agent saved.

use std::path::Path;

use pleg::runtime::Rpc;
use serde_json::Value;
use sim::Fault;

use crate::support::{Agent, FakeRuntime, Pleg, eventually};

/// The saved set, once it is complete: until then its file has another extension.
fn saved(folder: &Path) -> Option<Value> {
    let files = folder.read_dir().ok()?.filter_map(Result::ok);
    let mut paths = files.map(|file| file.path());
    let path = paths.find(|path| path.extension() == Some("json".as_ref()))?;
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[test]
fn while_a_list_hangs_the_ids_come_from_the_last_saved_set() {
    let runtime = FakeRuntime::with_pods(&[("web", &["app"]), ("db", &["app"])]);
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("made/by/us");
    let state = state.to_str().unwrap();
    let agent = Agent::keeping_state_in(state, &runtime.endpoint());
    agent.wait_healthy();
    let kept = eventually("a set is saved", || saved(state.as_ref()));
    assert_eq!(kept["ids"].as_array().unwrap().len(), 4, "{kept}");
    assert_eq!(
        kept.as_object().unwrap().len(),
        2,
        "ids and the endpoint: {kept}"
    );
    drop(agent);

    runtime.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some("db/app.0"), Fault::Hang);
    let look = ["pods", "-r", &runtime.endpoint(), "-o", "json"];
    let unknowing = Pleg::new(&look).run().assert_code(2);
    assert!(!unknowing.out.contains("web/app.0"), "{unknowing:?}");

    let look = Pleg::new(&look)
        .env("PLEG_STATE_DIR", state)
        .run()
        .assert_code(1);
    assert!(look.out.contains("web/app.0"), "{look:?}");
    let status = ["status", "--agent", "off", "-r", &runtime.endpoint()];
    let status = Pleg::new(&status)
        .env("PLEG_STATE_DIR", state)
        .run()
        .assert_code(1);
    assert!(
        status.out.contains("db/app.0"),
        "the culprit is named: {status:?}"
    );
}

#[test]
fn a_state_directory_that_cannot_be_written_is_logged_once() {
    let runtime = FakeRuntime::with_pods(&[("web", &["app"])]);
    let mut agent = Agent::keeping_state_in("/dev/null/nowhere", &runtime.endpoint());
    agent.wait_healthy();
    eventually("the agent says it", || {
        let said = "the known ids cannot be saved in /dev/null/nowhere";
        agent.log().contains(said).then_some(())
    });
    assert_eq!(agent.get("/livez").code, 200);
}
