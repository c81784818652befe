# Debian's packages, downloaded and unpacked into the cache, never installed.
# shellcheck shell=bash

cache=$(realpath -m "${PLEG_TESTBED_CACHE:-$here/../target/testbed/packages}")
readonly cache
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg

check_version() { [[ $1 == 1.6 || $1 == 1.7 || $1 == 2 ]] || misuse "there is no version '$1': it is 1.6, 1.7 or 2"; }

suite_of() {
    case $1 in
        1.6) echo bookworm ;;
        1.7) echo trixie ;;
        2) echo sid ;;
    esac
}

# Fetched again is what came without its own libc, and what was moved: the programs name the folder of their libraries.
is_fetched() {
    local folder=$cache/$1 program=''
    case $1 in
        1.6 | 1.7 | 2) program=ctr ;;
        docker) program=docker ;;
    esac
    [[ -e $folder/packages.txt ]] || return 1
    [[ -z $program ]] || { grep -q '^libc6 ' "$folder/packages.txt" && "$folder/usr/bin/$program" --version >/dev/null 2>&1; }
}

# The first address in the machine's own sources that looks like the Debian archive.
mirror() {
    local found=''
    found=$(sed -n -E '/^[[:space:]]*#/d; s#.*(https?://[^] ]+/debian)/?([[:space:]].*|$)#\1#p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1) || true
    echo "${PLEG_TESTBED_MIRROR:-${found:-http://deb.debian.org/debian}}"
}

# apt with sources, lists and package states of its own, so that neither the machine's pins nor its installed versions choose for us.
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

# get_tool WORK PACKAGE: unpacks a package of Debian 12, which runs on this and on every later one, into WORK/tools.
get_tool() {
    mkdir -p "$1/tools"
    download "$1/tools" bookworm "$2"
    dpkg -x "$1/tools/$2"_*.deb "$1/tools"
}

# use_own_libraries WORK WHAT: the programs in WORK/tree, which will be WHAT in the cache, run on the loader and the libraries that lie beside them: those of this
# machine may be older. They are written into the programs, since runc starts itself again, without arguments and environment of ours.
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

    # The same for all versions: nothing is tested of it.
    get_tool "$work" busybox-static
    mkdir "$work/tree/bin"
    cp "$work/tools/bin/busybox" "$work/tree/bin/busybox"
    use_own_libraries "$work" "$version"
    build_images "$work" "$work/tree"
    chmod 755 "$work/tree"
}

# Static Go programs, which need none of the package's dependencies, and no service.
make_prometheus() {
    say "fetching Prometheus from Debian's bookworm"
    mkdir "$1/all"
    download "$1" bookworm prometheus
    unpack "$1" "$1/all"
    mv "$1/all/packages.txt" "$1/all/usr/bin/prometheus" "$1/all/usr/bin/promtool" "$1/tree"
    chmod 755 "$1/tree"
}

# Everything happens in a folder that gets its final name when it is complete, so an interrupted fetch leaves nothing half done.
fetch() {
    local what=$1
    is_fetched "$what" && return
    check_apt
    mkdir -p "$cache"
    # What an hour-old killed fetch left behind.
    find "$cache" -maxdepth 1 -name '.fetch-*' -mmin +60 -exec rm -rf {} +
    work=$(mktemp -d "$cache/.fetch-$what-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/tree"
    case $what in
        systemd | prometheus | docker) "make_$what" "$work" ;;
        *) make_containerd "$what" "$work" ;;
    esac
    # Another command may have been faster; its packages are as good.
    is_fetched "$what" || rm -rf "${cache:?}/$what"
    mv -T "$work/tree" "$cache/$what" 2>/dev/null || is_fetched "$what" || fail "$cache/$what is in the way"
    rm -rf "$work"
    trap - EXIT
}
