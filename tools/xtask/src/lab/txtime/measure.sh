#!/bin/sh
# Boots txtime.c as the first program of a guest whose clock counts instructions, so that other work on the host changes
# nothing. Needs qemu-system-x86_64, a C compiler, busybox, ip, tc, cpio, and a kernel that `cargo xtask lab` has unpacked.
set -eu
here=$(dirname "$(readlink -f "$0")")
kernel=$(ls -d "$here"/../../../../target/lab/kernel-stable/linux-image-* | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/lib64"
cc -O2 -static "$here/txtime.c" -o "$root/init"
cp "$kernel"/lib/modules/*/kernel/drivers/net/veth.ko "$kernel"/lib/modules/*/kernel/net/sched/sch_fq.ko "$root"
cp "$(command -v ip)" "$(command -v tc)" "$root"
cp "$(command -v busybox)" "$root/bin/sh"
ldd "$root/ip" "$root/tc" | awk '/=>/ { print $3 }' | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library"
done
cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64"
(cd "$root" && find . | cpio --quiet -o -H newc) > "$work/initrd"
qemu-system-x86_64 -M q35 -cpu max -m 512M -nographic -no-reboot -icount shift=0,sleep=off \
    -kernel "$kernel"/boot/vmlinuz-* -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1"
