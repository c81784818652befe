//! The complete screens.

use serde_json::json;
use snapbox::{assert_data_eq, str};

use crate::support::*;

#[test]
fn before_the_first_update_the_screen_shows_that_nothing_is_known() {
    let mut screen = Screen::new();
    assert_data_eq!(
        screen.text(),
        str![[r#"
pleg top                                                            03:04:05 UTC
Source    waiting for the first status
─ Pods: not known yet ──────────────────────────────────────────────────────────
─ Outstanding: not known yet ───────────────────────────────────────────────────
─ Events 0 ─────────────────────────────────────────────────────────────────────
─ Doctor: press d to run it ────────────────────────────────────────────────────

















/ filter  ^z faults  tab table  enter open  d doctor  ? help  q quit

"#]]
    );
}

#[test]
fn a_healthy_node() {
    let mut screen = Screen::new();
    screen.feed(
        1.0,
        [
            connected(),
            pods(0.0, &three_pods()),
            status(1.0, json!({})),
        ],
    );
    assert_data_eq!(
        screen.text(),
        str![[r#"
pleg top  containerd 1.7.24 at unix:///run/containerd/containerd.…  03:04:06 UTC
Source    agent at /run/pleg/agent.sock · 3 pods, 3 running, 1 exited
Health    Healthy: all pods are up to date (AllSeen for 1s)
Kubelet   would be Ready: no problem expected
Relist    generic, every 1s, 3ms by list, seen 400ms ago                       █
Guard     off  Stream  live, 12 events, 0 missed  Kernel  live, 5 processes
─ Pods 3 ───────────────────────────────────────────────────────────────────────
POD                              STATE▼            RESTARTS   CHANGED   LATENCY
default/job                      Exited (3)        2          6s        -
default/db                       Running           0          1m1s      -
default/web                      Running           4          11s       -
─ Outstanding: no call ─────────────────────────────────────────────────────────
─ Events 0 ─────────────────────────────────────────────────────────────────────
─ Doctor: press d to run it ────────────────────────────────────────────────────









/ filter  ^z faults  tab table  enter open  d doctor  ? help  q quit

"#]]
    );
}

#[test]
fn under_a_status_lock_the_stuck_pod_is_first_and_its_call_has_a_bar() {
    let mut screen = Screen::new();
    locked_node(&mut screen);
    assert_data_eq!(
        screen.text(),
        str![[r#"
pleg top  containerd 1.7.24 at unix:///run/containerd/containerd.…  03:04:47 UTC
Source    agent at /run/pleg/agent.sock · 3 pods, 3 running, 1 exited
Health    Degraded: container app of default/db is stuck and blocks
          ListContainers (42s); known containers are s… (ContainerStuck for 41s)
Kubelet   would be NotReady in 2m17s: list calls are stuck or failing
Relist    generic, every 1s, 3ms by list, seen 400ms ago                       █
Guard     off  Stream  live, 12 events, 0 missed  Kernel  live, 5 processes
─ Pods 3 ───────────────────────────────────────────────────────────────────────
POD                              STATE▼            RESTARTS   CHANGED   LATENCY
default/db                       Stuck             0          1m42s     -
default/job                      Exited (3)        2          47s       -
default/web                      Running           4          40s       -
─ Outstanding 3 ────────────────────────────────────────────────────────────────
CALL              ID        POD, CONTAINER               AGE      0  │overdue 2m
ListContainers    -         the whole node               42s      ███│███░░░░░░░
ContainerStatus   db/app.0  default/db app               41s      ███│███░░░░░░░
PodSandboxStatus  web       default/web                  20ms     ░░░│░░░░░░░░░░
─ Events 2 ─────────────────────────────────────────────────────────────────────
03:04:06  ContainerStarted  default/web app                 by relist
03:04:06  ContainerDied     default/web app                 exit 137 (Error), b…
─ Doctor: press d to run it ────────────────────────────────────────────────────


/ filter  ^z faults  tab table  enter open  d doctor  ? help  q quit

"#]]
    );
}

#[test]
fn the_curve_shows_the_last_relists_and_the_shortest_beside_the_longest() {
    let mut screen = Screen::new();
    for (number, took) in [0.1, 0.004, 0.05, 0.1, 2.0, 0.001].into_iter().enumerate() {
        let relist = json!({
            "mode": "generic", "count": number + 1, "periodSeconds": 1.0,
            "lastDurationSeconds": took, "lastKind": "list", "sweeping": false,
        });
        let seconds = number as f64;
        screen.feed(seconds, [status(seconds, json!({"relist": relist}))]);
    }
    assert!(
        screen.line("Relist").ends_with(" ▁▁▁▁█▁"),
        "{}",
        screen.text()
    );
}

#[test]
fn the_page_of_a_pod() {
    let mut screen = Screen::sized(80, 32);
    locked_node(&mut screen);
    screen.press("<enter>");
    assert_data_eq!(
        screen.text(),
        str![[r#"
pleg top  containerd 1.7.24 at unix:///run/containerd/containerd.…  03:04:47 UTC
Source    agent at /run/pleg/agent.sock · 3 pods, 3 running, 1 exited
Health    Degraded: container app of default/db is stuck and blocks
          ListContainers (42s); known containers are s… (ContainerStuck for 41s)
Kubelet   would be NotReady in 2m17s: list calls are stuck or failing
Relist    generic, every 1s, 3ms by list, seen 400ms ago                       █
Guard     off  Stream  live, 12 events, 0 missed  Kernel  live, 5 processes
Pod  default/db
uid uid-db
Stuck, restarted 0 times, listed 42s ago, confirmed at 03:04:05.000

Sandboxes
  db attempt 0, ready since 03:03:05.000  10.0.0.7

Containers
  app attempt 0, running, started 03:03:05.000  db/app.0  nginx

Calls that are not answered
  ContainerStatus of app for 41s

Events, newest first
  none is known









esc back  ↑↓ scroll  ? help  q quit

"#]]
    );
}

#[test]
fn the_doctors_findings() {
    let mut screen = Screen::new();
    locked_node(&mut screen);
    screen.press("d");
    screen.feed(44.0, []);
    assert!(screen.line("Doctor").contains("examining the node for 2s"));
    let diagnosis = json!({
        "verdict": "problem", "summary": "containerd holds the status lock of container app",
        "findings": [{
            "cause": "container-status-lock", "title": "a status lock", "verdict": "problem",
            "sentence": "containerd holds the status lock of container app of pod default/db",
            "confidence": "certain", "evidence": ["ListContainers has not answered for 4s"],
            "advice": ["run `kill -CONT 20596`"],
        }],
    });
    let result = Ok(serde_json::from_value(diagnosis).unwrap());
    screen.feed(
        46.0,
        [
            locked(46.0, 45.2),
            top::Update::Findings {
                taken: at(45.0),
                result,
            },
        ],
    );
    assert_data_eq!(
        screen.text(),
        str![[r#"
pleg top  containerd 1.7.24 at unix:///run/containerd/containerd.…  03:04:51 UTC
Source    agent at /run/pleg/agent.sock · 3 pods, 3 running, 1 exited
Health    Degraded: container app of default/db is stuck and blocks
          ListContainers (42s); known containers are s… (ContainerStuck for 45s)
Kubelet   would be NotReady in 2m17s: list calls are stuck or failing
Relist    generic, every 1s, 3ms by list, seen 400ms ago                       █
Guard     off  Stream  live, 12 events, 0 missed  Kernel  live, 5 processes
─ Pods 3 ─ listed 46s ago ──────────────────────────────────────────────────────
POD                              STATE▼            RESTARTS   CHANGED   LATENCY
default/db                       Stuck             0          1m46s     -
default/job                      Exited (3)        2          51s       -
default/web                      Running           4          44s       -
─ Outstanding 3 ────────────────────────────────────────────────────────────────
CALL              ID        POD, CONTAINER               AGE      0  │overdue 2m
ListContainers    -         the whole node               46s      ███│███░░░░░░░
ContainerStatus   db/app.0  default/db app               45s      ███│███░░░░░░░
PodSandboxStatus  web       default/web                  20ms     ░░░│░░░░░░░░░░
─ Events 2 ─────────────────────────────────────────────────────────────────────
03:04:06  ContainerStarted  default/web app                 by relist
03:04:06  ContainerDied     default/web app                 exit 137 (Error), b…
─ Doctor, 1s ago: containerd holds the status lock of container app ────────────
problem  certain   containerd holds the status lock of container app of pod def…

/ filter  ^z faults  tab table  enter open  d doctor  ? help  q quit

"#]]
    );
    screen.press("<enter>");
    assert_data_eq!(
        screen.text(),
        str![[r#"
pleg top  containerd 1.7.24 at unix:///run/containerd/containerd.…  03:04:51 UTC
Source    agent at /run/pleg/agent.sock · 3 pods, 3 running, 1 exited
Health    Degraded: container app of default/db is stuck and blocks
          ListContainers (42s); known containers are s… (ContainerStuck for 45s)
Kubelet   would be NotReady in 2m17s: list calls are stuck or failing
Relist    generic, every 1s, 3ms by list, seen 400ms ago                       █
Guard     off  Stream  live, 12 events, 0 missed  Kernel  live, 5 processes
containerd holds the status lock of container app of pod default/db
problem, certain confidence; `pleg explain container-status-lock` describes it

Evidence
  - ListContainers has not answered for 4s

What to do now
  1. run `kill -CONT 20596`








esc back  ↑↓ scroll  ? help  q quit

"#]]
    );
}

#[test]
fn the_help() {
    let mut screen = Screen::sized(80, 34);
    locked_node(&mut screen);
    screen.press("?");
    assert_data_eq!(
        screen.text(),
        str![[r#"
pleg top  containerd 1.7.24 at unix:///run/containerd/containerd.…  03:04:47 UTC
Source    agent at /run/pleg/agent.sock · 3 pods, 3 running, 1 exited
Health    Degraded: container app of default/db is stuck and blocks
          ListContainers (42s); known containers are s… (ContainerStuck for 41s)
Kubelet   would be NotReady in 2m17s: list calls are stuck or failing
Relist    generic, every 1s, 3ms by list, seen 400ms ago                       █
Guard     off  Stream  live, 12 events, 0 missed  Kernel  live, 5 processes
Keys
  ↑ ↓  j k        move; in a recording j and k step
  PgUp PgDn  g G  move by a page, to the first or last row
  tab  shift-tab  next table, previous table
  enter           the pod's history, or the finding
  esc             back; then remove the filter
  /               filter by pod, container, call or id
  !  /!text       filter that leaves out what it matches
  ctrl-z          faults only, or all
  S N T A L       sort pods by state, name, restarts, last change, latency
  d               run the doctor on this node
  t               in a recording: go to a time
  ?               this page
  q  ctrl-c       quit

CHANGED is the time since anything happened in the pod. LATENCY is the time from
a container's start or end, by the runtime's clock, to the event that reports
it.

A bar shows how long a call has not been answered: its first quarter is the time
until the call is overdue, the rest the time until a kubelet gives up on it, two
minutes by default.

A filter does not hide what concerns the whole node: lists, changes of health,
findings.

esc back  ↑↓ scroll  q quit

"#]]
    );
}
