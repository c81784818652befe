//! Scenarios are parsed, refused, checked and played.

use std::convert::Infallible;

use pleg::runtime::{CallError, Runtime};
use tokio::time::Instant;

use super::*;
use crate::{Fault, Flood, Malformation, Rpc, SERVED, Sim, StreamFault};

fn parsed(text: &str) -> Scenario {
    Scenario::parse("a.scenario", text).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    Scenario::parse("a.scenario", text).unwrap_err().to_string()
}

fn only(text: &str) -> Action {
    let scenario = parsed(&format!("0s {text}"));
    assert_eq!(scenario.steps().len(), 1);
    scenario.steps()[0].action.clone()
}

/// The performed actions, each with its time in seconds.
async fn played(scenario: &Scenario, sim: &Sim) -> Vec<String> {
    let mut lines = Vec::new();
    let start = Instant::now();
    let report = |played: Played| {
        assert_eq!(start.elapsed().as_millis(), played.at.as_millis());
        let failure = played.failure.map(|why| format!(": {why}"));
        let seconds = played.at.as_secs_f64();
        lines.push(format!(
            "{seconds} {}{}",
            played.action,
            failure.unwrap_or_default()
        ));
        Ok::<(), Infallible>(())
    };
    scenario.play(sim, report).await.unwrap();
    lines
}

#[test]
fn the_time_of_a_line_is_absolute_or_relative_to_the_line_before() {
    let scenario = parsed("# a day\n\n 1m0s stop a # to begin\n+1.5s  stop b\n2m stop c#d");
    let steps = scenario.steps().iter();
    let steps: Vec<_> = steps
        .map(|step| (step.line, step.at.as_secs_f64(), step.written()))
        .collect();
    assert_eq!(
        steps,
        [
            (3, 60.0, "stop a"),
            (4, 61.5, "stop b"),
            (5, 120.0, "stop c#d")
        ]
    );
}

#[test]
fn a_fault_applies_to_all_calls_of_a_method_or_to_one_id() {
    let calls = |rpc, of| Calls {
        rpcs: vec![rpc],
        of,
    };
    let name = ContainerName {
        pod: "web".to_owned(),
        container: "app".to_owned(),
    };
    assert_eq!(
        only("hang ListContainers"),
        Action::Fault(calls(Rpc::ListContainers, None), Fault::Hang)
    );
    assert_eq!(
        only("slow ContainerStatus of web/app by 1.5s"),
        Action::Fault(
            calls(Rpc::ContainerStatus, Some(Target::Container(name))),
            Fault::Slow(Duration::from_millis(1500))
        )
    );
    let id = Some(Target::Id("web.0".to_owned()));
    assert_eq!(
        only("fail PodSandboxStatus of id web.0 with refused no such luck"),
        Action::Fault(
            calls(Rpc::PodSandboxStatus, id),
            Fault::Fail(CallError::Refused("no such luck".into()))
        )
    );
    let Action::Fault(all, Fault::Hang) = only("hang everything") else {
        panic!("not a fault");
    };
    assert_eq!(all.rpcs, SERVED);
    let Action::Fault(lists, Fault::Hang) = only("hang statistics") else {
        panic!("not a fault");
    };
    assert_eq!(lists.rpcs.len(), 6);
    assert!(lists.rpcs.iter().all(|rpc| rpc.is_statistics()));
}

#[test]
fn faults_of_events_and_rates_of_churn_are_parsed() {
    let within = Duration::from_secs(2);
    assert_eq!(
        only("events scatter within 2s seed 7"),
        Action::SetStreamFault(StreamFault::Scatter { within, seed: 7 })
    );
    let churn = |period, duration| Action::Churn(Some(Churn { period, duration }));
    let ten = Some(Duration::from_secs(10));
    assert_eq!(
        only("churn 4/s for 10s"),
        churn(Duration::from_millis(250), ten)
    );
    assert_eq!(only("churn 12/m"), churn(Duration::from_secs(5), None));
    assert_eq!(only("churn off"), Action::Churn(None));
}

#[test]
fn behaviour_of_other_runtimes_is_parsed() {
    let name = ContainerName {
        pod: "web".to_owned(),
        container: "app".to_owned(),
    };
    let exit = |code, report| Action::Exit(name.clone(), code, report);
    assert_eq!(only("exit web/app"), exit(0, ExitReport::Prompt));
    assert_eq!(
        only("exit web/app unlisted"),
        exit(0, ExitReport::NotListed)
    );
    let delayed = ExitReport::CodeDelayed(Duration::from_secs(3));
    assert_eq!(
        only("exit web/app 143 reported-after 3s"),
        exit(143, delayed)
    );
    let (one, three) = (Duration::from_secs(1), Duration::from_secs(3));
    let Action::Fault(_, fault) = only("slow everything by 1s to 3s") else {
        panic!("not a fault");
    };
    assert_eq!(fault, Fault::Jitter(one, three));
    let Action::Fault(_, fault) = only("malformed PodSandboxStatus of-another") else {
        panic!("not a fault");
    };
    assert_eq!(fault, Fault::Malformed(Malformation::OfAnother));
    let Action::Fault(_, fault) = only("crash ContainerStatus of web/app for 3s") else {
        panic!("not a fault");
    };
    assert_eq!(fault, Fault::Crash(three));
    assert_eq!(
        only("events flood 20000"),
        Action::Flood(Flood::UnknownIds, 20_000)
    );
    assert_eq!(
        only("events flood 9 unknown-pods"),
        Action::Flood(Flood::UnknownPods, 9)
    );
    assert_eq!(only("stop-runtime"), Action::StopRuntime);
}

