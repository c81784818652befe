//! Screens of other sizes than 80 columns and 24 rows.

use serde_json::json;
use snapbox::{assert_data_eq, str};

use crate::support::*;

#[test]
fn a_wide_screen_has_more_columns() {
    let mut screen = Screen::sized(130, 30);
    locked_node(&mut screen);
    assert_data_eq!(
        screen.text(),
        str![[r#"
pleg top  containerd 1.7.24 at unix:///run/containerd/containerd.sock                                                 03:04:47 UTC
Source    agent at /run/pleg/agent.sock · 3 pods, 3 running, 1 exited
Health    Degraded: container app of default/db is stuck and blocks ListContainers (42s); known containers are swept, new
          containers may be missed (ContainerStuck for 41s)
Kubelet   would be NotReady in 2m17s: list calls are stuck or failing
Relist    generic, every 1s, 3ms by list, seen 400ms ago                                                                         █
Guard     off  Stream  live, 12 events, 0 missed  Kernel  live, 5 processes
─ Pods 3 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
POD                                                               STATE▼                  RUNNING  RESTARTS   CHANGED    LATENCY
default/db                                                        Stuck                   1/1      0          1m42s      -
default/job                                                       Exited (3)              0/1      2          47s        -
default/web                                                       Running                 1/1      4          40s        -
─ Outstanding 3 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────
CALL                      ID             POD, CONTAINER                                          AGE      0     │overdue        2m
ListContainers            -              the whole node                                          42s      ██████│█████░░░░░░░░░░░░
ContainerStatus           db/app.0       default/db app                                          41s      ██████│█████░░░░░░░░░░░░
PodSandboxStatus          web            default/web                                             20ms     ░░░░░░│░░░░░░░░░░░░░░░░░
─ Events 2 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
03:04:06.500  ContainerStarted  default/web app                                             by relist
03:04:06.250  ContainerDied     default/web app                                             exit 137 (Error), by kernel
─ Doctor: press d to run it ──────────────────────────────────────────────────────────────────────────────────────────────────────








/ filter  ^z faults  tab table  enter open  d doctor  ? help  q quit

"#]]
    );
}

#[test]
fn no_size_causes_a_panic() {
    for (width, height) in [
        (1, 1),
        (3, 40),
        (39, 11),
        (40, 12),
        (41, 13),
        (60, 12),
        (200, 12),
        (500, 100),
    ] {
        let mut screen = Screen::sized(width, height);
        screen.text();
        locked_node(&mut screen);
        for keys in [
            "",
            "<enter>",
            "<esc>?",
            "<esc>/x",
            "<esc><tab><enter>",
            "<esc>d",
        ] {
            screen.press(keys);
            screen.text();
        }
    }
}

#[test]
fn a_narrow_terminal_has_fewer_columns_but_all_names() {
    for (width, columns) in [
        (40, vec!["POD", "STATE▼"]),
        (51, vec!["POD", "STATE▼"]),
        (52, vec!["POD", "STATE▼", "RESTARTS"]),
        (62, vec!["POD", "STATE▼", "RESTARTS", "CHANGED"]),
        (72, vec!["POD", "STATE▼", "RESTARTS", "CHANGED", "LATENCY"]),
        (
            100,
            vec!["POD", "STATE▼", "RUNNING", "RESTARTS", "CHANGED", "LATENCY"],
        ),
    ] {
        let mut screen = Screen::sized(width, 12);
        let pod = pod("a-web-server-0", json!({}));
        screen.feed(
            1.0,
            [connected(), pods(1.0, &[pod]), status(1.0, json!({}))],
        );
        let header = screen.line("POD ");
        let shown: Vec<_> = header.split_whitespace().collect();
        assert_eq!(shown, columns, "{width}");
        let row = screen.line("default/a-web-server-0 ");
        assert!(row.contains("Running"), "{width}: {row}");
    }
}
