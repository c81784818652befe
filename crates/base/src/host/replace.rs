//! Replaces files atomically, even if the power fails.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::beside;

/// The extension of a file that is not complete yet. A process that is killed may leave such a file behind.
pub const UNFINISHED: &str = "new";

/// Creates or replaces the file at `path` with this `content` and these permission bits (such as `0o600`).
/// The file has these bits from its creation. On return the content and the name are on the disk. Two
/// processes must not replace the same file at the same time.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    replace_with(path, content, mode, &mut File::sync_all)
}

fn replace_with(
    path: &Path,
    content: &[u8],
    mode: u32,
    sync: &mut dyn FnMut(&File) -> io::Result<()>,
) -> io::Result<()> {
    let new = beside(path, &format!(".{UNFINISHED}"));
    let _ = fs::remove_file(&new);
    let mut options = File::options();
    let mut file = options.write(true).create_new(true).mode(mode).open(&new)?;
    // The umask may have cleared some of the bits.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(content)?;
    sync(&file)?;
    fs::rename(&new, path)?;
    sync(&File::open(path.parent().unwrap_or(Path::new("/")))?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_file_is_synced_before_it_is_renamed_and_its_directory_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        fs::write(&path, "old").unwrap();
        let mut synced = Vec::new();
        let mut sync = |file: &File| {
            let about = file.metadata()?;
            let named = fs::read_to_string(&path)?;
            synced.push((about.is_dir(), about.len() == 3 && !about.is_dir(), named));
            Ok(())
        };
        replace_with(&path, b"new", 0o600, &mut sync).unwrap();
        let expected = [
            (false, true, "old".to_owned()),
            (true, false, "new".to_owned()),
        ];
        assert_eq!(synced, expected);
    }

    #[test]
    fn a_file_that_cannot_be_synced_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        fs::write(&path, "old").unwrap();
        let mut sync = |_: &File| Err(io::Error::other("the disk is broken"));
        assert!(replace_with(&path, b"new", 0o600, &mut sync).is_err());
        assert_eq!(fs::read_to_string(path).unwrap(), "old");
    }

    #[test]
    fn the_file_is_never_readable_by_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let modes = threads.spawn(|| {
                let new = folder.path().join("records.new");
                let mut wider = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let about = fs::metadata(&new);
                    wider += usize::from(about.is_ok_and(|it| it.mode() & 0o077 != 0));
                }
                wider
            });
            for _ in 0..2000 {
                replace_with(&path, b"rows", 0o600, &mut |_| Ok(())).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(modes.join().unwrap(), 0);
        });
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
    }
}
