# Builds a container image without a container engine: one layer with the observer and the glibc that
# it needs, which `docker load`, `ctr images import`, `podman load` and `skopeo` can read.
#
#   oci-layout, index.json, blobs/sha256/*   the image in OCI's image layout
#   manifest.json                            for Docker before 25, which reads no OCI layout
#
# shellcheck shell=bash disable=SC2154 # `dist` sets `version`.

# The files of libc6 and libgcc-s1 that the binary maps. Names are resolved by libc.so.6 itself.
# No certificates: the cluster's are in the service account or in the kubeconfig.
make_root() {
    local architecture=$1 binary=$2 root=$3 gnu package name unpacked=$3.packages
    gnu=$(gnu_of "$architecture")
    rm -rf "$root" "$unpacked"
    mkdir -p "$unpacked" "$root"/{etc,run,tmp,usr/bin,"usr/lib/$gnu",var/lib/dpkg/status.d}
    chmod 1777 "$root/tmp"
    for package in "$(glibc_of "$architecture")"/*.deb; do
        dpkg -x "$package" "$unpacked"
        name=$(dpkg-deb -f "$package" Package)
        # Image scanners look for packages here.
        dpkg-deb -f "$package" >"$root/var/lib/dpkg/status.d/$name"
        mkdir -p "$root/usr/share/doc"
        if [ -L "$unpacked/usr/share/doc/$name" ]; then
            cp -P "$unpacked/usr/share/doc/$name" "$root/usr/share/doc/$name"
        else
            install -Dm644 "$unpacked/usr/share/doc/$name/copyright" "$root/usr/share/doc/$name/copyright"
        fi
    done
    for name in libc.so.6 libm.so.6 libgcc_s.so.1; do
        install -m644 "$unpacked/usr/lib/$gnu/$name" "$root/usr/lib/$gnu/$name"
    done
    case $architecture in
        amd64) loader=lib64/ld-linux-x86-64.so.2 ;;
        arm64) loader=lib/ld-linux-aarch64.so.1 ;;
    esac
    install -Dm755 "$(readlink -f "$unpacked/usr/$loader")" "$root/usr/$loader"
    ln -s usr/lib "$root/lib"
    [ ! -d "$root/usr/lib64" ] || ln -s usr/lib64 "$root/lib64"
    rm -rf "$unpacked"

    echo 'root:x:0:0:root:/:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/:/usr/sbin/nologin' >"$root/etc/passwd"
    echo 'root:x:0:
nogroup:x:65534:' >"$root/etc/group"
    echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
    install -m755 "$binary" "$root/usr/bin/pleg"
    ln -s pleg "$root/usr/bin/kubectl-pleg"
    ln -s usr/bin/pleg "$root/pleg"
    install -Dm644 LICENSE "$root/usr/share/doc/pleg/LICENSE"
}

# Moves a file to the path named by its digest, and prints the digest.
add_blob() {
    local digest
    digest=$(sha256sum <"$1" | cut -d' ' -f1)
    mv "$1" "$2/blobs/sha256/$digest"
    echo "$digest"
}

# make_image ARCHITECTURE BINARY FILE
make_image() {
    local architecture=$1 file=$3 work=target/packaging/image-$1 variant='' created layout
    local diff layer layer_size config config_size manifest manifest_size
    layout=$work/layout
    rm -rf "$work"
    mkdir -p "$layout/blobs/sha256"
    make_root "$architecture" "$2" "$work/root"
    created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    [ "$architecture" = arm64 ] && variant='"variant":"v8",'

    pack -C "$work/root" -c . >"$work/layer.tar"
    diff=$(sha256sum <"$work/layer.tar" | cut -d' ' -f1)
    gzip -9n "$work/layer.tar"
    layer_size=$(stat -c %s "$work/layer.tar.gz")
    layer=$(add_blob "$work/layer.tar.gz" "$layout")

    cat >"$work/config" <<JSON
{"created":"$created","architecture":"$architecture",${variant}"os":"linux","config":{"Env":["PATH=/usr/bin"],"Entrypoint":["/pleg"],"Cmd":["--help"],"WorkingDir":"/","Labels":{"org.opencontainers.image.title":"pleg","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:$diff"]},"history":[{"created":"$created","created_by":"make dist"}]}
JSON
    config_size=$(stat -c %s "$work/config")
    config=$(add_blob "$work/config" "$layout")

    cat >"$work/manifest" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:$config","size":$config_size},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:$layer","size":$layer_size}]}
JSON
    manifest_size=$(stat -c %s "$work/manifest")
    manifest=$(add_blob "$work/manifest" "$layout")

    echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    cat >"$layout/index.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:$manifest","size":$manifest_size,"platform":{"architecture":"$architecture",${variant}"os":"linux"},"annotations":{"io.containerd.image.name":"docker.io/library/pleg:$version","org.opencontainers.image.ref.name":"$version"}}]}
JSON
    echo "[{\"Config\":\"blobs/sha256/$config\",\"RepoTags\":[\"pleg:$version\"],\"Layers\":[\"blobs/sha256/$layer\"]}]" >"$layout/manifest.json"
    pack -C "$layout" -c blobs index.json manifest.json oci-layout >"$file"
    rm -rf "$work"
}

# make_multi_image FILE IMAGE...: one OCI layout with the images of all architectures under one index,
# which `skopeo copy --all oci-archive:FILE` pushes.
make_multi_image() {
    local file=$1 work=target/packaging/multi-image layout image manifests='' index index_size
    shift
    layout=$work/layout
    rm -rf "$work"
    mkdir -p "$layout/blobs/sha256"
    for image in "$@"; do
        mkdir "$work/one"
        tar -xf "$image" -C "$work/one"
        mv "$work"/one/blobs/sha256/* "$layout/blobs/sha256/"
        # The descriptor of the image, without the annotations that only an image of one architecture
        # has.
        manifests+=$(sed -E 's/.*"manifests":\[(.*)\]\}$/\1/; s/,"annotations":\{[^}]*\}//' "$work/one/index.json"),
        rm -rf "$work/one"
    done
    cat >"$work/index" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[${manifests%,}]}
JSON
    index_size=$(stat -c %s "$work/index")
    index=$(add_blob "$work/index" "$layout")
    echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    cat >"$layout/index.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:$index","size":$index_size,"annotations":{"org.opencontainers.image.ref.name":"$version"}}]}
JSON
    pack -C "$layout" -c blobs index.json oci-layout >"$file"
    rm -rf "$work"
}
