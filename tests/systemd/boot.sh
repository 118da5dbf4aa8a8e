#!/bin/sh
# Boots a systemd of its own over this machine's files, which it sees but cannot change.
#   boot.sh SCRATCH CHECKOUT CGROUP
# Runs as the first process of new mount and pid namespaces: with it goes everything that it made but the
# cgroup. Its last line says why it fails where it does.
set -eu
scratch=$1 checkout=$2 cgroup=$3

mount -t tmpfs -o mode=755,size=4g tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$scratch/root"
root=$scratch/root

# Nothing that this machine has enabled starts in there, and no lazyd that it may have installed is seen.
rm -rf "$root/etc/systemd/system" "$root/etc/systemd/user" "$root/etc/lazyd" "$root/var/lib/lazyd" \
    "$root/var/log/journal" "$root/usr/local/lib/lazyd" "$root/usr/local/lib/systemd" "$root/usr/lib/systemd/system/lazyd"*
mkdir -p "$root/etc/systemd/system" "$root/etc/systemd/user"
for unit in console-getty.service systemd-timesyncd.service systemd-resolved.service systemd-networkd.service; do
    ln -s /dev/null "$root/etc/systemd/system/$unit"
done

# The unified hierarchy, however this machine has its own mounted.
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$cgroup"
echo 0 > "/sys/fs/cgroup/$cgroup/cgroup.procs"

SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 exec systemd-nspawn --quiet --register=no --keep-unit --private-network \
    --machine=lazyd-test --console=read-only --bind-ro="$checkout:$checkout:norbind" --boot --directory="$root"
