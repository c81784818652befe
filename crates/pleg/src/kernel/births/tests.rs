//! With real directories and the kernel's inotify.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use futures_util::StreamExt;
use tokio::time::timeout;

use super::*;

/// The deadline of each step, far longer than it takes.
const LONG: Duration = Duration::from_secs(20);

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// A runtime with a task directory, which need not exist.
struct Runtime {
    root: tempfile::TempDir,
}

impl Runtime {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { root }
    }

    fn with_tasks() -> Self {
        let runtime = Self::new();
        fs::create_dir(runtime.tasks()).unwrap();
        runtime
    }

    fn tasks(&self) -> PathBuf {
        self.root.path().join("tasks")
    }

    fn start(&self, digit: char) {
        fs::create_dir(self.tasks().join(id(digit))).unwrap();
    }

    fn births(&self) -> Births {
        let elsewhere = self.root.path().join("elsewhere");
        births(vec![self.tasks(), elsewhere], Blocking::default())
    }
}

async fn next(births: &mut Births) -> Birth {
    let next = timeout(LONG, births.next()).await;
    next.expect("it is reported soon").expect("it never ends")
}

fn appeared(digit: char) -> Birth {
    Birth::Appeared(Id::from(id(digit)))
}

fn disappeared(digit: char) -> Birth {
    Birth::Disappeared(Id::from(id(digit)))
}

#[tokio::test]
async fn each_directory_of_an_id_is_reported_as_it_appears_and_disappears() {
    let runtime = Runtime::with_tasks();
    runtime.start('0');
    let mut births = runtime.births();
    assert_eq!(next(&mut births).await, Birth::Watched);
    runtime.start('a');
    assert_eq!(next(&mut births).await, appeared('a'));
    fs::create_dir(runtime.tasks().join("not-an-id")).unwrap();
    runtime.start('b');
    assert_eq!(next(&mut births).await, appeared('b'));
    // containerd renames a directory before it removes its content.
    let removed = runtime.tasks().join(format!(".{}", id('a')));
    fs::rename(runtime.tasks().join(id('a')), &removed).unwrap();
    fs::remove_dir(removed).unwrap();
    assert_eq!(next(&mut births).await, disappeared('a'));
    fs::remove_dir(runtime.tasks().join(id('b'))).unwrap();
    assert_eq!(next(&mut births).await, disappeared('b'));
}

#[tokio::test]
async fn a_directory_that_does_not_exist_yet_is_watched_once_it_does() {
    let runtime = Runtime::new();
    let mut births = runtime.births();
    let missing = UnwatchedBirths::Missing(runtime.tasks());
    assert_eq!(next(&mut births).await, Birth::Unwatched(missing));
    fs::create_dir(runtime.tasks()).unwrap();
    assert_eq!(next(&mut births).await, Birth::Watched);
    runtime.start('a');
    assert_eq!(next(&mut births).await, appeared('a'));
}

#[tokio::test]
async fn a_directory_that_is_removed_and_created_again_is_watched_again() {
    let runtime = Runtime::with_tasks();
    let mut births = runtime.births();
    for digit in ['a', 'b'] {
        assert_eq!(next(&mut births).await, Birth::Watched);
        runtime.start(digit);
        assert_eq!(next(&mut births).await, appeared(digit));
        fs::remove_dir(runtime.tasks().join(id(digit))).unwrap();
        fs::remove_dir(runtime.tasks()).unwrap();
        assert_eq!(next(&mut births).await, disappeared(digit));
        let removed = Birth::Unwatched(UnwatchedBirths::Removed);
        assert_eq!(next(&mut births).await, removed);
        fs::create_dir(runtime.tasks()).unwrap();
    }
}

#[tokio::test]
async fn a_directory_that_replaces_another_is_watched() {
    let runtime = Runtime::with_tasks();
    let mut births = runtime.births();
    assert_eq!(next(&mut births).await, Birth::Watched);
    fs::rename(runtime.tasks(), runtime.root.path().join("old")).unwrap();
    fs::create_dir(runtime.tasks()).unwrap();
    let removed = Birth::Unwatched(UnwatchedBirths::Removed);
    assert_eq!(next(&mut births).await, removed);
    assert_eq!(next(&mut births).await, Birth::Watched);
}

/// A link to itself cannot be followed, not even by root.
#[tokio::test]
async fn a_directory_that_cannot_be_watched_is_reported_with_the_reason() {
    let runtime = Runtime::new();
    std::os::unix::fs::symlink(runtime.tasks(), runtime.tasks()).unwrap();
    let mut births = runtime.births();
    let Birth::Unwatched(why @ UnwatchedBirths::Refused { .. }) = next(&mut births).await else {
        panic!("it cannot be watched");
    };
    let path = runtime.tasks().display().to_string();
    assert!(why.to_string().starts_with(&path), "{why}");
}

#[tokio::test]
async fn a_directory_that_may_not_be_read_is_not_watched() {
    if rustix::process::geteuid().is_root() {
        // Root may read every directory.
        return;
    }
    let runtime = Runtime::with_tasks();
    fs::set_permissions(runtime.tasks(), fs::Permissions::from_mode(0o311)).unwrap();
    let mut births = runtime.births();
    let unwatched = next(&mut births).await;
    let is_refused = matches!(unwatched, Birth::Unwatched(UnwatchedBirths::Refused { .. }));
    assert!(is_refused, "{unwatched:?}");
}

#[tokio::test]
async fn changes_beyond_what_the_kernel_keeps_are_reported_as_lost() {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    if limit > 100_000 {
        return;
    }
    let runtime = Runtime::with_tasks();
    let mut births = runtime.births();
    assert_eq!(next(&mut births).await, Birth::Watched);
    // Two changes in each turn; nothing reads them meanwhile.
    let path = runtime.tasks().join(id('a'));
    for _ in 0..limit / 2 + 1 {
        fs::create_dir(&path).unwrap();
        fs::remove_dir(&path).unwrap();
    }
    let mut reported = 0;
    while next(&mut births).await != Birth::Lost {
        reported += 1;
    }
    assert!(reported <= limit, "{reported}");
    // Later changes are reported again.
    runtime.start('b');
    assert_eq!(next(&mut births).await, appeared('b'));
}
