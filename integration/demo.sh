#!/usr/bin/env bash
# Mounts the sample, reads it back with ordinary tools, compares, unmounts. Whatever goes
# wrong on the way, nothing stays mounted.
#
#   integration/demo.sh XETFS       XETFS: the program, built before
set -euo pipefail

PATH=$(dirname "$(realpath "$1")"):$PATH
here=$(dirname "$(realpath "$0")")
demo=$here/testdata/demo
cd "$demo"

if ((EUID != 0)) && ! command -v fusermount3 >/dev/null; then
  echo "demo: without root, mounting needs fusermount3: sudo apt-get install fuse3" >&2
  exit 1
fi

work=$(mktemp -d)
mnt=$work/mnt
mkdir "$mnt"
cleanup() {
  xetfs umount --lazy "$mnt" 2>/dev/null || true # usually done already
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# show prints a command as one would type it, and runs it.
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}
say() { printf '\n# %s\n' "$*"; }

say "A folder with shards and xorbs, as two encoders wrote them:"
show ls store/js store/core

say "Mounted, the files in them are plain files, named by their hashes:"
show xetfs mount --log-file "$work/log" store "$mnt"
show ls "$mnt"
show xetfs ls -l store by-hash | sed -n '1,8p'
echo "…"
files=$(find "$mnt/by-hash" -type f | wc -l)
bytes=$(cat "$mnt"/by-hash/* | wc -c)
stored=$(cat store/*/* | wc -c)
say "$files files, $bytes bytes, kept in $stored bytes."

say "Every byte is what its owner had:"
(cd "$mnt" && show sha256sum --check --quiet "$demo/SHA256SUMS")
echo "$files files: OK"
for file in originals/*; do
  show cmp "$file" "$mnt/by-hash/${file##*/}"
done

say "The same without mounting:"
text=$(find "$mnt/by-hash" -type f -size +1800k | sort | head -1)
show xetfs cat --range 0-120 store "by-hash/${text##*/}"
echo
xetfs cat store "by-hash/${text##*/}" | cmp - "$text"

say "Nothing can be changed:"
if show touch "$mnt/by-hash/new" 2>&1; then
  echo "demo: a file could be made in the mount" >&2
  exit 1
fi

say "And everything in the folder is sound:"
show xetfs verify store

show xetfs umount "$mnt"
say "Done: $files files read back and compared, nothing left mounted."
