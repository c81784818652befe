use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::*;
use crate::adopted::Adopted;
use crate::spec::{HostPathType, Medium};
use crate::testing;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn folder(place: &TempDir) -> PodFolder {
    PodFolder::new(place.path(), &"0b2c".into()).unwrap()
}

fn disk() -> Volume {
    Volume::EmptyDir {
        medium: Medium::Disk,
    }
}

fn host_path(path: &Path, kind: HostPathType) -> Volume {
    Volume::HostPath {
        path: path.to_owned(),
        kind,
    }
}

fn with_volume(volume: Volume) -> PodSpec {
    PodSpec {
        volumes: [("data".to_owned(), volume)].into(),
        ..testing::pod()
    }
}

fn mounting(sub_path: Option<&str>) -> ContainerSpec {
    ContainerSpec {
        mounts: vec![Mount {
            volume: "data".to_owned(),
            path: "/data".to_owned(),
            sub_path: sub_path.map(str::to_owned),
            read_only: false,
        }],
        ..testing::container("app")
    }
}

/// Whether this process can mount. Prints a message if it cannot, because tests are skipped then.
fn can_mount() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let place = tempfile::tempdir().unwrap();
    let can = is_root && rustix::mount::mount_bind(place.path(), place.path()).is_ok();
    match can {
        true => rustix::mount::unmount(place.path(), rustix::mount::UnmountFlags::empty()).unwrap(),
        false => writeln!(std::io::stderr(), "SKIPPED: this process cannot mount").unwrap(),
    }
    can
}

#[test]
fn all_users_can_write_to_an_empty_dir_and_an_existing_one_is_not_changed() {
    let place = tempfile::tempdir().unwrap();
    let folder = folder(&place);
    folder.set_up(&with_volume(disk())).unwrap();
    let path = folder.path().join("volumes/data");
    assert_eq!(mode(&path), 0o777);
    assert_eq!(mode(folder.path()), 0o750);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(path.join("file"), "kept").unwrap();
    folder.set_up(&with_volume(disk())).unwrap();
    assert_eq!(mode(&path), 0o700);
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "kept");
}

#[test]
fn an_empty_dir_whose_creation_was_interrupted_is_created() {
    let place = tempfile::tempdir().unwrap();
    let folder = folder(&place);
    let unfinished = folder.path().join("volumes/.data");
    fs::create_dir_all(&unfinished).unwrap();
    folder.set_up(&with_volume(disk())).unwrap();
    assert!(!unfinished.exists());
    assert_eq!(mode(&folder.path().join("volumes/data")), 0o777);
}

#[test]
fn the_group_of_the_pod_owns_its_empty_dirs() {
    let place = tempfile::tempdir().unwrap();
    // Every user can change the group of a folder to a group of their own.
    let group = place.path().metadata().unwrap().gid();
    let mut pod = with_volume(disk());
    pod.security.fs_group = Some(group.into());
    let folder = folder(&place);
    folder.set_up(&pod).unwrap();
    let path = folder.path().join("volumes/data");
    assert_eq!(mode(&path), 0o2777);
    assert_eq!(path.metadata().unwrap().gid(), group);
}

#[test]
fn a_volume_in_memory_has_its_size_and_is_removed_with_the_pod() {
    if !can_mount() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut pod = with_volume(Volume::EmptyDir {
        medium: Medium::Memory {
            size_limit: Some(1 << 20),
        },
    });
    pod.security.fs_group = Some(4711);
    let folder = folder(&place);
    for _ in 0..2 {
        folder.set_up(&pod).unwrap();
    }
    let path = folder.path().join("volumes/data");
    assert!(mounts::is_mounted(&path).unwrap());
    let found = rustix::fs::statvfs(&path).unwrap();
    assert_eq!(found.f_blocks * found.f_frsize, 1 << 20);
    assert_eq!(mode(&path), 0o2777);
    assert_eq!(path.metadata().unwrap().gid(), 4711);
    fs::write(path.join("file"), "in memory").unwrap();
    folder.remove().unwrap();
    assert!(!folder.path().exists());
}

