#!/usr/bin/env bash
# Builds the files of a release into dist/: for linux on amd64 and arm64 a tar, a deb, an rpm and
# an SBOM, and SHA256SUMS of all. Two builds of one commit are the same byte by byte.
#
#   cmd/xetfs/packaging/release/build.sh
#
# The version is the tag of the commit, without its v. A commit without a tag has the version
# 0.0.0~DATE.TIME, which is before all tags. The changes of a dirty checkout are built, too.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
here=cmd/xetfs/packaging/release
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.0

fail() {
  echo "$here/build.sh: $1" >&2
  exit 1
}

git rev-parse --git-dir >/dev/null 2>&1 || fail "the version comes from git: build in a checkout"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
VERSION=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null | sed 's/^v//; s/-/~/') ||
  VERSION=0.0.0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d.%H%M%S)
export SOURCE_DATE_EPOCH VERSION
umask 022
rm -rf dist
mkdir -p dist/stage

# build FILE builds the static program for $ARCH.
build() {
  CGO_ENABLED=0 GOOS=linux GOARCH=$ARCH GOAMD64=v1 GOARM64=v8.0 \
    go build -trimpath -buildvcs=true -ldflags='-s -w' -o "$1" ./cmd/xetfs
}

# manual FOLDER fills a folder with the man pages and completions of a running program.
manual() {
  local pages=dist/stage/man section
  mkdir -p "$pages"
  "$host" man "$pages" >/dev/null
  for section in 1 7 8; do
    mkdir -p "$1/man/man$section"
    cp "$pages"/*."$section" "$1/man/man$section"
  done
  gzip -9n "$1"/man/man?/*
  ln -s mount.xetfs.8.gz "$1/man/man8/mount.fuse.xetfs.8.gz"
  mkdir -p "$1"/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
  "$host" completion bash >"$1/bash-completion/completions/xetfs"
  "$host" completion zsh >"$1/zsh/site-functions/_xetfs"
  "$host" completion fish >"$1/fish/vendor_completions.d/xetfs.fish"
}

# documents FOLDER fills the folder of the package's documents.
documents() {
  mkdir -p "$1/examples"
  cp README.md LICENSE "$1"
  cp cmd/xetfs/packaging/{*.yaml,alerts.yml,grafana.json,xetfs-serve.service} "$1/examples"
}

# config FOLDER writes the configuration of nfpm. An rpm marks its documents, one by one.
config() {
  cat "$here/nfpm.yaml"
  (cd "$1" && find usr/share/man usr/share/doc -type f,l ! -name LICENSE | LC_ALL=C sort) |
    sed "s|.*|  - {src: \"$1/&\", dst: \"/&\", type: doc, packager: rpm}|"
}

# archive FOLDER FILE packs a folder. Names are sorted, and owners and times are those of the commit.
archive() {
  tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    --format=gnu --directory="$(dirname "$1")" "$(basename "$1")" | gzip -9n >"$2"
}

printf -- '- semver: "%s"\n  date: %s\n  packager: The authors of xetfs <xetfs@users.noreply.github.com>\n  changes:\n  - note: See https://github.com/xetfs/xetfs/releases\n' \
  "$VERSION" "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" >dist/stage/changelog.yaml

ARCH=$(go env GOHOSTARCH)
host=dist/stage/xetfs
build "$host"

for ARCH in amd64 arm64; do
  export ARCH
  name=xetfs_${VERSION}_linux_$ARCH
  tree=dist/stage/$name
  mkdir -p "$tree"/usr/{bin,sbin,share,lib/systemd/user,lib/systemd/system}
  build "$tree/usr/bin/xetfs"
  ln -s ../bin/xetfs "$tree/usr/sbin/mount.xetfs"
  ln -s ../bin/xetfs "$tree/usr/sbin/mount.fuse.xetfs"
  cp cmd/xetfs/packaging/xetfs@.service "$tree/usr/lib/systemd/system"
  cp cmd/xetfs/packaging/user/xetfs@.service "$tree/usr/lib/systemd/user"
  manual "$tree/usr/share"
  documents "$tree/usr/share/doc/xetfs"
  mkdir -p "dist/linux_$ARCH"
  cp "$tree/usr/bin/xetfs" "dist/linux_$ARCH"
  go run "$here/sbom.go" "$tree/usr/bin/xetfs" "$VERSION" >"dist/$name.spdx.json"
  archive "$tree" "dist/$name.tar.gz"
  ln -sfn "$name" dist/stage/tree
  config "$tree" >dist/stage/nfpm.yaml
  for packager in deb rpm; do
    go run "$nfpm" package --config dist/stage/nfpm.yaml --packager "$packager" --target "dist/$name.$packager" >/dev/null
  done
done
rm -r dist/stage
(cd dist && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
cat dist/SHA256SUMS
