# One private containerd: its paths, start and status.
# shellcheck shell=bash

# use_instance NAME: sets the variables with the name and the paths of this instance.
use_instance() {
    [[ $1 =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$ ]] || misuse "'$1' is not a valid name: use letters, digits, dot, dash and underscore, at most 32"
    name_in_use=$1
    run_dir=$run_root/$1
    lib_dir=$lib_root/$1
    state_dir=$run_dir/state
    runc_root=$run_dir/runc
    packages=$lib_dir/packages
    flags=$lib_dir/flags
    socket=$run_dir/containerd.sock
    endpoint=unix://$socket
    log_file=$run_dir/containerd.log
    pid_file=$run_dir/containerd.pid
    cgroup=pleg-testbed/$1
    tracking=$(tracking_mount) || fail 'no cgroup hierarchy that can track processes is mounted here'
    # The name of a network device has at most 15 characters.
    bridge=$(printf 'pleg%08x' "$(cksum <<<"$1" | cut -d ' ' -f 1)")
}

instances() {
    local folder
    for folder in "$run_root"/* "$lib_root"/* "$(tracking_mount)"/pleg-testbed/*/; do
        if [[ -d $folder ]]; then
            basename "$folder"
        fi
    done | sort -u
}

need_instance() {
    [[ -d $run_dir && -d $lib_dir ]] && return
    local others
    others=$(instances | paste -sd ' ')
    fail "there is no instance '$name_in_use'; ${others:+other instances: $others (choose with --name); }'testbed up' starts one"
}

# Prints the process id of containerd if it runs. It must have been started with the configuration of this instance.
containerd_pid() {
    local pid
    local -a command=()
    read -r pid 2>/dev/null <"$pid_file" || return 1
    mapfile -d '' command 2>/dev/null <"/proc/$pid/cmdline" || return 1
    [[ ${command[*]: -1} == "$lib_dir/containerd.toml" ]] && echo "$pid"
}

ctr() { "$packages/usr/bin/ctr" --address "$socket" --namespace k8s.io "$@"; }

answers() { [[ -S $socket ]] && ctr --connect-timeout 1s version >/dev/null 2>&1; }

# The CRI service accepts calls later than the socket accepts connections. In all three versions it logs this line last before that.
ready_or_dead() {
    ! kill -0 "$started" 2>/dev/null || { grep -q 'Start streaming server' < <(tail -c "+$((log_start + 1))" "$log_file") && answers; }
}

# Starts containerd in its own session and cgroup, without open files of this process.
launch_containerd() {
    rm -f "$socket" "$socket.ttrpc"
    touch "$log_file"
    log_start=$(stat -c %s "$log_file")
    (
        join_cgroup runtime
        forget_lock
        # containerd finds its shim by PATH, and CNI plugins find their tools in sbin.
        PATH=$packages/usr/bin:$PATH:/usr/sbin:/sbin exec setsid "$packages/usr/bin/containerd" --config "$lib_dir/containerd.toml"
    ) </dev/null >>"$log_file" 2>&1 &
    started=$!
    echo "$started" >"$pid_file"
}

start_containerd() {
    local limit=${PLEG_TESTBED_TIMEOUT:-20}
    launch_containerd
    wait_until "$limit" ready_or_dead || fail "containerd did not answer within $limit s; its log is $log_file"
    containerd_pid >/dev/null || fail "containerd exited at once: $(tail -n 1 "$log_file")"
}

prepare_instance() {
    mkdir -p "$run_dir" "$lib_dir/bin" "$flags"
    echo "$1" >"$lib_dir/version"
    ln -s "$cache/$1" "$packages"
    # A copy, so that `down` can remove the bridge when the cache is gone.
    cp "$packages/bin/busybox" "$lib_dir/bin/busybox"
    install "$here/fault-wrappers/runc" "$lib_dir/bin/runc"
    snapshotter=$(choose_snapshotter)
    write_cni
    write_config "$1"
}

up() {
    local version=$1 running
    check_host
    fetch "$version"
    lock_testbed
    if containerd_pid >/dev/null; then
        running=$(<"$lib_dir/version")
        [[ $running == "$version" ]] || fail "the instance '$name_in_use' is up with version $running; choose another --name"
        say "'$name_in_use' is already up"
    else
        remove_instance
        prepare_instance "$version"
        start_containerd
        import_images
        say "'$name_in_use' is up: $(grep '^containerd ' "$packages/packages.txt")"
    fi
    echo "$endpoint"
}

containerd_state() {
    local pid
    pid=$(containerd_pid) || { echo 'containerd not running'; return; }
    case $(sed -n 's/^State:\s*//p' "/proc/$pid/status") in
        T*) echo "containerd $pid stopped" ;;
        *) echo "containerd $pid running" ;;
    esac
}

status() {
    if [[ ! -d $lib_dir ]]; then
        echo "$name_in_use: down"
        return
    fi
    local faults
    faults=$(active_faults | paste -sd ',' | sed 's/,/, /g')
    echo "$name_in_use: version $(<"$lib_dir/version"), $(containerd_state), $(shims | wc -l) shims, faults: ${faults:-none}, $endpoint"
}

status_of_all() {
    local name names
    names=$(instances)
    [[ $names ]] || echo 'no instance is up'
    for name in $names; do
        use_instance "$name"
        status
    done
}
