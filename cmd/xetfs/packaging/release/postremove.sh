#!/bin/sh
# Deletes the caches of the units when the deb is purged or the rpm is erased.
set -e
case "$1" in
purge | 0) rm -rf /var/cache/xetfs ;;
esac
