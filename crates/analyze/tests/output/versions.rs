//! Faults of known versions of the kernel and of runc.

use causes::finding::Confidence;

use crate::read::text;

/// A kernel that loops in writeback. Its release is not in the table of known faults.
const LOOPS_IN_WRITEBACK: &str = "\
[  467.626433] watchdog: BUG: soft lockup - CPU#5 stuck for 22s! [kworker/u16:4:103]
[  467.663395] CPU: 5 PID: 103 Comm: kworker/u16:4 Not tainted 4.14.198-152.320.amzn2.x86_64 #1
[  467.668873] Hardware name: Amazon EC2 m5.2xlarge/, BIOS 1.0 10/16/2017
[  467.672456] Workqueue: writeback wb_workfn (flush-259:0)
[  467.675605] task: ffff888802060000 task.stack: ffffc90003468000
[  467.678961] RIP: 0010:move_expired_inodes+0x55/0x230
";

#[test]
fn a_known_fault_of_the_kernel_is_claimed_only_if_release_and_stack_match() {
    let claims = |page: &str| {
        let found = text(page);
        let leading = found.findings.first().expect("a finding");
        assert!(leading.fixed_in.is_empty(), "{leading:?}");
        let said = format!("{} {}", found.summary, leading.evidence.join(" "));
        let is_known = leading.cause.id() == "kernel-regression";
        assert!(is_known || leading.cause.id() == "kernel-stall", "{said}");
        assert_eq!(said.contains("known fault"), is_known, "{said}");
        is_known
    };
    assert!(!claims(LOOPS_IN_WRITEBACK));
    let affected = LOOPS_IN_WRITEBACK.replace("4.14.198-152.320", "4.14.177-139.253");
    assert!(claims(&affected));
    let elsewhere = affected.replace("move_expired_inodes", "napi_poll");
    assert!(!claims(&elsewhere));
}

/// The confidence and the advice of the cause that a sample shows.
#[track_caller]
fn of_sample(cause: &str, sample: &str) -> (Confidence, String) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../causes/causes");
    let page = std::fs::read(format!("{folder}/{cause}/samples/hit/{sample}")).unwrap();
    let mut findings = text(page).findings.into_iter();
    let found = findings
        .find(|finding| finding.cause.id() == cause)
        .unwrap();
    (found.confidence, found.advice.join("\n"))
}

#[test]
fn the_version_of_runc_and_a_listing_show_more_together_than_each_alone() {
    let (sure, advice) = of_sample("runc-short-exec-stuck", "idle.txt");
    assert_eq!(sure, Confidence::High);
    assert!(advice.starts_with("run `kill -KILL 900`"), "{advice}");
    let (sure, advice) = of_sample("runc-seccomp-pipe", "pipe.txt");
    assert_eq!(sure, Confidence::Certain);
    assert!(advice.starts_with("run `kill -KILL 910`"), "{advice}");
}

#[test]
fn a_count_of_control_groups_adds_what_is_left_to_do() {
    let (sure, advice) = of_sample("memory-cgroup-leak", "counts.txt");
    assert_eq!(sure, Confidence::Certain);
    assert!(advice.contains("61102 are used now"), "{advice}");
}
