//! A real folder, scanned at shorter intervals than by default.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use static_pods::folder::{Change, Folder, ProblemKind, ScanIntervals, Subject};
use tempfile::TempDir;
use tokio::time::timeout;

const INTERVALS: ScanIntervals = ScanIntervals {
    settled: Duration::from_millis(20),
    unsettled: Duration::from_millis(10),
};

fn pod(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  containers:\n  \
         - name: main\n    image: {image}\n"
    )
}

fn open(path: impl AsRef<Path>) -> Folder {
    Folder::open_with(path.as_ref(), "node", INTERVALS).unwrap()
}

async fn next(folder: &mut Folder) -> Change {
    let change = timeout(Duration::from_secs(30), folder.next()).await;
    change.expect("a change is reported")
}

/// The next change, as displayed.
async fn line(folder: &mut Folder) -> String {
    next(folder).await.to_string()
}

async fn assert_no_change(folder: &mut Folder) {
    let change = timeout(Duration::from_millis(300), folder.next()).await;
    assert!(change.is_err(), "{change:?}");
}

async fn until_synced(folder: &mut Folder) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        match next(folder).await {
            Change::Synced => return changes,
            change => changes.push(change),
        }
    }
}

#[tokio::test]
async fn new_changed_and_removed_manifests_are_reported() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("web.yaml"), pod("web", "nginx:1")).unwrap();
    fs::write(dir.path().join(".web.yaml.swp"), "\0").unwrap();
    fs::create_dir(dir.path().join("more")).unwrap();
    fs::write(dir.path().join("more/shop.yaml"), pod("shop", "nginx")).unwrap();
    let mut folder = open(&dir);
    let changes = until_synced(&mut folder).await;
    let [Change::Set { spec, file }] = &changes[..] else {
        panic!("{changes:?}");
    };
    assert_eq!((&*spec.pod.name, &**file), ("web", "web.yaml"));
    let before = spec.pod.uid.clone();

    fs::write(dir.path().join("web.yaml"), pod("web", "nginx:2")).unwrap();
    let Change::Set { spec, .. } = next(&mut folder).await else {
        panic!("the pod is another one");
    };
    assert_ne!(spec.pod.uid, before);
    assert_eq!(spec.containers[0].image, "nginx:2");

    fs::remove_file(dir.path().join("web.yaml")).unwrap();
    let removed = next(&mut folder).await;
    assert!(
        matches!(&removed, Change::Removed { pod, .. } if pod.uid == spec.pod.uid),
        "{removed:?}"
    );
    assert_no_change(&mut folder).await;
}

#[tokio::test]
async fn links_through_a_folder_that_is_swapped_change_at_once() {
    let dir = TempDir::new().unwrap();
    for (version, image) in [("..1", "nginx:1"), ("..2", "nginx:2")] {
        fs::create_dir(dir.path().join(version)).unwrap();
        fs::write(dir.path().join(version).join("web.yaml"), pod("web", image)).unwrap();
    }
    symlink("..1", dir.path().join("..data")).unwrap();
    symlink("..data/web.yaml", dir.path().join("web.yaml")).unwrap();
    let mut folder = open(&dir);
    assert_eq!(until_synced(&mut folder).await.len(), 1);
    symlink("..2", dir.path().join("..data_tmp")).unwrap();
    fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).unwrap();
    let Change::Set { spec, .. } = next(&mut folder).await else {
        panic!("the pod is another one");
    };
    assert_eq!(spec.containers[0].image, "nginx:2");
    fs::remove_dir_all(dir.path().join("..2")).unwrap();
    assert_eq!(
        line(&mut folder).await,
        "web.yaml: cannot be read: the symbolic link is broken\n\
         web.yaml: pod default/web is kept as it was"
    );
}

