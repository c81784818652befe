//! Pods with names of every unprintable character: those that end a line of a log or a table, control
//! the terminal, or change the direction of text.

use pleg::runtime::{CallError, Rpc};
use rustix::process::Signal;
use sim::Fault;

use crate::support::{Agent, Ended, FakeRuntime, Pleg, TEST_LIMIT, eventually, without_colours};

/// The number of unprintable characters in a name. There are several names, because a name is cut at
/// the maximum length.
const IN_A_NAME: usize = 24;

/// Names that together contain every unprintable character.
fn hostile_names() -> Vec<String> {
    let unprintable: Vec<char> = ('\0'..=char::MAX)
        .filter(|character| !pleg_text::escape::is_printable(*character))
        .collect();
    let chunks = unprintable.chunks(IN_A_NAME).enumerate();
    chunks
        .map(|(number, chunk)| {
            let evil: String = chunk
                .iter()
                .map(|character| format!("{character}x"))
                .collect();
            format!("evil-{number}-{evil}")
        })
        .collect()
}

/// A name as it is shown, escaped.
fn escaped(name: &str) -> String {
    let characters = name.chars().map(|character| match character {
        printable if pleg_text::escape::is_printable(printable) => printable.to_string(),
        other => other.escape_default().to_string(),
    });
    characters.collect()
}

#[track_caller]
fn assert_harmless(what: &str, text: &str) {
    let text = without_colours(text);
    let odd = text
        .chars()
        .find(|c| *c != '\n' && !pleg_text::escape::is_printable(*c));
    assert_eq!(odd, None, "{what}: {text:?}");
}

#[track_caller]
fn assert_harmless_output(what: &str, ended: &Ended) {
    assert_harmless(what, &ended.out);
    assert_harmless(what, &ended.err);
}

/// `pleg` with the most verbose log, and with colours.
fn colourful(args: &[&str]) -> Pleg {
    let args = [&["-vv"], args].concat();
    Pleg::new(&args).env("CLICOLOR_FORCE", "1")
}

/// A runtime where a call about each of these pods hangs or fails.
fn runtime_in_trouble(names: &[String], fault: &Fault) -> (FakeRuntime, Agent) {
    let mut runtime = FakeRuntime::nowhere();
    for name in names {
        runtime.sim.run(name, &["app"]);
    }
    runtime.come_back();
    let agent = Agent::configured(&runtime.endpoint(), "statusOverdue: 50ms\n");
    agent.wait_healthy();
    for name in names {
        let id = format!("{name}/app.0");
        runtime
            .sim
            .fault(Rpc::ContainerStatus, Some(&id), fault.clone());
        runtime.sim.exit(name, "app", 1);
    }
    (runtime, agent)
}

#[test]
fn names_are_escaped_in_tables_pages_warnings_and_events() {
    let names = hostile_names();
    let (_runtime, agent) = runtime_in_trouble(&names, &Fault::Hang);
    agent.wait("/v1/status", |answer| {
        answer.json()["stuck"].as_array().unwrap().len() == names.len()
    });
    let at_agent = |command: &str| {
        let ended = colourful(&[command, "--agent", &agent.socket]).run();
        assert_harmless_output(command, &ended);
        ended
    };
    let pods = at_agent("pods").assert_code(1);
    let status = at_agent("status").assert_code(0);
    for name in &names {
        let name = escaped(name);
        assert!(pods.out.contains(&name), "{name} in {}", pods.out);
        assert!(pods.err.contains(&name), "{name} in {}", pods.err);
        assert!(status.out.contains(&name), "{name} in {}", status.out);
    }
    // Each pod has a row, and each call has a warning.
    assert_eq!(pods.out.lines().count(), 1 + names.len(), "{}", pods.out);
    let warnings = pods.err.lines().filter(|line| line.contains("WARN"));
    let is_about = |line: &&str| line.contains("has not answered for");
    assert_eq!(warnings.filter(is_about).count(), names.len());

    let mut watch = colourful(&["watch", "--agent", &agent.socket]).start();
    watch.line("the health", |line| line.contains("Degraded"));
    watch.signal(Signal::TERM);
    let watch = watch.end(TEST_LIMIT).assert_code(0);
    assert_harmless_output("watch", &watch);
    for path in ["/healthz?verbose", "/healthz", "/readyz", "/metrics"] {
        assert_harmless(path, &agent.get(path).body);
    }
    let health = agent.get("/healthz?verbose").body;
    assert!(health.contains("evil-"), "{health}");
    assert_eq!(health.lines().count(), 1, "{health}");
}

#[test]
fn failures_are_escaped_in_warnings_errors_and_the_log() {
    let said: String = hostile_names().concat();
    let failure = Fault::Fail(CallError::Refused(said.as_str().into()));
    let (runtime, mut agent) = runtime_in_trouble(&["web".to_owned()], &failure);
    agent.wait("/v1/pods", |answer| !answer.json()[0]["error"].is_null());
    let pods = colourful(&["pods", "--agent", &agent.socket]).run();
    let pods = pods.assert_code(1);
    assert_harmless_output("pods", &pods);
    assert!(
        pods.err.contains("showing the last known status of "),
        "{}",
        pods.err
    );

    runtime
        .sim
        .fault(Rpc::ListPodSandbox, None, failure.clone());
    let health = agent.wait("/healthz?verbose", |answer| answer.body.contains("evil-0"));
    assert_harmless("health", &health.body);
    assert_eq!(health.body.lines().count(), 1, "{health:?}");
    for command in ["pods", "status"] {
        let alone = [command, "--agent", "off", "-r", &runtime.path()];
        let ended = colourful(&alone).run().assert_code(2);
        assert_harmless_output(command, &ended);
        assert!(ended.err.contains("evil-0-\\u{0}x\\u{1}x"), "{}", ended.err);
    }

    eventually("it has logged", || (!agent.log().is_empty()).then_some(()));
    assert_harmless("the agent's log", agent.log());
}
