//! The effects of keys.

use serde_json::json;
use top::state::Request;

use crate::support::*;

/// Pods that differ in every column.
fn screen() -> Screen {
    let mut screen = Screen::new();
    let all = [
        pod("cache", json!({"attempt": 1, "startedAt": at(-1.0)})),
        pod("db", json!({})),
        pod(
            "job",
            json!({"state": "exited", "exitCode": 3, "finishedAt": at(-2.0)}),
        ),
        pod("web", json!({"attempt": 9})),
    ];
    screen.feed(
        42.0,
        [
            connected(),
            event(-1.5, "job", "ContainerDied", json!({"exitCode": 3})),
            event(0.5, "cache", "ContainerStarted", json!({})),
            pods(0.0, &all),
            locked(42.0, 41.0),
        ],
    );
    screen
}

#[test]
fn a_filter_applies_while_it_is_typed_and_esc_removes_it() {
    let mut screen = screen();
    screen.press("/W");
    assert_eq!(screen.shown_pods(), ["default/web"]);
    assert!(screen.line("enter keeps it").starts_with("/W"));
    screen.press("<enter>");
    assert_eq!(screen.shown_pods(), ["default/web"]);
    assert!(screen.line("─ Pods").contains("Pods 1 of 4"));
    screen.press("<esc>");
    assert_eq!(screen.shown_pods().len(), 4);
    screen.press("/web<backspace><backspace><backspace>job<esc>");
    assert_eq!(screen.shown_pods().len(), 4);
}

#[test]
fn an_inverse_filter_hides_matching_rows() {
    let mut screen = screen();
    screen.press("!web<enter>");
    assert_eq!(
        screen.shown_pods(),
        ["default/db", "default/job", "default/cache"]
    );
    screen.press("/!db<enter>");
    assert_eq!(
        screen.shown_pods(),
        ["default/job", "default/cache", "default/web"]
    );
}

#[test]
fn faults_only_hides_healthy_rows() {
    let mut screen = screen();
    screen.press("<ctrl-z>");
    assert_eq!(screen.shown_pods(), ["default/db", "default/job"]);
    assert!(screen.line("─ Pods").contains("faults only"));
    screen.press("<ctrl-z>");
    assert_eq!(screen.shown_pods().len(), 4);
}

#[test]
fn a_capital_letter_sorts_by_a_column_and_pressed_again_reverses_the_order() {
    let mut screen = screen();
    let order = |screen: &mut Screen| {
        let pods = screen.shown_pods().into_iter();
        let names: Vec<_> = pods.map(|name| name.replace("default/", "")).collect();
        names.join(" ")
    };
    assert_eq!(order(&mut screen), "db job cache web");
    for (key, sorted) in [
        ("N", "cache db job web"),
        ("N", "web job db cache"),
        ("T", "web cache db job"),
        ("A", "cache job db web"),
        ("L", "cache job db web"),
        ("S", "db job cache web"),
        ("S", "cache web job db"),
    ] {
        screen.press(key);
        assert_eq!(order(&mut screen), sorted, "{key}");
    }
}

#[test]
fn enter_opens_the_page_of_the_selected_row_of_each_table_and_esc_goes_back() {
    let mut screen = screen();
    for (keys, wanted) in [
        ("<enter>", "Pod  default/db"),
        ("<esc>jj<enter>", "Pod  default/cache"),
        // A list call belongs to no pod.
        ("<esc><tab><enter>", "─ Outstanding"),
        ("j<enter>", "Pod  default/db"),
        ("<esc><tab><enter>", "Pod  default/cache"),
        ("<esc>j<enter>", "Pod  default/job"),
    ] {
        screen.press(keys);
        screen.line(wanted);
    }
    screen.press("<esc>");
    screen.line("─ Pods");
}

#[test]
fn the_selection_stays_with_its_pod() {
    let mut screen = screen();
    screen.press("<down><down>");
    let all = [
        pod("cache", json!({"state": "exited", "exitCode": 1})),
        pod("a", json!({})),
    ];
    screen.feed(43.0, [pods(43.0, &all), status(43.0, json!({}))]);
    screen.press("<enter>");
    screen.line("Pod  default/cache");
}

#[test]
fn the_page_of_a_removed_pod_shows_that_it_was_removed() {
    let mut screen = screen();
    screen.press("<enter>");
    screen.feed(43.0, [pods(43.0, &[])]);
    screen.line("The runtime does not have this pod any more.");
}

#[test]
fn a_page_scrolls_to_its_end_and_no_further() {
    let mut screen = Screen::sized(80, 16);
    screen.feed(1.0, [connected(), status(1.0, json!({}))]);
    screen.press("?G");
    screen.line("Grey text");
    screen.press("<down><down><down><up>");
    let one_up = screen.text();
    screen.press("<down>");
    assert_ne!(screen.text(), one_up);
    screen.press("g");
    screen.line("Keys");
}

#[test]
fn d_runs_the_doctor_once_at_a_time() {
    let mut screen = screen();
    assert_eq!(screen.press("d"), Some(Request::Examine));
    assert_eq!(screen.press("d"), None);
    let result = Err("exit code 2".to_owned());
    screen.feed(
        44.0,
        [top::Update::Findings {
            taken: at(43.0),
            result,
        }],
    );
    assert!(
        screen
            .line("Doctor")
            .contains("1s ago, failed: exit code 2")
    );
    assert_eq!(screen.press("d"), Some(Request::Examine));
}

#[test]
fn q_and_ctrl_c_quit_but_a_typed_q_is_a_letter() {
    let mut screen = screen();
    assert_eq!(screen.press("q"), Some(Request::Quit));
    assert_eq!(screen.press("/q"), None);
    assert_eq!(screen.press("<ctrl-c>"), Some(Request::Quit));
}

#[test]
fn the_latency_is_the_time_from_the_change_to_the_event() {
    let mut screen = screen();
    // job exited at -2, which was reported at -1.5; cache started at -1, which was reported at 0.5.
    assert!(screen.line("default/job ").contains("500ms"));
    assert!(screen.line("default/cache ").contains("1.5s"));
    assert!(screen.line("default/web ").ends_with(" -"));
}

#[test]
fn an_event_changes_its_pod_at_once_and_an_older_list_does_not_undo_that() {
    let mut screen = screen();
    screen.feed(
        43.0,
        [event(43.0, "web", "ContainerDied", json!({"exitCode": 9}))],
    );
    assert!(screen.line("default/web ").contains("Exited (9)"));
    screen.feed(44.0, [pods(42.5, &[pod("web", json!({}))])]);
    assert!(screen.line("default/web ").contains("Exited (9)"));
    screen.feed(45.0, [pods(44.5, &[pod("web", json!({}))])]);
    assert!(screen.line("default/web ").contains("Running"));
}

#[test]
fn only_the_selected_namespace_is_shown() {
    let mut screen = screen();
    screen.state.namespace = Some("kube-system".to_owned());
    assert_eq!(screen.shown_pods(), [""; 0]);
    assert!(
        screen
            .line("─ Pods")
            .contains("Pods 0 of 4 ─ namespace kube-system")
    );
    // A list call that hangs concerns every namespace.
    screen.line("the whole node");
}

#[test]
fn a_container_whose_exit_code_is_unknown_has_not_completed() {
    let mut screen = screen();
    let died = event(43.0, "web", "ContainerDied", json!({"exitCode": null}));
    screen.feed(43.0, [died]);
    let line = screen.line("default/web ");
    assert!(
        line.contains("Exited") && !line.contains("Exited ("),
        "{line}"
    );
}
