#!/usr/bin/busybox sh
# The first process of the guest: mounts what a system has, runs the checks, and ends the machine.
PATH=/usr/sbin:/usr/bin
export PATH
/usr/bin/busybox --install -s /usr/bin 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
hostname guest
printf '127.0.0.1 localhost\n' >/etc/hosts
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >/etc/passwd
ip link set lo up
modprobe tun
cd /root
python3 -B guest.py
sync
reboot -f
