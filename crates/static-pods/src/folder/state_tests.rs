use std::sync::OnceLock;
use std::time::Duration;

use super::super::scan::Stamp;
use super::*;

/// A folder in memory: what each file contains, and how often it was written.
#[derive(Default)]
struct World {
    files: BTreeMap<Arc<str>, (u64, String)>,
    writes: u64,
    is_gone: bool,
    /// Which folder is at the path.
    inode: u64,
    /// How much time has passed.
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
        if self.is_gone {
            return Err("No such file or directory".to_owned());
        }
        let entry = |(writes, _): &(u64, String)| Entry::File(Stamp::of(*writes));
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

    fn look(&self, state: &mut State) -> Vec<String> {
        for name in state.look(self.listing(), self.now()) {
            let (writes, content) = &self.files[&name];
            let content = Content::Whole(Stamp::of(*writes), content.as_bytes().to_vec());
            state.take(&name, content);
        }
        let changes = state.changes(Path::new("/manifests"));
        changes.iter().map(ToString::to_string).collect()
    }

    /// Two looks.
    fn settle(&self, state: &mut State) -> Vec<String> {
        let mut changes = self.look(state);
        changes.extend(self.look(state));
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
fn a_file_is_read_once_two_looks_show_the_same() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", "apiVersion: v1\n");
    assert!(world.look(&mut state).is_empty());
    world.write("web.yaml", pod("web", "nginx"));
    assert!(world.look(&mut state).is_empty(), "it is being written");
    assert!(!state.is_settled());
    assert_eq!(
        world.look(&mut state),
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
    assert!(state.look(world.listing(), world.now()).is_empty());
    let to_read = state.look(world.listing(), world.now());
    assert_eq!(to_read, ["web.yaml".into()]);
    let half = Content::Whole(Stamp::of(99), b"apiVersion: v1".to_vec());
    state.take(&to_read[0], half);
    world.write("web.yaml", pod("web", "nginx:2"));
    let changes = world.settle(&mut state);
    assert!(changes[0].contains("is wanted"), "{changes:?}");
}

#[test]
fn a_file_that_is_gone_for_one_look_keeps_its_pod() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    world.settle(&mut state);
    world.remove("web.yaml");
    assert!(world.look(&mut state).is_empty());
    assert!(!state.is_settled(), "the next look is soon");
    world.write("web.yaml", pod("web", "nginx"));
    assert!(
        world.settle(&mut state).is_empty(),
        "the same pod as before"
    );
    world.remove("web.yaml");
    assert_eq!(
        world.settle(&mut state),
        ["web.yaml: pod default/web is not wanted any more"]
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
    assert!(world.settle(&mut state).is_empty(), "the same mistake");
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
    world.is_gone = true;
    assert_eq!(
        world.settle(&mut state),
        ["/manifests: cannot be read: No such file or directory\n/manifests: all pods are kept"]
    );
    assert!(world.settle(&mut state).is_empty(), "reported once");
    world.is_gone = false;
    assert_eq!(world.settle(&mut state), ["/manifests: problem solved"]);
}

#[test]
fn a_folder_that_is_not_there_at_first_is_not_complete() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.is_gone = true;
    let changes = world.settle(&mut state);
    assert_eq!(changes.len(), 1, "{changes:?}");
    world.is_gone = false;
    assert_eq!(
        world.settle(&mut state),
        ["/manifests: problem solved", "all manifests are read"]
    );
}

const REPLACED: &str = "/manifests: another directory is in its place, which is empty: \
     mount its file system, or put a manifest into it\n/manifests: all pods are kept";

const ALL_GONE: &str = "/manifests: all manifests are gone at once: their pods end if none is back \
     within 30 s\n/manifests: all pods are kept";

#[test]
fn a_folder_whose_file_system_is_unmounted_ends_no_pod_however_long_that_lasts() {
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
        // Mounted again, it may be another device.
        (world.files, world.inode) = (files, 8);
        assert_eq!(world.settle(&mut state), ["/manifests: problem solved"]);
    }
}

#[test]
fn a_folder_that_is_replaced_by_another_with_manifests_is_used_once_that_lasts() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    world.settle(&mut state);
    (world.files, world.inode) = (BTreeMap::new(), 7);
    world.write("shop.yaml", pod("shop", "nginx"));
    assert_eq!(world.settle(&mut state), [ALL_GONE]);
    world.age += Duration::from_secs(31);
    let mut changes = world.settle(&mut state);
    changes.sort();
    assert_eq!(
        changes,
        [
            "/manifests: problem solved",
            "shop.yaml: pod default/shop is wanted",
            "web.yaml: pod default/web is not wanted any more",
        ]
    );
}

#[test]
fn several_manifests_that_are_gone_at_once_must_be_gone_for_half_a_minute() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    world.write("shop.yaml", pod("shop", "nginx"));
    world.settle(&mut state);
    let files = mem::take(&mut world.files);
    assert_eq!(world.settle(&mut state), [ALL_GONE]);
    world.age += Duration::from_secs(29);
    assert!(world.settle(&mut state).is_empty());
    // As where a directory is emptied and copied anew.
    world.files.clone_from(&files);
    assert_eq!(world.settle(&mut state), ["/manifests: problem solved"]);
    world.files.clear();
    assert_eq!(world.settle(&mut state), [ALL_GONE], "counted anew");
    world.age += Duration::from_secs(31);
    assert_eq!(
        world.settle(&mut state),
        [
            "/manifests: problem solved",
            "shop.yaml: pod default/shop is not wanted any more",
            "web.yaml: pod default/web is not wanted any more",
        ]
    );
    // One of several that goes alone ends its pod at once.
    world.files = files;
    world.settle(&mut state);
    world.remove("web.yaml");
    let gone = "web.yaml: pod default/web is not wanted any more";
    assert_eq!(world.settle(&mut state), [gone]);
}

#[test]
fn of_two_files_with_one_pod_the_first_is_used_until_it_goes() {
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
        "the first to be there, when one is new"
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
fn a_file_whose_pod_has_another_name_now_ends_the_earlier_pod() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    world.settle(&mut state);
    world.write("web.yaml", pod("shop", "nginx"));
    assert_eq!(
        world.settle(&mut state),
        [
            "web.yaml: pod default/web is not wanted any more",
            "web.yaml: pod default/shop is wanted",
        ]
    );
}

#[test]
fn a_file_that_changes_all_the_time_does_not_hold_up_the_others_for_ever() {
    let (mut world, mut state) = (World::default(), State::new("node"));
    world.write("web.yaml", pod("web", "nginx"));
    let mut changes = Vec::new();
    for _ in 0..=MAX_LOOKS_BEFORE_SYNCED {
        world.write("log.txt", "more");
        changes.extend(world.look(&mut state));
    }
    assert_eq!(
        changes,
        [
            "web.yaml: pod default/web is wanted",
            // What was adopted from it is kept.
            "log.txt: not read yet, because it keeps changing",
            "all manifests are read"
        ]
    );
    world.settle(&mut state);
    assert_eq!(world.settle(&mut state), [] as [&str; 0]);
}
