# All processes of an instance are in one cgroup, so that all are found, even if their parent has ended.
# shellcheck shell=bash

cgroup_mounts() {
    local folder type
    while read -r _ folder type _; do
        if [[ $type == cgroup || $type == cgroup2 ]]; then
            echo "$folder"
        fi
    done </proc/mounts
}

# The hierarchy that tracks and freezes processes: the v1 freezer if there is one, else the unified hierarchy.
tracking_mount() {
    local folder type options unified=''
    while read -r _ folder type options _; do
        case "$type,$options," in
            cgroup,*,freezer,*) echo "$folder"; return ;;
            cgroup2,*) unified=$folder ;;
        esac
    done </proc/mounts
    [[ $unified ]] && echo "$unified"
}

# join_cgroup PART: moves the calling (sub)shell into the instance's cgroup PART.
join_cgroup() {
    mkdir -p "$tracking/$cgroup/$1"
    echo "$BASHPID" >"$tracking/$cgroup/$1/cgroup.procs"
}

# The ids of containers, from the directories of the instance.
container_ids() {
    find "$state_dir"/io.containerd.runtime.v2.task/* "$runc_root"/* -mindepth 1 -maxdepth 1 -type d -printf '%f\n' 2>/dev/null | sort -u
}

# foreign_cgroups FOLDER...: cgroups of containers of this instance that are not below the cgroup of the instance.
foreign_cgroups() {
    local ids
    ids=$(container_ids)
    [[ $ids ]] || return 0
    find "$@" -mindepth 1 -path "*/$cgroup" -prune -o -type d -printf '%f %p\n' 2>/dev/null |
        awk 'NR == FNR { ours[$1]; next } $1 in ours { print $2 }' <(echo "$ids") -
}

# Directories of the tracking hierarchy that contain processes of this instance.
instance_cgroups() {
    local top
    for top in "$tracking/$cgroup" $(foreign_cgroups "$tracking"); do
        find "$top" -type d 2>/dev/null || true
    done
}

# processes_in FOLDER...: prints process ids. A process outside this PID namespace is shown as 0, for which kill would signal this process group.
processes_in() { cat "${@/%//cgroup.procs}" 2>/dev/null | grep -vx 0 || true; }

# freezer STATE FOLDER: STATE is frozen or thawed.
freezer() {
    if [[ -e $2/freezer.state ]]; then
        echo "${1^^}" >"$2/freezer.state"
    elif [[ $1 == frozen ]]; then
        echo 1 >"$2/cgroup.freeze"
    else
        echo 0 >"$2/cgroup.freeze"
    fi
}

container_cgroup() {
    local folder
    folder=$(find "$tracking" -type d -name "$1" -print -quit 2>/dev/null)
    [[ $folder ]] && echo "$folder"
}

# A cgroup is busy for a short time after its last process has died, so the caller retries until this succeeds.
# Unused parents are removed only with the last instance: otherwise a runc of another instance may have just created them.
remove_cgroups() {
    local -a mounts tops
    mapfile -t mounts < <(cgroup_mounts)
    mapfile -t tops < <(foreign_cgroups "${mounts[@]}")
    tops+=("${mounts[@]/%//$cgroup}")
    find "${tops[@]}" -depth -type d -exec rmdir {} + 2>/dev/null || true
    if [[ -z $(instances | grep -vxF "$name_in_use") ]]; then
        printf '%s\0' "${tops[@]%/*}" | xargs --null rmdir --parents 2>/dev/null || true
    fi
    [[ -z $(find "${tops[@]}" -maxdepth 0 2>/dev/null) ]]
}
