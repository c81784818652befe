//! The parts of a relist, one function at a time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;

use cri::{lean, v1};
use pleg::model::event::Source;
use pleg::model::listed::{ContainerState, ListedPod};
use pleg::model::snapshot::Snapshot;
use pleg::records::diff::diff;
use pleg::records::{Records, Step};
use prost::Message;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::Effort;
use crate::cpu::{Progress, nanos};
use crate::rows::{Node, container, pod_ref};
use crate::table::{Table, ratio, time};

pub async fn measure(effort: Effort, progress: &Progress) -> anyhow::Result<Vec<Table>> {
    progress.show("diff");
    let diff = diffs(effort);
    // Ctrl-C is handled only where this task yields.
    yield_now().await;
    progress.show("snapshots and records");
    let pods = pods(effort);
    yield_now().await;
    progress.show("reading a list");
    Ok(vec![diff, pods, reading(effort)?])
}

/// A table of CPU times, each with its ratio to the first.
fn table(title: &str, figures: &[(&str, f64)]) -> Table {
    let mut table = Table::new(title, &["", "CPU time", "ratio"]);
    for (name, nanos) in figures {
        table.row([
            (*name).to_owned(),
            time(*nanos),
            ratio(*nanos, figures[0].1),
        ]);
    }
    table
}

fn diffs(effort: Effort) -> Table {
    let running = pod(2, ContainerState::Running);
    // From another list, with shared rows, like an unchanged pod of a changed node.
    let same = ListedPod::clone(&running);
    let mut died = same.clone();
    died.containers[0] = container(0, 0, ContainerState::Exited);
    let many = pod(1_000, ContainerState::Exited);
    let mut one_added = many.clone();
    one_added
        .containers
        .push(container(1_000, 0, ContainerState::Running));
    let cost = |old: &ListedPod, new: &ListedPod| {
        nanos(effort, || diff(black_box(Some(old)), black_box(Some(new))))
    };
    table(
        "diff of one pod",
        &[
            ("2 containers, one died", cost(&running, &died)),
            ("2 containers, nothing changed", cost(&running, &same)),
            (
                "1,000 exited containers, one added",
                cost(&many, &one_added),
            ),
        ],
    )
}

fn pod(containers: usize, state: ContainerState) -> ListedPod {
    ListedPod {
        containers: (0..containers)
            .map(|number| container(number, 0, state))
            .collect(),
        ..ListedPod::empty(pod_ref(0))
    }
}

fn pods(effort: Effort) -> Table {
    let snapshot = |containers: usize| {
        let node = Node::new(containers / 2, 2);
        nanos(effort, || {
            Snapshot::new(Instant::now(), &node.sandboxes, &node.containers)
        })
    };
    table(
        "Snapshots and records",
        &[
            ("Snapshot::new, 200 containers", snapshot(200)),
            ("Snapshot::new, 10,000 containers", snapshot(10_000)),
            (
                "Records: observe, plan, commit 110 of 110 pods",
                records(effort),
            ),
        ],
    )
}

/// Measures the records of a node on which every pod changes at every relist.
fn records(effort: Effort) -> f64 {
    let node = Node::new(110, 2);
    let changed = node.with_change_in(110);
    let of = |containers| Snapshot::new(Instant::now(), &node.sandboxes, containers);
    let mut snapshots = [of(&node.containers), of(&changed)];
    let mut records = Records::default();
    let mut relist = || {
        snapshots.swap(0, 1);
        let now = Instant::now();
        snapshots[0].taken = now;
        records.observe(&snapshots[0], now, Source::Relist);
        let mut changes = 0;
        for uid in records.unsettled() {
            if let Step::Inspect { ticket, .. } = records.plan(&uid, now) {
                let commit = records.commit(&ticket);
                changes += commit.map_or(0, |commit| commit.changes.len());
            }
        }
        changes
    };
    relist();
    assert_eq!(relist(), 110, "one change in each pod");
    nanos(effort, relist)
}

fn reading(effort: Effort) -> anyhow::Result<Table> {
    let answer = v1::ListContainersResponse {
        containers: (0..200).map(listed).collect(),
    };
    let bytes = answer.encode_to_vec();
    let items: Vec<Vec<u8>> = answer
        .containers
        .iter()
        .map(Message::encode_to_vec)
        .collect();
    let decoded = v1::ListContainersResponse::decode(&bytes[..])?;
    anyhow::ensure!(decoded == answer, "prost decodes its own encoding");

    let full = nanos(effort, || {
        v1::ListContainersResponse::decode(black_box(&bytes[..]))
    });
    let read = |item: &Vec<u8>| lean::container(black_box(item)).map(|read| read.created_at);
    let lean = nanos(effort, || {
        items.iter().map(read).collect::<Result<Vec<_>, _>>()
    });
    let hasher = RandomState::new();
    let hash = |item: &Vec<u8>| lean::container(black_box(item)).map(|read| hasher.hash_one(read));
    let hashed = nanos(effort, || {
        items.iter().map(hash).collect::<Result<Vec<_>, _>>()
    });
    let mut table = table(
        "Reading a list of 200 containers",
        &[
            ("prost: decoded in full", full),
            ("cri::lean: read in place", lean),
            ("cri::lean: read in place, and hashed", hashed),
        ],
    );
    table.note(format!(
        "The response has {} bytes; transport cost is not included.",
        bytes.len()
    ));
    Ok(table)
}

/// A container of a kubelet, as containerd lists it.
fn listed(number: usize) -> v1::Container {
    let row = container(number, number / 2, ContainerState::Running);
    let pod = pod_ref(number / 2);
    let texts = |pairs: &[(&str, &str)]| -> HashMap<String, String> {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        pairs.iter().map(owned).collect()
    };
    v1::Container {
        id: row.id.to_string(),
        pod_sandbox_id: row.sandbox_id.to_string(),
        metadata: Some(v1::ContainerMetadata {
            name: row.name.to_string(),
            attempt: row.attempt,
        }),
        image_ref: format!("sha256:{}", row.id),
        state: v1::ContainerState::ContainerRunning as i32,
        created_at: row.created_at.map_or(0, |time| time.as_unix_nanos()),
        labels: texts(&[
            ("io.kubernetes.container.name", &row.name),
            ("io.kubernetes.pod.name", &pod.name),
            ("io.kubernetes.pod.namespace", &pod.namespace),
            ("io.kubernetes.pod.uid", pod.uid.as_str()),
        ]),
        annotations: texts(&[
            ("io.kubernetes.container.hash", "17ba5e5e"),
            ("io.kubernetes.container.restartCount", "0"),
            (
                "io.kubernetes.container.terminationMessagePath",
                "/dev/termination-log",
            ),
            ("io.kubernetes.container.terminationMessagePolicy", "File"),
            ("io.kubernetes.pod.terminationGracePeriod", "30"),
        ]),
        ..v1::Container::default()
    }
}
