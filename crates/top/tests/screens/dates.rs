//! Times of another day.

use serde_json::json;

use crate::support::*;

#[test]
fn an_event_of_another_day_has_its_date_on_a_live_screen() {
    /// The screens of the tests begin at three in the morning.
    const FIVE_HOURS: f64 = 5.0 * 3600.0;
    for (width, shown) in [(80, "01-01 22:04:05 "), (120, "01-01 22:04:05.000 ")] {
        let mut screen = Screen::sized(width, 30);
        let web = [pod("web", json!({ "startedAt": at(-FIVE_HOURS) }))];
        let died = |seconds| event(seconds, "web", "ContainerDied", json!({}));
        screen.feed(1.0, [connected(), pods(0.0, &web), died(1.0)]);
        // While all events are of today, the date is not shown.
        assert!(screen.line("ContainerDied").starts_with("03:04:06"));
        screen.feed(2.0, [died(-FIVE_HOURS)]);
        assert!(screen.line(shown).contains("ContainerDied"));
        assert!(screen.line("ContainerDied").starts_with("01-0"));
        screen.press("<enter>");
        screen.line("started 01-01 22:04:05.000");
        screen.line("  01-01 22:04:05.000  ContainerDied");
        screen.line("  01-02 03:04:06.000  ContainerDied");
    }
}

#[test]
fn after_midnight_the_time_since_which_a_screen_is_not_current_has_a_date() {
    let mut screen = Screen::new();
    let why = "the agent ended its events".to_owned();
    let disconnected = top::update::Source::Disconnected {
        since: at(3.0),
        why,
    };
    screen.feed(
        3.0,
        [
            connected(),
            status(1.0, json!({})),
            top::Update::Source(disconnected),
        ],
    );
    screen.line("NOT CURRENT since 03:04:06");
    screen.feed(86_400.0, []);
    screen.line("NOT CURRENT since 01-02 03:04:06");
}
