//! What shows that disks, memory or processors are short.

use analyze::kind::Kind;

use crate::{healthy, output};

#[test]
fn a_full_disk_is_not_confused_with_a_file_system_that_is_always_full() {
    let header = "Filesystem      Size  Used Avail Use% Mounted on\n";
    output(
        Kind::ToolOutput,
        &["disk-full"],
        &format!("{header}/dev/sda1        50G   50G     0 100% /\n"),
    );
    output(
        Kind::ToolOutput,
        &["disk-full"],
        "Filesystem      Inodes   IUsed IFree IUse% Mounted on\n/dev/sda1      3276800 3276800     0  100% /var/lib/docker\n",
    );
    healthy(&format!(
        "{header}/dev/loop0       56M   56M     0 100% /snap/core18/1988\ntmpfs           3.2G  2.1M  3.1G   1% /run\n"
    ));
}

#[test]
fn both_layouts_of_free_show_that_memory_is_used_up() {
    output(
        Kind::ToolOutput,
        &["memory-thrash"],
        "              total        used        free      shared  buff/cache   available\nMem:          15885       15610         121          12         153         102\nSwap:             0           0           0\n",
    );
    output(
        Kind::ToolOutput,
        &["memory-thrash"],
        "             total       used       free     shared    buffers     cached\nMem:         15885      15810         75          0          2         60\n-/+ buffers/cache:      15748        137\nSwap:            0          0          0\n",
    );
    healthy(
        "$ free -h\n              total        used        free      shared  buff/cache   available\nMem:           31Gi       8.9Gi       1.1Gi        38Mi        21Gi        21Gi\n",
    );
}

#[test]
fn top_shows_which_resource_is_short() {
    let page = |load: &str, processors: &str, row: &str| {
        format!(
            "top - 14:31:55 up 3 days,  2:20,  2 users,  load average: {load}\nTasks: 351 total\n%Cpu(s): {processors}\n\n  PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n{row}\n"
        )
    };
    let idle = " 4471 root      20   0 3052800 118412  37204 S   3.6  0.7 612:40.18 kubelet";
    let kswapd = "   67 root      20   0       0      0      0 R  98.0  0.0 612:40.18 kswapd0";
    output(
        Kind::ToolOutput,
        &["disk-saturated"],
        &page(
            "40.1, 38.0, 35.0",
            "2.0 us, 5.0 sy, 0.0 ni, 1.0 id, 92.0 wa, 0.0 hi, 0.0 si, 0.0 st",
            idle,
        ),
    );
    output(
        Kind::ToolOutput,
        &["cpu-starved"],
        &page(
            "2.1, 2.0, 2.0",
            "9.0 us, 5.0 sy, 0.0 ni, 6.0 id, 0.0 wa, 0.0 hi, 0.0 si, 80.0 st",
            idle,
        ),
    );
    output(
        Kind::ToolOutput,
        &["memory-thrash"],
        &page(
            "9.1, 8.0, 5.0",
            "2.0 us, 45.0 sy, 0.0 ni, 50.0 id, 3.0 wa, 0.0 hi, 0.0 si, 0.0 st",
            kswapd,
        ),
    );
    healthy(&page(
        "0.8, 0.7, 0.6",
        "9.0 us, 5.0 sy, 0.0 ni, 85.0 id, 1.0 wa, 0.0 hi, 0.0 si, 0.0 st",
        idle,
    ));
}

#[test]
fn iostat_and_vmstat_show_a_disk_that_does_not_keep_up() {
    let devices = |await_: &str, util: &str| {
        format!(
            "Device            r/s     w/s     rkB/s     wkB/s   await  %util\nsda             81.40  218.90   1302.40   9822.60   {await_} {util}\n"
        )
    };
    output(
        Kind::ToolOutput,
        &["disk-saturated"],
        &devices("688.25", "100.00"),
    );
    output(
        Kind::ToolOutput,
        &["disk-saturated"],
        &devices("688,25", "100,00"),
    );
    healthy(&devices("1.02", "99.00"));
    healthy(&devices("88.02", "12.00"));
    let processors = |wait: &str, steal: &str| {
        format!(
            "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           6.12    0.00    4.83   {wait}    {steal}    1.03\n"
        )
    };
    output(
        Kind::ToolOutput,
        &["disk-saturated"],
        &processors("88.02", "0.00"),
    );
    output(
        Kind::ToolOutput,
        &["cpu-starved"],
        &processors("1.02", "70.00"),
    );
    healthy(&processors("2.00", "0.00"));
    output(
        Kind::ToolOutput,
        &["disk-saturated"],
        "$ vmstat 1\nprocs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n 1 19      0 812344  12044 902344    0    0  1200  9800 4100 8100  5  4  2 89  0\n",
    );
}
