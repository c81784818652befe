//! containerd's root on a file system of its own, whose disk can be slowed down for containerd
//! alone: a loop device, and the throttle of cgroup v1.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed_driver::Testbed;

const BLKIO: &str = "/sys/fs/cgroup/blkio";

/// A page takes four seconds.
const BYTES_PER_SECOND: u32 = 1024;

/// The disk of one test bed; its mount is gone when this value is dropped.
#[derive(Debug)]
pub struct SlowDisk {
    root: PathBuf,
    group: PathBuf,
    device: String,
}

impl SlowDisk {
    /// Moves the root of this containerd to a disk of its own. `None` where cgroup v1 cannot
    /// throttle it.
    pub async fn below(testbed: &Testbed) -> Option<Self> {
        if !Path::new(BLKIO).is_dir() {
            return None;
        }
        let folder = PathBuf::from(format!("/var/lib/pleg-testbed/{}", testbed.name()));
        let (root, image) = (folder.join("root"), folder.join("disk"));
        let moved = folder.join("moved");
        testbed.verb(&["crash"]).await.expect("it can be done");
        fs::rename(&root, &moved).expect("no process uses it");
        fs::create_dir(&root).expect("a folder");
        let file = fs::File::create(&image).expect("a file");
        file.set_len(512 << 20).expect("a sparse file");
        run("mkfs.ext4", &["-q".as_ref(), image.as_os_str()]);
        run(
            "mount",
            &[
                "-o".as_ref(),
                "loop".as_ref(),
                image.as_os_str(),
                root.as_os_str(),
            ],
        );
        run("cp", &["-aT".as_ref(), moved.as_os_str(), root.as_os_str()]);
        testbed.verb(&["start"]).await.expect("it can be done");
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let at = root.to_str().expect("plain text");
        let mut devices = mounts.lines().filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words.get(4) == Some(&at)).then(|| words[2].to_owned())
        });
        let device = devices.next().expect("it is mounted");
        let group = Path::new(BLKIO).join(testbed.name());
        fs::create_dir_all(&group).expect("a cgroup");
        Some(Self {
            root,
            group,
            device,
        })
    }

    /// From now on containerd's writes take seconds.
    pub async fn slow(&self, testbed: &Testbed) {
        let pid = testbed.verb(&["pid"]).await.expect("it runs");
        fs::write(self.group.join("cgroup.procs"), pid).expect("to move it");
        self.limit(BYTES_PER_SECOND).expect("to throttle it");
    }

    /// Its writes are quick again.
    pub fn quick(&self) {
        self.limit(0).expect("to end the throttle");
    }

    fn limit(&self, bytes: u32) -> std::io::Result<()> {
        let file = self.group.join("blkio.throttle.write_bps_device");
        fs::write(file, format!("{} {bytes}", self.device))
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // Whatever of it is left is removed with the test bed.
        let _ = self.limit(0);
        let _ = Command::new("umount").arg("-l").arg(&self.root).status();
        if let Ok(pids) = fs::read_to_string(self.group.join("cgroup.procs")) {
            for pid in pids.lines() {
                let _ = fs::write(Path::new(BLKIO).join("cgroup.procs"), pid);
            }
        }
        let _ = fs::remove_dir(&self.group);
    }
}

#[track_caller]
fn run(program: &str, arguments: &[&std::ffi::OsStr]) {
    let status = Command::new(program).args(arguments).status();
    assert!(status.expect("it starts").success(), "{program}");
}
