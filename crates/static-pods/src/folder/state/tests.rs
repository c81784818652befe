use std::sync::OnceLock;
use std::time::Duration;

use super::*;
use crate::folder::scan::Stamp;

/// A folder in memory: the content of each file, and the number of its last write.
#[derive(Default)]
struct World {
    files: BTreeMap<Arc<str>, (u64, String)>,
    writes: u64,
    is_missing: bool,
    /// The inode of the folder at the path.
    inode: u64,
    /// The time since the start.
    age: Duration,
}

impl World {
    fn write(&mut self, name: &str, content: impl Into<String>) {
        self.writes += 1;
        self.files
            .insert(name.into(), (self.writes, content.into()));
    }

    fn remove(&mut self, name: &str) {
        self.files.remove(name);
    }

    fn listing(&self) -> Listing {
        if self.is_missing {
            return Err("No such file or directory".to_owned());
        }
        let entry = |(writes, _): &(u64, String)| Ok(Stamp::of(*writes));
        let files = self.files.iter();
        let files = files.map(|(name, it)| (name.clone(), entry(it))).collect();
        Ok(Listed {
            folder: (0, self.inode),
            files,
        })
    }

    fn now(&self) -> Instant {
        static START: OnceLock<Instant> = OnceLock::new();
        *START.get_or_init(Instant::now) + self.age
    }

    fn scan(&self, state: &mut State) -> Vec<String> {
        for name in state.scanned(self.listing(), self.now()) {
            let (writes, content) = &self.files[&name];
            let content = Ok((Stamp::of(*writes), content.as_bytes().to_vec()));
            state.read(&name, content);
        }
        let changes = state.changes(Path::new("/manifests"));
        changes.iter().map(ToString::to_string).collect()
    }

    /// Scans twice.
    fn settle(&self, state: &mut State) -> Vec<String> {
        let mut changes = self.scan(state);
        changes.extend(self.scan(state));
        changes
    }
}

fn pod(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
         spec: {{containers: [{{name: a, image: {image}}}]}}\n"
    )
}

#[test]
fn a_file_is_read_when_two_scans_show_the_same_entry() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", "apiVersion: v1\n");
    assert!(world.scan(&mut state).is_empty());
    world.write("web.yaml", pod("web", "nginx"));
    assert!(world.scan(&mut state).is_empty(), "it is being written");
    assert!(!state.is_settled());
    assert_eq!(
        world.scan(&mut state),
        [
            "web.yaml: pod default/web is wanted",
            "all manifests are read"
        ]
    );
    assert!(state.is_settled());
    assert!(world.settle(&mut state).is_empty(), "nothing is new");
}

#[test]
fn a_file_that_is_written_while_it_is_read_is_read_again() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    assert!(state.scanned(world.listing(), world.now()).is_empty());
    let to_read = state.scanned(world.listing(), world.now());
    assert_eq!(to_read, ["web.yaml".into()]);
    let half = Ok((Stamp::of(99), b"apiVersion: v1".to_vec()));
    state.read(&to_read[0], half);
    world.write("web.yaml", pod("web", "nginx:2"));
    let changes = world.settle(&mut state);
    assert!(changes[0].contains("is wanted"), "{changes:?}");
}

#[test]
fn a_file_that_is_missing_in_one_scan_keeps_its_pod() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    world.settle(&mut state);
    world.remove("web.yaml");
    assert!(world.scan(&mut state).is_empty());
    assert!(!state.is_settled(), "the next scan is soon");
    world.write("web.yaml", pod("web", "nginx"));
    assert!(world.settle(&mut state).is_empty(), "the pod is equal");
    world.remove("web.yaml");
    assert_eq!(
        world.settle(&mut state),
        ["web.yaml: pod default/web is no longer wanted"]
    );
}

#[test]
fn a_mistake_in_a_manifest_keeps_the_pod_and_is_reported_once() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    world.settle(&mut state);
    let half = &pod("web", "nginx")[..60];
    world.write("web.yaml", half);
    let changes = world.settle(&mut state);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(
        changes[0].ends_with("web.yaml: pod default/web is kept as it was"),
        "{changes:?}"
    );
    assert!(world.settle(&mut state).is_empty());
    world.write("web.yaml", half);
    assert!(world.settle(&mut state).is_empty(), "the problem is equal");
    world.write("web.yaml", pod("web", "nginx:2"));
    assert_eq!(
        world.settle(&mut state),
        [
            "web.yaml: pod default/web is wanted",
            "web.yaml: problem solved"
        ]
    );
}

#[test]
fn a_new_layout_of_the_same_manifest_changes_nothing() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    world.settle(&mut state);
    world.write("web.yaml", format!("# a comment\n{}", pod("web", "nginx")));
    assert!(world.settle(&mut state).is_empty());
}

#[test]
fn a_folder_that_cannot_be_read_ends_no_pod() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    world.settle(&mut state);
    world.is_missing = true;
    assert_eq!(
        world.settle(&mut state),
        ["/manifests: cannot be read: No such file or directory\n/manifests: all pods are kept"]
    );
    assert!(world.settle(&mut state).is_empty(), "reported once");
    world.is_missing = false;
    assert_eq!(world.settle(&mut state), ["/manifests: problem solved"]);
}

