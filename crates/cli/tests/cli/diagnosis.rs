//! The agent diagnoses the node during a problem, and keeps the finding.

use pleg::runtime::Rpc;
use sim::Fault;

use crate::support::{Agent, FakeRuntime, Pleg, eventually, value};

#[test]
fn a_problem_is_diagnosed_once_until_it_ends() {
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

#[test]
fn after_recovery_a_snapshot_has_the_past_finding_with_culprit_and_advice() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["y"])]);
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    let section = format!("diagnosis:\n  directory: {}\n", path("bundles"));
    let agent = Agent::configured(&runtime.path(), &section);
    agent.wait_healthy();
    let sim = &runtime.sim;
    sim.fault(Rpc::ContainerStatus, Some("a/x.0"), Fault::Hang);
    sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let status = || agent.get("/v1/status").json();
    let finding = eventually("it is diagnosed", || status().get("finding").cloned());
    sim.lift_all();
    eventually("the node has recovered", || {
        let now = status();
        let is_well = now["health"]["state"] == "Healthy" && now.get("finding").is_none();
        is_well.then_some(())
    });
    let file = path("node.gz");
    let history = agent.history.path().to_str().unwrap().to_owned();
    let args = [
        "snapshot",
        "--agent",
        &agent.socket,
        "--history",
        &history,
        &file,
    ];
    Pleg::new(&args).run().assert_code(0);

    let json = |args: &[&str], code| {
        let run = Pleg::new(&[args, &["-o", "json"]].concat()).run();
        run.assert_code(code).value()
    };
    // The node is healthy now; the file still contains the problem.
    let diagnosed = json(&["doctor", "--from", &file], 0);
    let analyzed = json(&["analyze", &file], 1);
    for (value, verdict) in [(&diagnosed, Some("ok")), (&analyzed, None)] {
        assert_eq!(value["verdict"].as_str(), verdict);
        let [past] = &value["findings"].as_array().unwrap()[..] else {
            panic!("one fault: {value:#}");
        };
        assert_eq!(past["cause"], finding["cause"]);
        assert_eq!(past["past"], true);
        assert_eq!(past["foundAt"], finding["time"]);
        assert_eq!(past["culprit"]["container"], "x", "{past:#}");
        assert!(past["evidence"].as_array().unwrap().len() > 1, "{past:#}");
        assert!(!past["advice"].as_array().unwrap().is_empty(), "{past:#}");
        let summary = value["summary"].as_str().unwrap();
        assert!(summary.contains("; past, found at "), "{summary}");
        assert!(
            summary.ends_with(finding["sentence"].as_str().unwrap()),
            "{summary}"
        );
        assert_eq!(value["unexplained"].as_array(), None);
    }
    for command in [&["doctor", "--from", &*file][..], &["analyze", &*file]] {
        let page = Pleg::new(command).run().out;
        for part in [
            "Problem (past, found at ",
            "What to do if it happens again",
            "default/a",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("What to do now"), "{page}");
    }
    let npd = Pleg::new(&["doctor", "--npd", "--from", &file]).run();
    let npd = npd.assert_code(0).out;
    assert!(npd.starts_with("ok: ") && !npd.contains("more)"), "{npd}");
    let other = json(&["doctor", "--from", &file, "--check", "disk-full"], 0);
    assert_eq!(other["findings"], serde_json::json!([]));

    for from in [&file, &history] {
        let drawn = json(&["timeline", "--from", from], 0);
        let [cause] = &drawn["causes"].as_array().unwrap()[..] else {
            panic!("one fault: {drawn:#}");
        };
        assert_eq!(cause["cause"], finding["cause"]);
        assert!(
            cause["past"]
                .as_str()
                .unwrap()
                .starts_with("past, found at ")
        );
        assert!(!cause["steps"].as_array().unwrap().is_empty(), "{cause:#}");
        let summary = drawn["summary"].as_str().unwrap();
        assert!(summary.contains("Cause (past, found at "), "{summary}");
        let page = Pleg::new(&["timeline", "--from", from, "-o", "html"]).run();
        let page = page.assert_code(0).out;
        assert!(page.contains(" confidence; past, found at "), "{from}");
    }
}
