//! `hostPath`: a path of the host that must exist or is created.

use std::fs::{self, DirBuilder, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::spec::HostPathType;

/// Checks the type of the path, and creates it if the type allows that.
pub(super) fn check(path: &Path, kind: HostPathType) -> io::Result<()> {
    let (is_right, expected): (fn(&FileType) -> bool, _) = match kind {
        HostPathType::Any => return Ok(()),
        HostPathType::DirectoryOrCreate | HostPathType::Directory => {
            (FileType::is_dir, "a directory")
        }
        HostPathType::FileOrCreate | HostPathType::File => (FileType::is_file, "a file"),
        HostPathType::Socket => (FileType::is_socket, "a socket"),
        HostPathType::CharDevice => (FileType::is_char_device, "a character device"),
        HostPathType::BlockDevice => (FileType::is_block_device, "a block device"),
    };
    // Links are followed, as they are when the runtime mounts the path.
    match kind {
        HostPathType::DirectoryOrCreate if !path.try_exists()? => {
            DirBuilder::new().recursive(true).mode(0o755).create(path)?;
        }
        HostPathType::FileOrCreate if !path.try_exists()? => make_file(path)?,
        _ => {}
    }
    match is_right(&fs::metadata(path)?.file_type()) {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "hostPath type check failed: not {expected}"
        ))),
    }
}

/// Creates a file, but not its folder, which can be created by another volume.
fn make_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o644);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
