# Functions for scripts that need a minimal Debian: a debootstrap minbase root. They are sourced.
# Packages come from the mirror in the configuration of apt.

# fail NAME TEXT ends a script.
fail() {
  echo "${0##*/}: $1" >&2
  exit 1
}

# need_root checks what all of these scripts need, and the programs that are its arguments.
need_root() {
  ((EUID == 0)) || fail "only root can make namespaces; run it with sudo"
  local program
  for program in debootstrap unshare tar "$@"; do
    command -v "$program" >/dev/null || fail "$program is missing; install it first (debootstrap: apt-get install debootstrap)"
  done
  [[ -e /dev/fuse ]] || fail "there is no /dev/fuse; load the kernel module: modprobe fuse"
}

# make_minbase FOLDER LOG [PACKAGE…] makes a minimal root with some more packages in FOLDER. A root
# is kept as a tar for the next time, in XETFS_MINBASE (default: the cache of tests).
make_minbase() {
  local root=$1 log=$2 suite mirror proxy='' cache file
  shift 2
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  cache=${XETFS_MINBASE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/xetfs-test}
  file=$cache/minbase-$suite-$(printf '%s\n' "$@" | sha256sum | cut -c1-12).tar
  mkdir -p "$root" "$cache"
  if [[ ! -e $file ]]; then
    mirror=$(apt-cache madison base-files | awk -v main="$suite/main" '$6 == main { print $5; exit }')
    [[ $mirror ]] || fail "apt knows no mirror of $suite; run apt-get update"
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    [[ ! $proxy ]] || export http_proxy=$proxy
    echo "# minbase of $suite from $mirror, with ${*:-nothing else}"
    debootstrap --variant=minbase ${1:+--include="$(IFS=,; echo "$*")"} "$suite" "$root" "$mirror" >"$log" 2>&1 ||
      { tail -20 "$log" >&2; fail "debootstrap failed"; }
    rm -rf "$root"/var/cache/apt/archives/*.deb
    tar -C "$root" --one-file-system -cf "$file.$$" .
    mv "$file.$$" "$file"
    return
  fi
  tar -C "$root" -xf "$file"
}
