# The configuration of containerd. Features that use anything outside the directories of the instance (NRI, /opt/containerd, AppArmor profiles) are disabled.
# shellcheck shell=bash

# Overlay does not work on every file system (for example not in a container of Docker). Native always works.
choose_snapshotter() {
    local trial=$lib_dir/overlay-trial
    mkdir -p "$trial"/{lower,upper,work,merged}
    if mount -t overlay overlay -o "lowerdir=$trial/lower,upperdir=$trial/upper,workdir=$trial/work" "$trial/merged" 2>/dev/null; then
        umount "$trial/merged"
        echo overlayfs
    else
        echo native
    fi
    rm -rf "$trial"
}

config_base() {
    cat <<TOML
version = $1
root = '$lib_dir/root'
state = '$state_dir'
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.internal.v1.opt']

[grpc]
  address = '$socket'
[debug]
  address = '$run_dir/debug.sock'
  level = '${PLEG_TESTBED_LOG_LEVEL:-info}'
TOML
}

# config_runtime PLUGIN [LINE] [CONTAINERD_LINE] [CNI_LINE]: the part that both configuration versions share.
config_runtime() {
    cat <<TOML
[plugins.'$1']
  # Without CAP_SYS_RESOURCE a lower OOM score cannot be set, and runc would fail.
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  ${2:-}
[plugins.'$1'.containerd]
  default_runtime_name = 'runc'
  ${3:-}
[plugins.'$1'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'$1'.containerd.runtimes.runc.options]
  BinaryName = '$lib_dir/bin/runc'
  Root = '$runc_root'
[plugins.'$1'.cni]
  conf_dir = '$lib_dir/cni/conf'
  ${4:-}
TOML
}

write_config() {
    local cri=io.containerd.grpc.v1.cri
    if [[ $1 == 2 ]]; then
        config_base 3
        config_runtime io.containerd.cri.v1.runtime '' '' "bin_dirs = ['$lib_dir/cni/bin']"
        cat <<TOML
[plugins.'io.containerd.cri.v1.images']
  snapshotter = '$snapshotter'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '$sandbox_image'
TOML
    else
        config_base 2
        config_runtime $cri "sandbox_image = '$sandbox_image'" "snapshotter = '$snapshotter'" "bin_dir = '$lib_dir/cni/bin'"
    fi >"$lib_dir/containerd.toml"
}
