//! A soak of one minute. `testbed/soak` runs longer ones.

use std::time::Duration;

use e2e::soak::{Path, Plan, run};
use e2e::{NEWEST, programs};

/// Enforces G18.
#[tokio::test]
async fn a_node_behind_the_guard_loses_and_doubles_nothing_while_faults_come_and_go() {
    let report = run(Plan {
        name: "e2e-soak".to_owned(),
        version: NEWEST.to_owned(),
        programs: programs(),
        pods: 4,
        time: Duration::from_secs(75),
        calm: Duration::from_secs(3),
        fault: Duration::from_secs(6),
        log: |line| println!("{line}"),
    });
    let report = report.await.unwrap();
    println!("{report}");
    assert_eq!(report.problems(), [""; 0]);
    // The soak has performed faults and checked answers.
    assert!(report.counts.faults.len() >= 4, "{report}");
    assert!(report.counts.lists[&Path::Guard] > 30, "{report}");
    assert!(report.answered.values().sum::<u64>() > 0, "{report}");
}
