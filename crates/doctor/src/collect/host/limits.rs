//! Limits of the whole machine.

use super::Host;
use super::file::{fact, word};
use crate::facts::host::KernelLimits;

pub(super) fn read(host: &Host) -> KernelLimits {
    let sys = host.proc.join("sys");
    KernelLimits {
        files_open: word(&sys.join("fs/file-nr"), 0),
        files_max: word(&sys.join("fs/file-nr"), 2),
        files_of_process_max: word(&sys.join("fs/nr_open"), 0),
        // 0.55 1.10 2.20 3/1234 5678
        tasks: fact(&host.proc.join("loadavg"), |text| {
            let (_, tasks) = text.split_ascii_whitespace().nth(3)?.split_once('/')?;
            tasks.parse().ok()
        }),
        pid_max: word(&sys.join("kernel/pid_max"), 0),
        threads_max: word(&sys.join("kernel/threads-max"), 0),
        inotify_instances_max: word(&sys.join("fs/inotify/max_user_instances"), 0),
        pipe_pages_soft: word(&sys.join("fs/pipe-user-pages-soft"), 0),
    }
}
