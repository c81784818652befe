//! The path of the guard's program.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::process::geteuid;

/// The name of the guard's program.
const NAME: &str = "pleg-guard";

/// The path of the guard's program, which is beside this program, or else in a directory of `PATH`.
pub fn find() -> anyhow::Result<PathBuf> {
    let own = env::current_exe().context("the path of this program could not be determined")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let found = find_in(own.parent(), &path);
    let own = own.display();
    found.with_context(|| {
        format!("{NAME} is neither beside {own} nor in PATH: install it; each release contains it")
    })
}

fn find_in(beside: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let beside = beside.map(Path::to_owned).into_iter();
    let directories = beside.chain(env::split_paths(path));
    let mut places = directories.map(|directory| directory.join(NAME));
    places.find(|place| is_executable(place))
}

fn is_executable(place: &Path) -> bool {
    let file = fs::metadata(place);
    file.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Refuses a program if a user other than root and the current one owns it or its directory, or if all
/// users may write to either. Root runs the program, between the kubelet and its runtime.
pub fn check_safe(program: &Path) -> anyhow::Result<()> {
    for path in [Some(program), program.parent()].into_iter().flatten() {
        let shown = path.display();
        let about = fs::metadata(path).with_context(|| format!("cannot read {shown}"))?;
        let owner = about.uid();
        ensure!(
            (owner == 0 || owner == geteuid().as_raw()) && about.mode() & 0o002 == 0,
            "users other than root may replace {shown}: install {NAME} in /usr/bin or /usr/local/bin"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    fn program(directory: &Path, mode: u32) -> PathBuf {
        let program = directory.join(NAME);
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(mode)).unwrap();
        program
    }

    #[test]
    fn the_program_beside_ours_wins_over_one_in_the_path() {
        let [beside, path] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let find = || find_in(Some(beside.path()), path.path().as_os_str());
        assert_eq!(find(), None);
        let in_path = program(path.path(), 0o755);
        assert_eq!(find(), Some(in_path.clone()));
        program(beside.path(), 0o644);
        assert_eq!(find(), Some(in_path), "the other cannot be run");
        assert_eq!(find(), find_in(None, path.path().as_os_str()));
        let ours = program(beside.path(), 0o755);
        assert_eq!(find(), Some(ours));
    }

    #[test]
    fn a_program_that_any_user_may_replace_is_not_installed() {
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), 0o755);
        check_safe(&program).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o757)).unwrap();
        assert!(check_safe(&program).is_err());
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(check_safe(&program).is_err());
    }
}
