# Two images with one layer, busybox, in one docker-archive. No registry is needed.
# shellcheck shell=bash

readonly workload_image=pleg.test/busybox:latest
readonly sandbox_image=pleg.test/pause:latest

build_layer() {
    local root=$1/layer applet
    mkdir -p "$root"/{bin,etc,tmp,root}
    cp "$2/bin/busybox" "$root/bin/busybox"
    for applet in $("$root/bin/busybox" --list); do
        [[ $applet == busybox ]] || ln -s busybox "$root/bin/$applet"
    done
    echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
    echo 'root:x:0:' >"$root/etc/group"
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$1/archive/layer.tar" -C "$root" .
}

# image_config LAYER_DIGEST CONFIG_JSON
image_config() {
    printf '{"architecture":"%s","os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$(dpkg --print-architecture)" "$2" "$1"
}

# build_images WORK TREE: creates TREE/images.tar.
build_images() {
    local archive=$1/archive digest environment='"Env":["PATH=/bin"]'
    mkdir "$archive"
    build_layer "$1" "$2"
    read -r digest _ < <(sha256sum "$archive/layer.tar")
    # PID 1 ignores a SIGTERM that it does not handle, so each image handles SIGTERM or sets another signal.
    image_config "$digest" "{$environment,\"Cmd\":[\"sh\",\"-c\",\"trap 'exit 0' TERM; sleep infinity & wait\"]}" >"$archive/workload.json"
    image_config "$digest" "{$environment,\"Entrypoint\":[\"sleep\",\"infinity\"],\"StopSignal\":\"SIGKILL\"}" >"$archive/sandbox.json"
    printf '[{"Config":"workload.json","RepoTags":["%s"],"Layers":["layer.tar"]},{"Config":"sandbox.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' \
        "$workload_image" "$sandbox_image" >"$archive/manifest.json"
    tar -cf "$2/images.tar" -C "$archive" manifest.json workload.json sandbox.json layer.tar
}

# The CRI plugin notices an image shortly after the import. It then adds the id of the image, a name that begins with sha256.
images_known_to_cri() {
    local listed
    listed=$(ctr images list --quiet)
    [[ $(grep -c '^sha256:' <<<"$listed") -ge 2 ]]
}

import_images() {
    local problem
    local -a how=()
    # containerd 2 would unpack the images itself, but supports only the snapshotter overlayfs for this.
    [[ $(<"$lib_dir/version") != 2 ]] || how=(--local)
    problem=$(ctr images import "${how[@]}" --snapshotter "$snapshotter" "$packages/images.tar" 2>&1) ||
        fail "the images could not be imported: $(tail -n 1 <<<"$problem")"
    wait_until 10 images_known_to_cri || fail "the CRI plugin of containerd did not notice the imported images; its log is $log_file"
}