#[test]
fn host_paths_are_checked_and_created_by_their_type() {
    use HostPathType::{
        Any, BlockDevice, CharDevice, Directory, DirectoryOrCreate, File, FileOrCreate, Socket,
    };
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("file"), "").unwrap();
    symlink("folder", at("link")).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    let cases = [
        ("absent", Any, true),
        ("folder", Directory, true),
        ("link", Directory, true),
        ("file", Directory, false),
        ("absent", Directory, false),
        ("file", File, true),
        ("folder", File, false),
        ("absent", File, false),
        ("socket", Socket, true),
        ("file", Socket, false),
        ("file", CharDevice, false),
        ("file", BlockDevice, false),
        ("file", DirectoryOrCreate, false),
        ("folder", FileOrCreate, false),
        ("created/inner", DirectoryOrCreate, true),
        ("created-file", FileOrCreate, true),
        ("absent/file", FileOrCreate, false),
    ];
    let folder = folder(&place);
    for (name, kind, is_ok) in cases {
        let done = folder.set_up(&with_volume(host_path(&at(name), kind)));
        assert_eq!(done.is_ok(), is_ok, "{name} {kind:?}: {done:?}");
    }
    let device = host_path(Path::new("/dev/null"), CharDevice);
    folder.set_up(&with_volume(device)).unwrap();
    assert!(at("created/inner").is_dir() && at("created-file").is_file());
    let error = folder.set_up(&with_volume(host_path(&at("file"), Directory)));
    let text = error.unwrap_err().to_string();
    assert!(
        text.ends_with("/file: hostPath type check failed: not a directory"),
        "{text}"
    );
}

#[test]
fn no_sub_path_leads_out_of_its_volume() {
    let place = tempfile::tempdir().unwrap();
    let (volume, outside) = (place.path().join("volume"), place.path().join("outside"));
    fs::create_dir_all(volume.join("inner/deep")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "").unwrap();
    for (link, target) in [
        ("up", ".."),
        ("outside", outside.to_str().unwrap()),
        ("root", "/"),
        ("inner/twice", "../../outside"),
        ("proc", "/proc/self/root"),
        ("dangling", "/nowhere"),
        ("new", "../outside/new"),
        ("loop", "loop"),
        ("inside", "inner/deep"),
        ("inner/inside", "../inner/./deep"),
    ] {
        symlink(target, volume.join(link)).unwrap();
    }
    for sub_path in [
        "..",
        "../outside",
        "inner/../../outside",
        "up",
        "up/outside",
        "outside",
        "outside/secret",
        "root",
        "root/etc",
        "inner/twice",
        "inner/twice/new",
        "proc",
        "dangling",
        "dangling/new",
        "new",
        "loop",
        "/etc",
        "absent/../../outside",
    ] {
        let opened = sub_path::open(&volume, sub_path);
        assert!(opened.is_err(), "{sub_path} was opened");
    }
    for sub_path in [
        "inner",
        "inner/deep",
        "inside",
        "inner/inside",
        "inner/../inner",
        ".",
    ] {
        sub_path::open(&volume, sub_path).unwrap_or_else(|error| panic!("{sub_path}: {error}"));
    }
    let entries: Vec<_> = fs::read_dir(&outside).unwrap().collect();
    assert_eq!(
        entries.len(),
        1,
        "something was created outside: {entries:?}"
    );
}

#[test]
fn folders_of_a_sub_path_are_created_with_the_mode_of_the_volume() {
    let place = tempfile::tempdir().unwrap();
    let folder = folder(&place);
    folder.set_up(&with_volume(disk())).unwrap();
    let volume = folder.path().join("volumes/data");
    sub_path::open(&volume, "a/b").unwrap();
    assert_eq!(mode(&volume.join("a/b")), 0o777);
}

#[test]
fn a_sub_path_is_mounted_where_no_container_can_change_it() {
    if !can_mount() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let folder = folder(&place);
    let pod = with_volume(disk());
    folder.set_up(&pod).unwrap();
    let volume = folder.path().join("volumes/data");
    let mounts = |sub_path: &str| {
        let container = mounting(Some(sub_path));
        let hosts = Path::new("/etc/hosts");
        folder
            .container_mounts(&pod, &container, None, hosts)
            .map(|it| it[0].clone())
    };
    let bound = mounts("inner").unwrap();
    assert_eq!(
        bound.host_path,
        folder.path().join("volume-subpaths/data/app/0")
    );
    fs::write(volume.join("inner/file"), "content").unwrap();
    // The container replaces the folder with a link, and is restarted.
    fs::rename(volume.join("inner"), volume.join("moved")).unwrap();
    symlink("/", volume.join("inner")).unwrap();
    assert_eq!(
        fs::read_to_string(bound.host_path.join("file")).unwrap(),
        "content"
    );
    let error = mounts("inner").unwrap_err().to_string();
    assert_eq!(
        error,
        "volume \"data\": subPath \"inner\": it leads out of the volume"
    );
    // Mount another subPath, and then a file, at the same mount point.
    assert_eq!(mounts("moved").unwrap(), bound);
    assert_eq!(mounts("moved/file").unwrap(), bound);
    assert_eq!(fs::read_to_string(&bound.host_path).unwrap(), "content");
    folder.remove().unwrap();
    assert!(!folder.path().exists());
}

