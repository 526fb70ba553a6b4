#!/usr/bin/env bash
# Publishes a folder twice, mounts the store, reads both versions back with ordinary
# tools and compares every byte; then the same with data that other Xet encoders wrote.
# Whatever goes wrong on the way, nothing stays mounted.
#
#   integration/demo.sh XETFS       XETFS: the program, built before
set -euo pipefail

PATH=$(dirname "$(realpath "$1")"):$PATH
here=$(dirname "$(realpath "$0")")
demo=$here/testdata/demo

if ((EUID != 0)) && ! command -v fusermount3 >/dev/null; then
  echo "demo: without root, mounting needs fusermount3: sudo apt-get install fuse3" >&2
  exit 1
fi

work=$(mktemp -d)
mnt=$work/mnt
mkdir "$mnt"
export XDG_CACHE_HOME=$work/cache XDG_STATE_HOME=$work/state
cleanup() {
  xetfs umount --lazy "$mnt" 2>/dev/null || true # usually done already
  chmod -R u+w "$work"
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
cd "$work"

# show prints a command so that it can be pasted into a shell, and runs it.
show() {
  local word
  printf '\n$'
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_./:@=-]+$ ]] || word=${word@Q}
    printf ' %s' "$word"
  done
  printf '\n'
  "$@"
}
say() { printf '\n# %s\n' "$*"; }

# list prints all that must be the same in two trees but for the bytes of files.
list() { (cd "$1" && find . -printf '%p %y %m %T@ %l\n' | sort); }

say "A folder: text, binary data, an executable, a link, an empty folder."
mkdir -p folder/docs folder/bin folder/empty
cp -r "$here/../codec" folder/src
cp "$demo"/originals/* folder/docs/
cp "$(command -v xetfs)" folder/bin/xetfs
ln -s bin/xetfs folder/run
show xetfs publish store team/model folder --message "the first version"
cp -a folder first

say "It changes, and is published again: only what is new is stored."
echo "one line more" >>folder/src/doc.go
rm folder/src/hash.go
mv folder/docs folder/papers
chmod 600 folder/src/term.go
show xetfs publish store team/model folder --message "renamed, edited"
cp -a folder second
show xetfs history store team/model
show xetfs diff store team/model@0 team/model@1 | sed -n '1,12p'
echo "…"

say "Mounted, the newest version is a folder; every other one is in .versions."
show xetfs mount store "$mnt"
show ls -l "$mnt/team/model"
show ls "$mnt/team/model/.versions"
for pair in "first 0" "second 1" "second latest"; do
  read -r kept version <<<"$pair"
  mounted=$mnt/team/model/.versions/$version
  show diff -r --no-dereference "$kept" "$mounted/"
  diff <(list "$kept") <(list "$mounted/")
done
show "$mnt/team/model/run" version
files=$(find "$mnt/team/model/" -type f | wc -l)
say "Both versions are what was published: $files files, bytes, modes, times and links."

say "Nothing can be changed:"
if show touch "$mnt/team/model/new" 2>&1; then
  echo "demo: a file could be made in the mount" >&2
  exit 1
fi
show xetfs umount "$mnt"

say "And everything in the store is sound:"
show xetfs catalog check --data store
show xetfs verify store team/model

say "A folder with shards and xorbs as other Xet encoders wrote them needs no catalog:"
cd "$demo"
show ls store/js store/core
show xetfs mount store "$mnt"
show ls "$mnt"
(cd "$mnt" && show sha256sum --check --quiet "$demo/SHA256SUMS")
more=$(find "$mnt/by-hash" -type f | wc -l)
for file in originals/*; do
  show cmp "$file" "$mnt/by-hash/${file##*/}"
done
show xetfs umount "$mnt"
show xetfs verify store

say "Done: $((files + more)) files read back and compared, nothing left mounted."
