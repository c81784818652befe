//! The agent diagnoses the node while something is wrong, and keeps what was seen.

use pleg::runtime::Rpc;
use sim::Fault;

use crate::support::{Agent, FakeRuntime, Pleg, eventually, value};

#[test]
fn a_trouble_is_diagnosed_once_and_kept_and_its_end_ends_the_finding() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["y"])]);
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("bundles");
    let section = format!("diagnosis:\n  directory: {}\n", folder.display());
    let agent = Agent::configured(&runtime.path(), &section);
    let status = || agent.get("/v1/status").json();
    eventually("it is healthy", || {
        (status()["health"]["state"] == "Healthy").then_some(())
    });
    assert_eq!(status().get("finding"), None);
    let sim = &runtime.sim;
    sim.fault(Rpc::ContainerStatus, Some("a/x.0"), Fault::Hang);
    sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let finding = eventually("it is diagnosed", || status().get("finding").cloned());
    let cause = finding["cause"].as_str().unwrap();
    let bundle = finding["bundle"].as_str().unwrap();
    assert!(bundle.starts_with(folder.to_str().unwrap()), "{bundle}");
    let again = Pleg::new(&["doctor", "-o", "json", "--from", bundle]);
    let again = again.run().assert_code(1).value();
    assert_eq!(again["findings"][0]["cause"], cause);
    let metrics = agent.get("/metrics").body;
    let labels = format!("pleg_finding{{cause=\"{cause}\",kind=\"trouble\"}}");
    assert_eq!(value(&metrics, &labels), Some(1.0), "{metrics}");
    let found = "pleg_diagnoses_total{result=\"found\"}";
    assert_eq!(value(&metrics, found), Some(1.0));
    sim.lift_all();
    eventually("the finding ends", || {
        status().get("finding").is_none().then_some(())
    });
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}
