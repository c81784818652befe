# Removes an instance in any state: containerd, shims and runc are not called.
# shellcheck shell=bash

# Kills all processes. The caller retries until none is left, because a process can start others while it is killed. A frozen process dies when it is thawed.
all_dead() {
    local -a folders pids
    mapfile -t folders < <(instance_cgroups)
    ((${#folders[@]})) || return 0
    mapfile -t pids < <(processes_in "${folders[@]}")
    ((${#pids[@]})) || return 0
    kill -KILL "${pids[@]}" 2>/dev/null || true
    local folder
    for folder in "${folders[@]}"; do
        freezer thawed "$folder" 2>/dev/null || true
    done
    return 1
}

# Unmounts nested mounts first.
unmount_all() {
    local -a points
    mapfile -t points < <(cut -d ' ' -f 5 /proc/self/mountinfo | grep -E "^($run_dir|$lib_dir)/" | sort -r)
    ((${#points[@]} == 0)) || umount --lazy "${points[@]}"
}

# The sockets of shims are in a directory that all containerds of a machine share. The bundle of a shim has its address.
remove_shim_sockets() {
    local shared=/run/containerd
    grep -hosE "$shared/s/[0-9a-f]+" "$state_dir"/io.containerd.runtime.v2.task/*/*/{address,bootstrap.json} |
        xargs --no-run-if-empty rm -f || true
}

# Removes the shared directories with the last instance only: a shim or a CNI plugin of another instance may be about to use them.
remove_shared_folders() {
    if [[ -z $(instances) ]]; then
        rmdir /run/containerd/s /run/containerd /var/lib/cni/results /var/lib/cni 2>/dev/null || true
        rm -f "$lock_file"
        rmdir --ignore-fail-on-non-empty "$run_root"
    fi
}

remove_instance() {
    thaw_disk
    wait_until 20 all_dead || fail "processes of '$name_in_use' survive SIGKILL, see $tracking/$cgroup"
    unmount_all
    remove_shim_sockets
    remove_cni
    wait_until 10 remove_cgroups || fail "cgroups of '$name_in_use' cannot be removed, see $tracking/$cgroup"
    rm -rf --one-file-system "$run_dir" "$lib_dir"
    rmdir --ignore-fail-on-non-empty "$lib_root" 2>/dev/null || true
}

down() {
    lock_testbed
    if [[ -d $run_dir || -d $lib_dir || -d $tracking/$cgroup ]]; then
        remove_instance
        say "'$name_in_use' is removed"
    else
        say "'$name_in_use' was not up"
    fi
    remove_shared_folders
}

down_all() {
    local name result=0
    for name in $(instances); do
        use_instance "$name"
        (down) || result=1
    done
    return $result
}
