# Downloads packages of Debian and unpacks them into the cache. They are not installed.
# shellcheck shell=bash

cache=$(realpath -m "${PLEG_TESTBED_CACHE:-$here/../target/testbed/packages}")
readonly cache
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg

check_version() { [[ $1 == 1.6 || $1 == 1.7 || $1 == 2 ]] || misuse "there is no version '$1'; the versions are 1.6, 1.7 and 2"; }

suite_of() {
    case $1 in
        1.6) echo bookworm ;;
        1.7) echo trixie ;;
        2) echo sid ;;
    esac
}

# Packages without their own libc, and packages that were moved, are downloaded again: the programs contain the path of their libraries.
is_fetched() {
    local folder=$cache/$1 program=''
    case $1 in
        1.6 | 1.7 | 2) program=ctr ;;
        docker) program=docker ;;
    esac
    [[ -e $folder/packages.txt ]] || return 1
    [[ -z $program ]] || { grep -q '^libc6 ' "$folder/packages.txt" && "$folder/usr/bin/$program" --version >/dev/null 2>&1; }
}

# The first address of a Debian archive in the apt sources of this machine.
mirror() {
    local found=''
    found=$(sed -n -E '/^[[:space:]]*#/d; s#.*(https?://[^] ]+/debian)/?([[:space:]].*|$)#\1#p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1) || true
    echo "${PLEG_TESTBED_MIRROR:-${found:-http://deb.debian.org/debian}}"
}

# Runs apt with separate sources, lists and package states, so that pins and installed versions of this machine have no effect.
private_apt() {
    local suite=$1 work=$2
    shift 2
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    echo "deb [signed-by=$keyring] $(mirror) $suite main" >"$work/sources.list"
    : >"$work/status"
    apt-get -qq \
        -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
        -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::Retries=3 -o APT::Update::Error-Mode=any -o APT::Sandbox::User=root "$@"
}

fetch_lists() {
    private_apt "$2" "$1/$2" update || fail "Debian's package lists of $2 could not be fetched from $(mirror)"
}

# download WORK SUITE PACKAGE...
download() {
    local work=$1 suite=$2
    shift 2
    fetch_lists "$work" "$suite"
    (cd "$work" && private_apt "$suite" "$work/$suite" download "$@") || fail "$* could not be downloaded from Debian's $suite"
}

unpack() {
    local package
    for package in "$1"/*.deb; do
        dpkg-deb --show "$package" | tr '\t' ' ' | tee -a "$2/packages.txt" | sed 's/^/testbed: unpacking /' >&2
        dpkg -x "$package" "$2"
    done
}

# get_tool WORK PACKAGE: unpacks a package of Debian 12, which runs on Debian 12 and later, into WORK/tools.
get_tool() {
    mkdir -p "$1/tools"
    download "$1/tools" bookworm "$2"
    dpkg -x "$1/tools/$2"_*.deb "$1/tools"
}

# use_own_libraries WORK NAME: makes the programs in WORK/tree, which will be NAME in the cache, use the loader and the libraries in that directory: those of this
# machine may be older. The paths are written into the programs, because runc starts itself again without other arguments and environment.
use_own_libraries() {
    local tree=$1/tree final=$cache/$2 patchelf=$1/tools/usr/bin/patchelf program interpreter loader libraries
    get_tool "$1" patchelf
    for program in "$tree"/usr/{bin,sbin,lib/cni}/*; do
        # A script, a link, or a static program.
        [[ -f $program && ! -L $program ]] && interpreter=$("$patchelf" --print-interpreter "$program" 2>/dev/null) || continue
        loader=$(find "$tree" -name "${interpreter##*/}" -type f -print -quit)
        [[ $loader ]] || fail "the loader ${interpreter##*/} of ${program##*/} is in no package"
        libraries=$(find "$tree" -name '*.so.*' -printf '%h\n' | sort -u | sed "s#^$tree#$final#" | paste -sd ':')
        "$patchelf" --set-interpreter "$final${loader#"$tree"}" --force-rpath --set-rpath "$libraries" "$program"
    done
}

make_containerd() {
    local version=$1 work=$2 suite
    suite=$(suite_of "$version")
    say "fetching containerd $version from Debian's $suite"
    download "$work" "$suite" containerd runc containernetworking-plugins libc6 libseccomp2
    unpack "$work" "$work/tree"

    # All versions use the same busybox, which is not tested.
    get_tool "$work" busybox-static
    mkdir "$work/tree/bin"
    cp "$work/tools/bin/busybox" "$work/tree/bin/busybox"
    use_own_libraries "$work" "$version"
    build_images "$work" "$work/tree"
    chmod 755 "$work/tree"
}

# The programs are static, so they need neither the dependencies of the package nor its service.
make_prometheus() {
    say "fetching Prometheus from Debian's bookworm"
    mkdir "$1/all"
    download "$1" bookworm prometheus
    unpack "$1" "$1/all"
    mv "$1/all/packages.txt" "$1/all/usr/bin/prometheus" "$1/all/usr/bin/promtool" "$1/tree"
    chmod 755 "$1/tree"
}

# fetch NAME: works in a directory that gets its final name when it is complete, so an interrupted fetch leaves nothing incomplete.
fetch() {
    local target=$1
    is_fetched "$target" && return
    check_apt
    mkdir -p "$cache"
    # Remove directories of fetches that were killed more than an hour ago.
    find "$cache" -maxdepth 1 -name '.fetch-*' -mmin +60 -exec rm -rf {} +
    work=$(mktemp -d "$cache/.fetch-$target-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/tree"
    case $target in
        systemd | prometheus | docker) "make_$target" "$work" ;;
        *) make_containerd "$target" "$work" ;;
    esac
    # Another command may have fetched the same packages meanwhile.
    is_fetched "$target" || rm -rf "${cache:?}/$target"
    mv -T "$work/tree" "$cache/$target" 2>/dev/null || is_fetched "$target" || fail "$cache/$target exists and cannot be replaced"
    rm -rf "$work"
    trap - EXIT
}