#[test]
fn an_error_shows_its_line_and_what_was_expected() {
    assert_eq!(
        refused("0s run web\n10s hang ListContainer # typo"),
        "a.scenario:2: expected a method of CRI (ListContainers, ContainerStatus, …), \
         statistics or everything, found \"ListContainer\"\n  \
           10s hang ListContainer # typo\n           ^^^^^^^^^^^^^"
    );
    assert_eq!(
        refused("0s run web\n10s hang Attach"),
        "a.scenario:2: the simulated runtime has no method Attach\n  \
           10s hang Attach\n           ^^^^^^"
    );
    assert_eq!(
        refused("5s slow Version by"),
        "a.scenario:1: expected a duration (500ms, 1.5s, 2m30s), found the end of the line\n  \
           5s slow Version by\n                    ^"
    );
}

#[test]
fn invalid_lines_are_refused_with_the_reason() {
    for (text, why) in [
        ("soon run web", "expected a time"),
        ("0s", "expected a verb"),
        ("0s dance", "expected a verb"),
        (
            "5s stop a\n1s stop b",
            "not before that of the line before (5s)",
        ),
        ("0s run web a a", "the name of another container"),
        ("0s run", "a pod's name"),
        ("0s exit web", "POD/CONTAINER"),
        ("0s exit web/app/x", "POD/CONTAINER"),
        ("0s exit web/app 256", "an exit code from 0 to 255"),
        ("0s remove web/", "POD or POD/CONTAINER"),
        ("0s churn 0/s", "a rate"),
        ("0s churn 1/h", "a rate"),
        ("0s churn -1/s", "a rate"),
        ("0s churn 9999999/s", "a rate"),
        (
            "0s hang ListContainers of web",
            "about one id, not ListContainers",
        ),
        ("0s hang Version web", "the end of the line"),
        ("0s fail Version with love", "an error (unavailable"),
        (
            "0s malformed ListContainers without-status",
            "where there is a status",
        ),
        ("0s oversize GetContainerEvents", "one answer"),
        ("0s exit web/app 1 later", "the end of the line"),
        ("0s exit web/app reported-after", "a duration"),
        ("0s slow Version by 1s to", "a duration"),
        ("0s malformed Status of-another", "where there is a status"),
        ("0s events flood 0", "a number from 1"),
        ("0s events drop", "expected every"),
        ("0s events drop every 0", "a number from 1"),
        ("0s events explode", "a fault of events"),
        ("0s end now", "the end of the line"),
    ] {
        let error = refused(text);
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn an_object_to_which_an_action_refers_must_exist() {
    let sim = Sim::new();
    sim.run("web", &["app"]);
    let check = |text| parsed(text).check(&sim.world(), sim.now());
    check("0s exit web/app 1\n1s restart web/app\n2s remove web\n3s run web").unwrap();
    for (text, why) in [
        ("0s stop db", "there is no pod \"db\""),
        (
            "0s hang ContainerStatus of web/x",
            "there is no container web/x",
        ),
        ("0s status-lock db/x", "there is no pod \"db\""),
        ("0s run web", "there is a pod \"web\" already"),
        (
            "0s exit web/app\n1s exit web/app",
            "container web/app does not run",
        ),
        ("0s remove web\n1s exit web/app", "there is no pod \"web\""),
    ] {
        let error = check(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_action_is_performed_at_its_time() {
    let sim = Sim::new();
    let scenario = parsed(
        "0s run web app\n\
         1.5s exit web/app 3\n\
         2s hang ListContainers\n\
         1h lift all\n\
         +1s remove web",
    );
    let (lines, hung) = tokio::join!(played(&scenario, &sim), async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        sim.list_containers().await.unwrap();
        sim.now()
    });
    assert_eq!(hung.since(Sim::new().now()), Duration::from_secs(3600));
    assert_eq!(
        lines,
        [
            "0 run web app",
            "1.5 exit web/app 3",
            "2 hang ListContainers",
            "3600 lift all",
            "3601 remove web"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_churn_restarts_containers_in_turn_and_keeps_the_last_exited_one_of_each_name() {
    let sim = Sim::new();
    let scenario = parsed("0s run a x y\n0s run b x\n0s churn 1/s for 7s\n1m end");
    let lines = played(&scenario, &sim).await;
    assert_eq!(
        lines[3..],
        [
            "1 restart a/x",
            "2 restart a/y",
            "3 restart b/x",
            "4 restart a/x",
            "5 restart a/y",
            "6 restart b/x",
            "7 restart a/x",
            "60 end"
        ]
    );
    let mut ids: Vec<_> = sim.world().pods["a"].containers.clone();
    ids.retain(|it| it.name == "x");
    let ids: Vec<_> = ids.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, ["a/x.2", "a/x.3"]);
}

#[tokio::test(start_paused = true)]
async fn an_action_on_a_removed_object_is_reported_as_failed_and_the_scenario_continues() {
    let sim = Sim::new();
    let scenario = parsed("0s stop web\n1s run db\n2s status-lock db/x\n3s end");
    assert_eq!(
        played(&scenario, &sim).await,
        [
            "0 stop web: there is no pod \"web\"",
            "1 run db",
            "2 status-lock db/x: there is no container db/x",
            "3 end"
        ]
    );
}
