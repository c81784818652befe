#!/bin/sh
# Boots systemd as process 1 of a container on top of a root folder, of which it changes
# nothing, and prints the process id of systemd-nspawn. When stdin ends, as it does however
# its parent ends, it takes everything away. Usage: boot.sh ROOT
set -eu
root=$1

# The groups of one name: in both hierarchies of a hybrid machine, or in the only one.
groups_of() {
    for hierarchy in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
        [ ! -e $hierarchy/cgroup.procs ] || echo "$hierarchy/$1"
    done
}

# Kills until no process is left, since a process that is being killed may still start others.
take_away() {
    for _ in $(seq 200); do
        folders=$(groups_of "$1" | xargs -I {} find {} -depth -type d 2>/dev/null) || true
        [ "$folders" ] || return 0
        for folder in $folders; do
            # Another namespace's processes read 0, which `kill` would take for our own group.
            grep -hvx 0 "$folder/cgroup.procs" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
            rmdir "$folder" 2>/dev/null || true
        done
        sleep 0.05
    done
}

# In namespaces of its own: with systemd-nspawn all processes end, and what is mounted, locked
# or put into /tmp. The systemd-nspawn of the folder runs with the libraries of the folder.
# shellcheck disable=SC2016
nspawn='
    read -r pid _ </proc/self/stat
    mount -t proc none /proc
    mount -t tmpfs none /run
    mkdir /run/root
    mount --bind "$1" /run/root
    mount -t tmpfs none /tmp
    nspawn=systemd-nspawn
    if [ "$1" != / ]; then
        loader=$(echo /run/root/usr/lib/*/ld-linux*.so.*)
        libraries=${loader%/*}
        nspawn="$loader --library-path $libraries:$libraries/systemd /run/root/usr/bin/$nspawn"
    fi
    echo "$pid"
    exec >/dev/null $nspawn --quiet --directory=/run/root --volatile=overlay --keep-unit --register=no \
        --private-network --console=pipe --boot -- systemd.unit=basic.target'

# What a run left behind that was killed together with its parent; who has ended but was not
# waited for has no file any more.
for left in $(groups_of 'doctor-booted-*'); do
    [ ! -d "$left" ] || [ -e "/proc/${left##*-}/exe" ] || take_away "${left##*/}"
done

name=doctor-booted-$$
trap '' HUP INT TERM
(
    for group in $(groups_of "$name"); do
        mkdir "$group"
        echo 0 >"$group/cgroup.procs"
    done
    exec setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child \
        sh -euc "$nspawn" nspawn "$root"
) </dev/null &
exec >&-
cat >/dev/null
kill -KILL $! 2>/dev/null || true
take_away "$name"
