//! The folder of manifests, and refused manifests.

use std::fs;
use std::os::unix::fs::symlink;

use pleg::runtime::Rpc;
use serde_json::Value;

use super::node::{CHANGES, Node, pod, why};

#[test]
fn an_unknown_field_is_refused_with_its_file_line_and_path() {
    let wrong = pod("web", "").replace("image:", "imagee:");
    let node = Node::with("web.yaml", &wrong);
    let mut run = node.run();
    let refused = run.action("Refuse");
    assert_eq!(refused["kind"], "manifest");
    assert_eq!(refused["pod"], Value::Null);
    let line = "web.yaml:9: spec.containers[0].imagee: unknown field, did you mean image?";
    let mut lines = why(&refused).lines();
    assert!(lines.any(|it| it == line), "{refused}");
    node.write("web.yaml", &pod("web", "  hostPID: true\n"));
    let refused = run.action("Refuse");
    assert_eq!(
        why(&refused),
        "web.yaml:6: spec.hostPID: not supported",
        "{refused}"
    );
    assert_eq!(node.changes(), [0; CHANGES.len()]);
    node.write("web.yaml", &pod("web", ""));
    run.action("Solve");
    run.pod("Ready");
}

#[test]
fn a_half_written_manifest_is_refused_and_its_pod_is_kept_as_it_was() {
    let whole = pod("web", "");
    let (half, _) = whole.split_once("  terminationGrace").unwrap();
    let node = Node::with("web.yaml", half);
    let mut run = node.run();
    let refused = run.action("Refuse");
    assert!(why(&refused).starts_with("web.yaml:"), "{refused}");
    node.write("web.yaml", &whole);
    run.action("Solve");
    let ready = run.pod("Ready");
    let before = node.changes();

    node.write("web.yaml", half);
    let refused = run.action("Refuse");
    assert_eq!(refused["pod"], ready["pod"]);
    let kept = "web.yaml: pod default/web is kept as it was";
    assert!(why(&refused).ends_with(kept), "{refused}");
    node.write("web.yaml", &whole);
    run.action("Solve");
    node.look_again();
    assert_eq!(node.changes(), before);
}

#[test]
fn of_two_files_that_define_one_pod_the_first_is_used_until_it_is_removed() {
    let node = Node::with("a.yaml", &pod("web", ""));
    node.write("b.yaml", &pod("web", "  hostNetwork: true\n"));
    let mut run = node.run();
    let refused = run.action("Refuse");
    assert_eq!(
        why(&refused),
        "b.yaml: pod default/web is already defined by a.yaml"
    );
    let first = run.pod("Ready");
    assert_eq!(node.pods(), ["web"]);
    node.remove("a.yaml");
    let second = run.pod("Ready");
    assert_ne!(second["pod"]["uid"], first["pod"]["uid"]);
    assert_eq!(node.pods(), ["web"]);
}

#[test]
fn hidden_files_and_folders_are_ignored_and_links_are_followed() {
    let node = Node::new();
    // As in the volume of a config map, all links lead through one link, which is replaced.
    for (version, more) in [("..1", ""), ("..2", "  hostNetwork: true\n")] {
        fs::create_dir(node.manifest(version)).unwrap();
        node.write(&format!("{version}/web.yaml"), &pod("web", more));
    }
    symlink("..1", node.manifest("..data")).unwrap();
    symlink("..data/web.yaml", node.manifest("web.yaml")).unwrap();
    node.write(".web.yaml.swp", "not a manifest");
    fs::create_dir(node.manifest("more")).unwrap();
    node.write("more/other.yaml", &pod("other", ""));
    symlink("nowhere", node.manifest("z.yaml")).unwrap();

    let mut run = node.run();
    let refused = run.action("Refuse");
    assert_eq!(
        why(&refused),
        "z.yaml: cannot be read: the symbolic link is broken"
    );
    let first = run.pod("Ready");
    assert_eq!(node.pods(), ["web"]);
    symlink("..2", node.manifest("..next")).unwrap();
    fs::rename(node.manifest("..next"), node.manifest("..data")).unwrap();
    let second = run.pod("Ready");
    assert_ne!(second["pod"]["uid"], first["pod"]["uid"]);
    assert_eq!(node.pods(), ["web"]);
}

#[test]
fn while_the_folder_is_missing_all_pods_are_kept() {
    let node = Node::with("web.yaml", &pod("web", ""));
    let mut run = node.run();
    run.pod("Ready");
    let before = node.changes();
    let (here, away) = (node.path("manifests"), node.path("away"));
    fs::rename(&here, &away).unwrap();
    let refused = run.action("Refuse");
    let folder = here.display();
    assert_eq!(
        why(&refused),
        format!("{folder}: cannot be read: No such file or directory\n{folder}: all pods are kept")
    );
    node.look_again();
    assert_eq!(node.changes(), before);
    // The pods are still kept running.
    node.exit("web", 1);
    run.pod("Ready");
    fs::rename(&away, &here).unwrap();
    run.action("Solve");
    node.look_again();
    assert_eq!(node.runtime.sim.calls_made(Rpc::StopContainer), 0);
    node.remove("web.yaml");
    run.pod("Gone");
}
