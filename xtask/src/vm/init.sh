#!/bin/sh
# First and only process of the virtual machine: prepare, run one script, say how it ended, switch off.
export PATH=/usr/sbin:/usr/bin HOME=/root TERM=dumb LC_ALL=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for dir in /dev/shm /run /tmp; do mount -t tmpfs tmpfs "$dir"; done
mkdir -p /run/netns /run/lock
mount -t bpf bpf /sys/fs/bpf
mount -t securityfs securityfs /sys/kernel/security
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
hostname vm
# These are needed before anything asks for them by name; the rest loads on demand, as on any machine.
modprobe -a sch_ingress cls_bpf veth bridge nf_tables nf_conntrack nf_nat
# Everything below "emergency" would tear the lines of the run's own output; /etc/vm/run can look with dmesg.
dmesg -n 1
nonce=$(cat /etc/vm/nonce)
cd /root
echo "$nonce begin"
/bin/sh /etc/vm/run </dev/null
status=$?
echo
echo "$nonce end $status"
sync
poweroff -f