#[test]
fn a_folder_that_does_not_exist_yet_is_not_synced() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.is_missing = true;
    let changes = world.settle(&mut state);
    assert_eq!(changes.len(), 1, "{changes:?}");
    world.is_missing = false;
    assert_eq!(
        world.settle(&mut state),
        ["/manifests: problem solved", "all manifests are read"]
    );
}

const REPLACED: &str = "/manifests: an empty directory is in its place: \
     mount its file system, or put a manifest into it\n/manifests: all pods are kept";

const ALL_MISSING: &str = "/manifests: all manifests disappeared at once: their pods end in \
     30 s unless a manifest is back\n/manifests: all pods are kept";

#[test]
fn a_folder_whose_file_system_is_unmounted_ends_no_pod() {
    for names in [&["web.yaml"][..], &["web.yaml", "shop.yaml"]] {
        let (mut world, mut state) = (World::default(), State::new("node"));
        for name in names {
            world.write(name, pod(name.trim_end_matches(".yaml"), "nginx"));
        }
        world.settle(&mut state);
        let files = mem::take(&mut world.files);
        world.inode = 7;
        assert_eq!(world.settle(&mut state), [REPLACED]);
        for _ in 0..100 {
            world.age += Duration::from_secs(60);
            assert!(world.settle(&mut state).is_empty());
        }
        // A file system that is mounted again may have another device.
        (world.files, world.inode) = (files, 8);
        assert_eq!(world.settle(&mut state), ["/manifests: problem solved"]);
    }
}

#[test]
fn a_folder_that_is_replaced_by_another_with_manifests_is_used_after_half_a_minute() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    world.settle(&mut state);
    (world.files, world.inode) = (BTreeMap::new(), 7);
    world.write("shop.yaml", pod("shop", "nginx"));
    assert_eq!(world.settle(&mut state), [ALL_MISSING]);
    world.age += Duration::from_secs(31);
    let mut changes = world.settle(&mut state);
    changes.sort();
    assert_eq!(
        changes,
        [
            "/manifests: problem solved",
            "shop.yaml: pod default/shop is wanted",
            "web.yaml: pod default/web is no longer wanted",
        ]
    );
}

#[test]
fn several_manifests_that_disappear_at_once_must_be_missing_for_half_a_minute() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    world.write("shop.yaml", pod("shop", "nginx"));
    world.settle(&mut state);
    let files = mem::take(&mut world.files);
    assert_eq!(world.settle(&mut state), [ALL_MISSING]);
    world.age += Duration::from_secs(29);
    assert!(world.settle(&mut state).is_empty());
    // For example, a directory is emptied and copied again.
    world.files.clone_from(&files);
    assert_eq!(world.settle(&mut state), ["/manifests: problem solved"]);
    world.files.clear();
    assert_eq!(world.settle(&mut state), [ALL_MISSING], "counted again");
    world.age += Duration::from_secs(31);
    assert_eq!(
        world.settle(&mut state),
        [
            "/manifests: problem solved",
            "shop.yaml: pod default/shop is no longer wanted",
            "web.yaml: pod default/web is no longer wanted",
        ]
    );
    // If one of several manifests disappears alone, its pod ends at once.
    world.files = files;
    world.settle(&mut state);
    world.remove("web.yaml");
    let removed = "web.yaml: pod default/web is no longer wanted";
    assert_eq!(world.settle(&mut state), [removed]);
}

#[test]
fn if_two_files_define_one_pod_the_first_is_used_until_it_is_removed() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("b.yaml", pod("web", "b"));
    world.write("a.yaml", pod("web", "a"));
    assert_eq!(
        world.settle(&mut state),
        [
            "a.yaml: pod default/web is wanted",
            "b.yaml: pod default/web is already defined by a.yaml",
            "all manifests are read",
        ],
        "the first by name, when both are new"
    );
    world.write("0.yaml", pod("web", "c"));
    assert_eq!(
        world.settle(&mut state),
        ["0.yaml: pod default/web is already defined by a.yaml"],
        "the older one, when one is new"
    );
    world.write("a.yaml", pod("web", "a:2"));
    assert_eq!(
        world.settle(&mut state),
        ["a.yaml: pod default/web is wanted"],
        "a new version does not lose its place"
    );
    world.remove("a.yaml");
    assert_eq!(
        world.settle(&mut state),
        [
            "b.yaml: pod default/web is wanted",
            "b.yaml: problem solved",
            "0.yaml: pod default/web is already defined by b.yaml",
        ]
    );
}

#[test]
fn a_file_that_defines_a_pod_with_another_name_ends_the_previous_pod() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    world.settle(&mut state);
    world.write("web.yaml", pod("shop", "nginx"));
    assert_eq!(
        world.settle(&mut state),
        [
            "web.yaml: pod default/web is no longer wanted",
            "web.yaml: pod default/shop is wanted",
        ]
    );
}

#[test]
fn a_file_that_keeps_changing_does_not_delay_the_others_forever() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    let mut changes = Vec::new();
    for _ in 0..=MAX_SCANS_BEFORE_SYNCED {
        world.write("log.txt", "more");
        changes.extend(world.scan(&mut state));
    }
    assert_eq!(
        changes,
        [
            "web.yaml: pod default/web is wanted",
            // While the file has a problem, a pod that was adopted from it is kept.
            "log.txt: not read yet, because it keeps changing",
            "all manifests are read"
        ]
    );
    world.settle(&mut state);
    assert_eq!(world.settle(&mut state), [] as [&str; 0]);
}