#[tokio::test]
async fn a_folder_that_disappears_keeps_its_pods() {
    let dir = TempDir::new().unwrap();
    let (here, away) = (dir.path().join("here"), dir.path().join("away"));
    let mut folder = open(&here);
    let missing = line(&mut folder).await;
    assert!(
        missing.contains("cannot be read: No such file"),
        "{missing}"
    );
    fs::create_dir(&here).unwrap();
    assert!(line(&mut folder).await.ends_with("here: problem solved"));
    assert_eq!(line(&mut folder).await, "all manifests are read");
    fs::write(here.join("web.yaml"), pod("web", "nginx")).unwrap();
    assert_eq!(
        line(&mut folder).await,
        "web.yaml: pod default/web is wanted"
    );
    fs::rename(&here, &away).unwrap();
    let missing = line(&mut folder).await;
    assert!(missing.ends_with("here: all pods are kept"), "{missing}");
    assert_no_change(&mut folder).await;
    fs::rename(&away, &here).unwrap();
    assert!(line(&mut folder).await.ends_with("here: problem solved"));
    assert_no_change(&mut folder).await;
}

/// A bind mount of a directory, which lasts until the value is dropped.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// `None` without the permission to mount.
    fn bind(source: &Path, at: &'a Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .arg("--bind")
            .args([source, at])
            .status();
        mounted.is_ok_and(|it| it.success()).then_some(Self(at))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0).status();
        assert!(unmounted.is_ok_and(|it| it.success()));
    }
}

#[tokio::test]
async fn a_folder_that_is_unmounted_keeps_its_pods() {
    let dir = TempDir::new().unwrap();
    let (disk, here) = (dir.path().join("disk"), dir.path().join("here"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&here).unwrap();
    fs::write(disk.join("web.yaml"), pod("web", "nginx")).unwrap();
    let Some(mounted) = Mounted::bind(&disk, &here) else {
        return;
    };
    let mut folder = open(&here);
    assert_eq!(until_synced(&mut folder).await.len(), 1);
    drop(mounted);
    let replaced = line(&mut folder).await;
    assert!(replaced.ends_with("here: all pods are kept"), "{replaced}");
    assert_no_change(&mut folder).await;
    let _mounted = Mounted::bind(&disk, &here);
    assert!(line(&mut folder).await.ends_with("here: problem solved"));
    assert_no_change(&mut folder).await;
}

#[tokio::test]
async fn a_file_that_is_not_regular_or_too_large_is_reported_and_delays_no_other() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("a.yaml");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    symlink("/dev/zero", dir.path().join("b.yaml")).unwrap();
    fs::write(dir.path().join("c.yaml"), vec![b'#'; 2 << 20]).unwrap();
    fs::write(dir.path().join("d.yaml"), "").unwrap();
    fs::write(dir.path().join("web.yaml"), pod("web", "nginx")).unwrap();
    let mut folder = open(&dir);
    let changes = until_synced(&mut folder).await;
    let lines: Vec<_> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "web.yaml: pod default/web is wanted",
            "a.yaml: not a regular file",
            "b.yaml: not a regular file",
            "c.yaml: larger than 1048576 bytes",
            "d.yaml: the file is empty: a manifest of a pod is expected",
        ]
    );
    let of_a = Subject::File("a.yaml".into());
    assert!(changes.contains(&Change::Problem {
        subject: of_a,
        problem: ProblemKind::NotAFile,
        kept: None
    }));
}

#[tokio::test]
async fn a_thousand_files_are_a_thousand_pods() {
    let dir = TempDir::new().unwrap();
    for i in 0..1000 {
        let name = format!("pod-{i}");
        fs::write(dir.path().join(&name), pod(&name, "nginx")).unwrap();
    }
    let mut folder = open(&dir);
    let changes = until_synced(&mut folder).await;
    assert_eq!(changes.len(), 1000);
    assert!(changes.iter().all(|it| matches!(it, Change::Set { .. })));
    fs::remove_file(dir.path().join("pod-500")).unwrap();
    assert_eq!(
        line(&mut folder).await,
        "pod-500: pod default/pod-500 is no longer wanted"
    );
}
