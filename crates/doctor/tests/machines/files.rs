//! The files of a machine, and those of a healthy node.

use std::fs;
use std::path::Path;

pub fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, text).expect("to write");
}

pub const HEALTHY: &[(&str, &str)] = &[
    ("proc/uptime", "1000000.00 1.0\n"),
    ("proc/loadavg", "0.55 0.40 0.20 2/400 9999\n"),
    ("proc/stat", "cpu  1000 0 1000 8000 0 0 0 0 0 0\n"),
    (
        "proc/meminfo",
        "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\nDirty: 10 kB\n",
    ),
    (
        "proc/vmstat",
        "workingset_refault_file 100\npgmajfault 100\n",
    ),
    (
        "proc/diskstats",
        "   8       0 sda 1000 0 0 1000 1000 0 0 1000 0 1000 2000\n",
    ),
    (
        "proc/pressure/io",
        "some avg10=2.00 avg60=2.00 avg300=1.00 total=1\nfull avg10=1.00 avg60=1.00 avg300=1.00 total=1\n",
    ),
    (
        "proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
    ),
    (
        "proc/pressure/cpu",
        "some avg10=20.00 avg60=20.00 avg300=20.00 total=1\n",
    ),
    (
        "proc/1/mountinfo",
        "22 1 8:0 / / rw - ext4 /dev/sda rw\n23 22 0:22 / /run rw - tmpfs tmpfs rw\n\
         24 22 0:60 / /var/lib/kubelet/pods/p/volumes/data rw - nfs4 filer:/export rw\n\
         25 22 0:61 / /mnt/s3 rw - fuse.s3fs s3fs rw\n\
         26 22 0:30 / /sys/fs/fuse/connections rw - fusectl none rw\n",
    ),
    (
        "proc/cgroups",
        "#subsys_name hierarchy num_cgroups enabled\nmemory 4 5 1\n",
    ),
    ("proc/sys/kernel/osrelease", "6.1.0-31-amd64\n"),
    ("proc/sys/kernel/pid_max", "32768\n"),
    ("proc/sys/kernel/threads-max", "60000\n"),
    ("proc/sys/fs/file-nr", "3000 0 900000\n"),
    ("proc/sys/fs/inotify/max_user_instances", "128\n"),
    ("proc/sys/fs/pipe-user-pages-soft", "16384\n"),
    ("sys/fs/cgroup/freezer/kubepods/freezer.state", "THAWED\n"),
    ("sys/fs/cgroup/pids/system.slice/pids.current", "50\n"),
    ("sys/fs/cgroup/pids/system.slice/pids.max", "max\n"),
    ("sys/fs/cgroup/memory/kubepods/memory.stat", ""),
    (
        "sys/fs/cgroup/cpu,cpuacct/system.slice/containerd.service/cpu.stat",
        "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
    ),
    (
        "etc/os-release",
        "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
    ),
    (
        "etc/cni/net.d/10-pods.conflist",
        "{\"name\":\"pods\",\"plugins\":[{\"type\":\"ptp\"},{\"type\":\"portmap\"}]}",
    ),
    (
        "var/lib/dpkg/status",
        "Package: systemd\nStatus: install ok installed\nVersion: 252.39-1~deb12u1\n\n\
         Package: zsh\nStatus: install ok installed\nVersion: 5.9\n",
    ),
    ("dev/kmsg", "6,1,999990000000,-;eth0: link becomes ready\n"),
    ("usr/sbin/runc", "\u{7f}ELF -X main.version=1.1.12 -s"),
];