#[test]
fn mounted_files_of_the_host_are_kept_when_a_pod_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let host = place.path().join("host");
    fs::create_dir(&host).unwrap();
    fs::write(host.join("file"), "kept").unwrap();
    let folder = folder(&place);
    folder.set_up(&with_volume(disk())).unwrap();
    let volume = folder.path().join("volumes/data");
    symlink(&host, volume.join("link")).unwrap();
    symlink(host.join("file"), volume.join("link-to-file")).unwrap();
    if can_mount() {
        let mounted = volume.join("a mount");
        fs::create_dir(&mounted).unwrap();
        rustix::mount::mount_bind(&host, &mounted).unwrap();
    }
    for _ in 0..2 {
        folder.remove().unwrap();
    }
    assert!(!folder.path().exists());
    assert_eq!(fs::read_to_string(host.join("file")).unwrap(), "kept");
}

#[test]
fn a_tree_deeper_than_the_limit_of_open_files_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let folder = folder(&place);
    folder.set_up(&with_volume(disk())).unwrap();
    let flags = rustix::fs::OFlags::DIRECTORY;
    let open = |parent: &std::os::fd::OwnedFd, name: &str| {
        rustix::fs::openat(parent, name, flags, rustix::fs::Mode::empty()).unwrap()
    };
    let volume = folder.path().join("volumes/data");
    let mut at: std::os::fd::OwnedFd = fs::File::open(volume).unwrap().into();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::RWXU).unwrap();
        at = open(&at, "d");
    }
    folder.remove().unwrap();
    assert!(!folder.path().exists());
}

#[test]
fn a_pod_gets_a_hosts_file_of_its_own_or_a_copy_from_the_host() {
    let place = tempfile::tempdir().unwrap();
    let folder = folder(&place);
    let host_hosts = place.path().join("hosts");
    fs::write(&host_hosts, "127.0.0.1 localhost\n10.0.0.1 node\n").unwrap();
    let ip = "10.1.2.3".parse().ok();
    let container = testing::container("app");
    let mounts = |pod: &PodSpec, container: &ContainerSpec, ip| {
        folder
            .container_mounts(pod, container, ip, &host_hosts)
            .unwrap()
    };
    let mut pod = testing::pod();
    let found = mounts(&pod, &container, ip);
    let path = folder.path().join("etc-hosts");
    let expected = BindMount {
        container_path: "/etc/hosts".to_owned(),
        host_path: path.clone(),
        read_only: false,
        is_ours: true,
    };
    assert_eq!(found, [expected]);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("127.0.0.1\tlocalhost\n"), "{text}");
    assert!(text.ends_with("\n10.1.2.3\tweb\n"), "{text}");
    let inode = path.metadata().unwrap().ino();

    pod.network = Network::Host;
    mounts(&pod, &container, None);
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.ends_with("\n127.0.0.1 localhost\n10.0.0.1 node\n"),
        "{text}"
    );
    assert_eq!(
        path.metadata().unwrap().ino(),
        inode,
        "running containers see the old file"
    );

    pod.network = testing::pod().network;
    assert_eq!(mounts(&pod, &container, None), []);
    pod = with_volume(disk());
    let mut its_own = mounting(None);
    its_own.mounts[0].path = "/etc/hosts".to_owned();
    assert_eq!(mounts(&pod, &its_own, ip).len(), 1);
}

#[test]
fn a_uid_that_leads_to_another_folder_is_refused() {
    let place = tempfile::tempdir().unwrap();
    for uid in ["", ".", "..", "../x", "a/b"] {
        assert!(PodFolder::new(place.path(), &uid.into()).is_err(), "{uid}");
    }
}

#[test]
fn a_note_that_a_killed_run_did_not_finish_is_removed_by_the_next_one() {
    let place = tempfile::tempdir().unwrap();
    let pod = testing::pod();
    folder(&place).note("pleg-run", &pod).unwrap();
    let unfinished = place.path().join("pods/1d3e.json.new");
    fs::write(&unfinished, "{\"owner\":").unwrap();
    let notes = read_notes(place.path(), "pleg-run").unwrap();
    assert_eq!(notes, [Adopted::from(&pod)]);
    assert!(!unfinished.exists());
}
