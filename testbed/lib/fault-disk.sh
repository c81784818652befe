# Faults of the disk of containerd's root: slow, full.
# shellcheck shell=bash

# make_disk FOLDER MIB: mounts a file system of this size at FOLDER. Its data is in the file FOLDER.disk.
make_disk() {
    mkdir "$1"
    truncate --size "$2M" "$1.disk"
    { "$lib_dir/bin/busybox" mke2fs -F "$1.disk" && mount -o loop "$1.disk" "$1"; } >>"$run_dir/faults.log" 2>&1 ||
        fail "a loop device cannot be mounted here: $(tail -n 1 "$run_dir/faults.log")"
}

# Refused once there are pods, because their root directories would stay on the old disk.
fault_disk() {
    local root=$lib_dir/root
    ! mountpoint -q "$root" || { echo "the root of containerd has a separate disk already"; return; }
    [[ -z $(shims) ]] || fail 'there are pods already: their files would stay on the old disk'
    lock_testbed
    signal_containerd KILL killed >/dev/null
    wait_until 10 is_gone || fail 'containerd survived SIGKILL for 10 s'
    mv "$root" "$lib_dir/moved"
    make_disk "$root" 256
    cp -aT "$lib_dir/moved" "$root"
    rm -rf "$lib_dir/moved"
    start_containerd
    echo "the root of containerd has a separate disk, $(own_disk)"
}

own_disk() { mountpoint -d "$lib_dir/root" 2>/dev/null; }

need_disk() { mountpoint -q "$lib_dir/root" || fail "the root of '$name_in_use' has no separate disk; 'testbed disk' creates one"; }

blkio_mount() {
    local folder type options
    while read -r _ folder type options _; do
        [[ $type != cgroup || ",$options," != *,blkio,* ]] || { echo "$folder"; return; }
    done </proc/mounts
}

# throttle BYTES: limits writes to BYTES per second; 0 removes the limit.
throttle() {
    local blkio folder
    blkio=$(blkio_mount)
    if [[ $blkio ]]; then
        mkdir -p "$blkio/$cgroup/disk"
        containerd_pid >"$blkio/$cgroup/disk/cgroup.procs" || fail "containerd of '$name_in_use' is not running"
        echo "$(own_disk) $1" >"$blkio/$cgroup/disk/blkio.throttle.write_bps_device"
        return
    fi
    for folder in "$tracking" "$tracking/${cgroup%/*}" "$tracking/$cgroup"; do
        echo +io >"$folder/cgroup.subtree_control"
    done
    echo "$(own_disk) wbps=${1/#0/max}" >"$tracking/$cgroup/runtime/io.max"
}

# With this limit, writing a page takes four seconds.
fault_disk_slow() {
    need_disk
    throttle 1024 || fail 'the cgroups of this machine do not throttle disks'
    touch "$flags/disk-slow"
    echo 'each write of containerd to its root takes seconds'
}

fault_disk_quick() {
    need_disk
    throttle 0
    rm -f "$flags/disk-slow"
    echo 'the writes of containerd are fast again'
}

# After a write has failed, a smaller one may still succeed.
fault_disk_full() {
    need_disk
    local size
    for size in 1M 4k 512; do
        ! dd if=/dev/zero of="$lib_dir/root/filler-$size" bs=$size 2>/dev/null || fail 'the disk never became full'
    done
    touch "$flags/disk-full"
    echo 'the root of containerd is full'
}

fault_disk_free() {
    need_disk
    rm -f "$lib_dir/root"/filler-* "$flags/disk-full"
    echo 'the root of containerd has free space again'
}
