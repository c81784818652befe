# dockerd beside the containerd of an instance. It has no CRI and no kubelet, but its goroutines and its clients are real.
# shellcheck shell=bash

readonly docker_packages=$cache/docker

make_docker() {
    say "fetching dockerd from Debian's sid"
    download "$1" sid docker.io docker-cli libc6 libsystemd0 libcap2
    unpack "$1" "$1/tree"
    use_own_libraries "$1" docker
    chmod 755 "$1/tree"
}

docker() { "$docker_packages/usr/bin/docker" --host "unix://$run_dir/docker.sock" "$@"; }

dockerd_pid() {
    local pid
    pid=$(cat "$run_dir/docker.pid" 2>/dev/null) && [[ $(cat "/proc/$pid/comm" 2>/dev/null) == dockerd ]] && echo "$pid"
}

docker_answers() { docker version >/dev/null 2>&1; }

start_dockerd() {
    fetch docker
    lock_testbed
    if ! dockerd_pid >/dev/null; then
        (
            join_cgroup runtime
            forget_lock
            # The shim and runc are in the directory of containerd.
            PATH=$docker_packages/usr/bin:$packages/usr/bin:$packages/usr/sbin:$PATH exec setsid "$docker_packages/usr/sbin/dockerd" \
                --host "unix://$run_dir/docker.sock" --containerd "$socket" --cgroup-parent "/$cgroup/docker" \
                --data-root "$lib_dir/docker" --exec-root "$run_dir/docker" --storage-driver vfs \
                --bridge none --iptables=false --userland-proxy=false --pidfile "$run_dir/docker.pid"
        ) </dev/null >>"$run_dir/docker.log" 2>&1 &
        wait_until 20 docker_answers || fail "dockerd did not answer within 20 s; its log is $run_dir/docker.log"
        docker load --quiet --input "$packages/images.tar" >/dev/null || fail 'the images could not be loaded'
    fi
    echo "unix://$run_dir/docker.sock"
}

stacks_written() { grep -c 'goroutine stacks written to' "$run_dir/docker.log" || true; }

are_more_written() { (($(stacks_written) > $1)); }

# Waits for a second first: the name of the file contains the time in seconds, so two dumps within a second would be one file.
docker_stacks() {
    local pid before
    pid=$(dockerd_pid) || fail "dockerd of '$name_in_use' is not running"
    sleep 1
    before=$(stacks_written)
    kill -USR1 "$pid"
    wait_until 10 are_more_written "$before" || fail 'dockerd did not write its goroutines within 10 s'
    find "$run_dir/docker" -maxdepth 1 -name 'goroutine-stacks-*.log' | sort | tail -n 1
}
