//! Each example of `docs/sim.md` is a scenario that can be played.

use std::convert::Infallible;

use sim::{Scenario, Sim};

const TAUGHT: &str = include_str!("../../../../docs/sim.md");

fn examples() -> Vec<&'static str> {
    let parts = TAUGHT.split("```scenario\n").skip(1);
    let example = |part: &'static str| part.split("```").next().unwrap();
    parts.map(example).collect()
}

#[tokio::test(start_paused = true)]
async fn every_example_can_be_played_and_all_of_it_can_be_done() {
    let examples = examples();
    assert!(examples.len() >= 4);
    for text in examples {
        let sim = Sim::new();
        let scenario = Scenario::parse("docs/sim.md", text).unwrap_or_else(|e| panic!("{e}"));
        let checked = scenario.check(&sim.world(), sim.now());
        checked.unwrap_or_else(|error| panic!("{error}"));
        let mut lines = 0;
        let tell = |played: sim::Played| {
            assert_eq!(played.failure, None, "{played:?}");
            lines += usize::from(!played.by_churn);
            Ok::<(), Infallible>(())
        };
        let Ok(_) = scenario.play(&sim, tell).await;
        assert_eq!(lines, scenario.steps().len());
    }
}

#[test]
fn every_verb_and_every_way_of_events_is_in_an_example() {
    let taught = examples().concat();
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
        "events silent",
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
        let is_taught = taught.lines().any(|line| {
            let action = line
                .split_once(char::is_whitespace)
                .map(|(_, rest)| rest.trim_start());
            action.is_some_and(|action| action.starts_with(word))
        });
        assert!(is_taught, "{word}");
    }
}
