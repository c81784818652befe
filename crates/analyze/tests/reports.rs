//! Logs and dumps from published explanations of failures. The longest one is explained in one sentence, from
//! the kubelet to the kernel.

mod read;

use analyze::kind::Kind;
use analyze::series::Pattern;
use causes::Cause;
use causes::finding::Confidence;
use read::{causes, files, pleg};

const TERWAY: [&str; 5] = [
    "reports/terway-kubelet.log",
    "reports/terway-kubelet-stacks.txt",
    "reports/terway-plugin-stack.txt",
    "reports/terwayd-goroutines.txt",
    "reports/terwayd-crash.txt",
];

#[test]
fn the_chain_from_the_kubelet_to_the_kernel_is_one_sentence() {
    let found = files(&TERWAY);
    assert_eq!(
        found.summary,
        "The kubelet's relist waits in PodSandboxStatus for terwayd, in netlink_recvmsg."
    );
    assert_eq!(
        found.chain.as_ref().expect("there is a chain").sentence,
        "The kubelet's relist waits in PodSandboxStatus; its handler in the kubelet waits for the lock of \
         network.(*PluginManager); that lock is held by a goroutine in network.(*PluginManager).SetUpPod, which \
         waits for a child process to exit; that process is the CNI plugin, which waits for its agent \
         (main.rpcCall); in the CNI agent goroutine 67570 has been waiting for 1595 minutes for a netlink reply from the \
         kernel (netlink.LinkSetNsFd); the kernel stack confirms this: terwayd (19246) is in netlink_recvmsg."
    );
    let kinds: Vec<Kind> = found.inputs.iter().map(|input| input.kind).collect();
    let dump = Kind::GoroutineDump;
    assert_eq!(
        kinds,
        [Kind::KubeletLog, dump, dump, dump, Kind::KernelStack]
    );
    assert!(
        found.inputs.iter().all(|input| input.unread_lines == 0),
        "{:#?}",
        found.inputs
    );
}

#[test]
fn the_oldest_goroutine_of_the_agent_is_the_likely_holder() {
    let found = files(&TERWAY);
    let holder = found
        .goroutines
        .as_ref()
        .unwrap()
        .likely_holder
        .as_ref()
        .unwrap();
    assert_eq!(
        (holder.goroutine, holder.wait_minutes),
        (Some(67570), Some(1595))
    );
    assert!(holder.function.ends_with("(*NetlinkSocket).Receive"));
    let finding = &found.findings[0];
    assert_eq!(
        (finding.cause, finding.confidence),
        (Cause::CniPluginHang, Confidence::Certain)
    );
    assert_eq!(finding.culprit.process.as_deref(), Some("terwayd"));
    let links = &found.chain.as_ref().unwrap().links;
    assert_eq!(links.len(), 6, "{links:#?}");
}

#[test]
fn a_chain_leaves_no_suspicion_of_another_cause() {
    let found = files(&[
        "reports/terway-kubelet.log",
        "reports/terway-kubelet-stacks.txt",
        "reports/terwayd-goroutines.txt",
    ]);
    assert!(found.chain.is_some());
    assert_eq!(causes(&found), ["cni-plugin-hang"]);
}

#[test]
fn all_dumps_in_one_file_give_the_same_chain() {
    let whole: Vec<u8> = TERWAY
        .iter()
        .flat_map(|name| {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/samples")
                .join(name);
            [
                std::fs::read(path).unwrap(),
                b"\nAs one sees here:\n\n".to_vec(),
            ]
            .concat()
        })
        .collect();
    let found = read::text(whole);
    assert_eq!(found.summary, files(&TERWAY).summary);
    assert_eq!(found.inputs[0].unread_lines, 5);
}

#[test]
fn the_kubelets_log_of_the_longest_chain_is_one_interval() {
    let found = files(&TERWAY[..1]);
    let pleg = pleg(&found);
    assert_eq!(
        (pleg.pattern, pleg.intervals.len()),
        (Pattern::ListNeverSucceeds, 1)
    );
    assert_eq!(pleg.intervals[0].lines, 11);
    assert_eq!(pleg.intervals[0].peak_seconds, 206.301_826_001);
}

#[test]
fn the_other_logs_are_read() {
    let found = files(&["reports/kubelet-1.22-cookie-overflow.log"]);
    assert_eq!(pleg(&found).intervals[0].peak_seconds, 180.195_184_382);
    let found = files(&["reports/kubelet-1.19-runc-rc93.log"]);
    assert_eq!(pleg(&found).pattern, Pattern::ListNeverSucceeds);
    assert_eq!(pleg(&found).intervals[0].peak_seconds, 15_587.369_998_188);
}

#[test]
fn metrics_of_1_11_show_what_a_relist_costs() {
    let found = files(&["reports/kubelet-1.11-metrics.txt"]);
    assert_eq!(found.inputs[0].kind, Kind::Metrics);
    let metrics = found.metrics.as_ref().unwrap();
    assert_eq!(metrics.relist.median_seconds, Some(0.053_438));
    assert_eq!(metrics.relist.p99_seconds, Some(0.115_232));
    assert_eq!(
        metrics.dominant_operation.as_deref(),
        Some("list_containers")
    );
    assert_eq!(metrics.headroom.map(f64::round), Some(1562.0));
    assert!(causes(&found).is_empty() && !found.has_problem());
}
