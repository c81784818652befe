//! The folder of the bundles: the newest ten are kept, with at most 50 MB in total. Files of other
//! programs in it are left alone.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pleg::model::wall_time::WallTime;

/// How many bundles are kept.
const MAX_BUNDLES: usize = 10;

/// The total size of the bundles that are kept, in bytes.
const MAX_TOTAL_BYTES: u64 = 50 << 20;

/// What a bundle's name begins and ends with; in between is the time.
const PREFIX: &str = "pleg-";
const SUFFIX: &str = ".json.gz";

/// The path of a bundle that is made at `time`. Creates the folder, which only its owner can read.
pub(super) fn place(directory: &Path, time: WallTime) -> io::Result<PathBuf> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)?;
    let time = time.timestamp().strftime("%Y%m%dT%H%M%SZ");
    Ok(directory.join(format!("{PREFIX}{time}{SUFFIX}")))
}

/// Removes the oldest bundles, so that the others are within the limits.
pub(super) fn prune(directory: &Path) -> io::Result<()> {
    let mut bundles = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_bundle = name
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        // Symbolic links are not followed.
        let about = entry.metadata()?;
        if is_bundle && about.is_file() {
            bundles.push((name, about.len(), entry.path()));
        }
    }
    // The names contain the times, so this sorts by age.
    bundles.sort();
    let mut total = 0;
    for (index, (_, size, path)) in bundles.iter().rev().enumerate() {
        total += size;
        if index >= MAX_BUNDLES || total > MAX_TOTAL_BYTES {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_ten_stay_and_files_of_other_programs() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("a/b");
        for minute in 10..25 {
            let seconds = 1_795_377_600 + 60 * minute;
            let time = WallTime::from_unix_nanos(seconds * 1_000_000_000).unwrap();
            File::create(place(&folder, time).unwrap()).unwrap();
        }
        File::create(folder.join("notes.json.gz")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("pleg-0.json.gz")).unwrap();
        prune(&folder).unwrap();
        let names = names(&folder);
        assert_eq!(names.len(), 12, "{names:?}");
        assert!(names.contains(&"pleg-20261122T201500Z.json.gz".to_owned()));
        assert!(!names.contains(&"pleg-20261122T201400Z.json.gz".to_owned()));
    }

    #[test]
    fn together_they_have_at_most_fifty_megabytes() {
        let directory = tempfile::tempdir().unwrap();
        for (name, megabytes) in [("pleg-1", 30), ("pleg-2", 30), ("pleg-3", 15)] {
            let file = File::create(directory.path().join(format!("{name}.json.gz"))).unwrap();
            file.set_len(megabytes << 20).unwrap();
        }
        prune(directory.path()).unwrap();
        assert_eq!(
            names(directory.path()),
            ["pleg-2.json.gz", "pleg-3.json.gz"]
        );
        prune(&directory.path().join("nowhere")).unwrap_err();
    }
}
