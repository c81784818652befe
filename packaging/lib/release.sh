# What a release has in addition to its files: their origin, their checksums, and a signature.
#
#   pleg-VERSION.provenance.json   in-toto statement with a SLSA provenance predicate: each file by its digest
#   SHA256SUMS                     each file, and the provenance
#   SHA256SUMS.minisig             signature of SHA256SUMS, if there is a key
#
# shellcheck shell=bash disable=SC2154 # `dist` sets `version` and `architectures`.

# A text as a JSON string. Control characters do not occur in names, versions and addresses.
json() {
    local text=${1//\\/\\\\}
    printf '"%s"' "${text//\"/\\\"}"
}

digest_of() { sha256sum <"$1" | cut -d' ' -f1; }

# The address of the source, without the user and the token that the address of a remote may contain.
source_address() {
    local address
    address=${PLEG_DIST_SOURCE:-$(git remote get-url origin 2>/dev/null || echo unknown)}
    echo "$address" | sed -E 's#^(https?://)[^/@]*@#\1#'
}

# write_provenance FOLDER: writes the provenance of all files in it, with the same bytes whatever the
# machine, the user and the date.
write_provenance() {
    local folder=$1 file separator='' commit revision
    commit=$(git rev-parse HEAD)
    revision="git+$(source_address)@$commit"
    git diff --quiet HEAD -- || revision+=" (with uncommitted changes)"
    {
        printf '{"_type":"https://in-toto.io/Statement/v1","subject":['
        for file in "$folder"/*; do
            printf '%s\n{"name":%s,"digest":{"sha256":"%s"}}' "$separator" \
                "$(json "$(basename "$file")")" "$(digest_of "$file")"
            separator=,
        done
        printf '],\n"predicateType":"https://slsa.dev/provenance/v1","predicate":{"buildDefinition":{'
        printf '"buildType":"https://pleg.dev/make-dist/v1",'
        printf '"externalParameters":{"source":%s,"version":%s,"architectures":%s,"sourceDateEpoch":%s},' \
            "$(json "$revision")" "$(json "$version")" "$(json "$architectures")" "$(json "$SOURCE_DATE_EPOCH")"
        printf '\n"resolvedDependencies":['
        printf '{"uri":%s,"digest":{"gitCommit":"%s"}},' "$(json "git+$(source_address)")" "$commit"
        printf '{"uri":"Cargo.lock","digest":{"sha256":"%s"}},' "$(digest_of Cargo.lock)"
        printf '{"uri":%s}]},' "$(json "pkg:generic/$(rustc --version | sed -E 's/^rustc ([^ ]+).*/rustc@\1/')")"
        printf '\n"runDetails":{"builder":{"id":%s}}}}\n' "$(json "${PLEG_DIST_BUILDER:-https://pleg.dev/make-dist}")"
    } >"$folder.provenance"
    mv "$folder.provenance" "$folder/pleg-$version.provenance.json"
}

write_checksums() {
    (cd "$1" && sha256sum -- * >../SHA256SUMS.new && mv ../SHA256SUMS.new SHA256SUMS)
}

# Signs the checksums with a key of minisign, which has no password because CI could not enter one. On
# failure, prints the reason on standard output.
sign_checksums() {
    local folder=$1 key=${PLEG_DIST_KEY:-}
    if [ -z "$key" ]; then
        echo "PLEG_DIST_KEY names no key of minisign"
        return 1
    fi
    if ! command -v minisign >/dev/null; then
        echo "minisign is not installed"
        return 1
    fi
    minisign -S -s "$key" -m "$folder/SHA256SUMS" -t "pleg $version" >&2 </dev/null ||
        { echo "minisign could not sign with $key"; return 1; }
}
