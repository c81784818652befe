//! Each example of `docs/sim.md` is a scenario that can be played.

use std::convert::Infallible;

use sim::{Scenario, Sim};

const PAGE: &str = include_str!("../../../../docs/sim.md");

fn examples() -> Vec<&'static str> {
    let parts = PAGE.split("```scenario\n").skip(1);
    let example = |part: &'static str| part.split("```").next().unwrap();
    parts.map(example).collect()
}

#[tokio::test(start_paused = true)]
async fn every_action_of_every_example_can_be_performed() {
    let examples = examples();
    assert!(examples.len() >= 4);
    for text in examples {
        let sim = Sim::new();
        let scenario = Scenario::parse("docs/sim.md", text).unwrap_or_else(|e| panic!("{e}"));
        let checked = scenario.check(&sim.world(), sim.now());
        checked.unwrap_or_else(|error| panic!("{error}"));
        let mut lines = 0;
        let report = |played: sim::Played| {
            assert_eq!(played.failure, None, "{played:?}");
            lines += usize::from(!played.by_churn);
            Ok::<(), Infallible>(())
        };
        let Ok(_) = scenario.play(&sim, report).await;
        assert_eq!(lines, scenario.steps().len());
    }
}

#[test]
fn every_verb_and_every_fault_of_events_is_in_an_example() {
    let examples = examples().concat();
    for word in [
        "run",
        "exit",
        "restart",
        "stop",
        "remove",
        "churn",
        "slow",
        "hang",
        "fail",
        "oversize",
        "malformed",
        "status-lock",
        "lift",
        "manner cri-o",
        "manner cri-dockerd",
        "manner pleg-sim",
        "stop-runtime",
        "continue-runtime",
        "restart-runtime",
        "end",
        "events stop",
        "events drop",
        "events duplicate",
        "events swap",
        "events delay",
        "events scatter",
        "events without-status",
        "events flood",
        "events broadcast",
        "events one-reader",
        "events end-at-once",
        "events unimplemented",
        "events cut",
    ] {
        let has_example = examples.lines().any(|line| {
            let action = line
                .split_once(char::is_whitespace)
                .map(|(_, rest)| rest.trim_start());
            action.is_some_and(|action| action.starts_with(word))
        });
        assert!(has_example, "{word}");
    }
}
