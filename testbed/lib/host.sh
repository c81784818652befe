# Checks whether the testbed can run on this machine.
# shellcheck shell=bash

check_apt() {
    local tool
    for tool in apt-get dpkg-deb; do
        command -v "$tool" >/dev/null || fail "$tool is missing: apt downloads the packages from Debian"
    done
    [[ -r $keyring ]] || fail "$keyring is missing: packages of other Debian suites could not be verified"
}

check_mounts() {
    local trial
    trial=$(mktemp -d)
    if ! mount -t tmpfs none "$trial" 2>/dev/null; then
        rmdir "$trial"
        fail 'nothing can be mounted here'
    fi
    umount "$trial"
    rmdir "$trial"
}

check_cgroups() {
    local folder
    folder=$(tracking_mount) || fail 'neither freezer cgroups (v1) nor unified cgroups (v2) are mounted here'
    folder=$folder/pleg-testbed-check-$$
    mkdir "$folder" 2>/dev/null || fail "cgroups cannot be created below $(tracking_mount)"
    rmdir "$folder"
}

check_host() {
    local version missing=yes
    need_root
    for version in 1.6 1.7 2; do
        ! is_fetched "$version" || missing=''
    done
    [[ -z $missing ]] || check_apt
    check_mounts
    check_cgroups
    unshare --net true 2>/dev/null || fail 'network namespaces cannot be created here'
}
