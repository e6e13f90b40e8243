#!/bin/sh
# Installs the packages in /packages in a clean Debian system, uses them, and removes them.
# `cargo xtask package --check` runs it. Packets are only in network namespaces that it creates.
set -eu
export DEBIAN_FRONTEND=noninteractive

say() { echo "check: $*"; }
fail() { echo "check: FAILED: $*" >&2; exit 1; }
now() { date +%s.%N; }

# A packet on lo, again and again.
packets='while sleep 0.1; do bash -c "echo > /dev/udp/127.0.0.1/9"; done'
# Runs a command in a new network namespace with packets on its interface lo. Returns its status.
alone() {
    unshare --net sh -c "ip link set lo up; ($packets) & $*; status=\$?; kill \$!; exit \$status"
}

# Files that a package may leave.
files() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run \
    -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/log -o -path /var/lib/apt \
    -o -path /packages -o -path /check.sh -o -path /var/lib/systemd \) -prune -o -print | sort; }

apt-get update -qq
begin=$(now)
apt-get install -y --no-install-recommends /packages/wirelane_*.deb > /tmp/install.log 2>&1 \
    || { cat /tmp/install.log; fail "apt-get install"; }
alone "timeout 60 wirelane capture -q -c 1 lo -w /tmp/first.pcapng" \
    || fail "no first packet"
say "apt-get install and the first packet: $(echo "$(now) $begin" | awk '{print $1 - $2}') s"
[ -s /tmp/first.pcapng ] || fail "no packet"

say "version: $(wirelane --version)"
getent passwd wirelane > /dev/null || fail "no user"
[ "$(stat -c '%U:%G %a' /usr/bin/wirelane)" = "root:root 755" ] || fail "owner of the program"
[ -d /var/lib/wirelane ] || fail "no directory"

# Pages are left out by the configuration of some images.
for page in wirelane wirelane-capture wirelane-record wirelane-lab; do
    [ -e "/usr/share/man/man1/$page.1.gz" ] || fail "no page $page"
    man -l "/usr/share/man/man1/$page.1.gz" > /tmp/page 2>&1 || fail "man $page"
    grep -q SYNOPSIS /tmp/page || fail "page $page"
done
man wirelane-capture > /dev/null || fail "man wirelane-capture"

bash -c '
    . /usr/share/bash-completion/bash_completion
    if declare -F _comp_load > /dev/null; then
        _comp_load wirelane
    else
        # Its status is 124 when it has found the file.
        _completion_loader wirelane || true
    fi
    COMP_WORDS=(wirelane capt) COMP_CWORD=1
    _wirelane wirelane capt wirelane
    [ "${COMPREPLY[*]}" = capture ]
' || fail "completion"

# The answer to the question of debconf.
if command -v setcap > /dev/null || apt-get install -y libcap2-bin > /dev/null 2>&1; then
    echo 'wirelane wirelane/capture-without-root boolean true' | debconf-set-selections
    dpkg-reconfigure wirelane
    [ "$(stat -c '%U:%G %a' /usr/bin/wirelane)" = "root:wirelane 750" ] || fail "group"
    getcap /usr/bin/wirelane | grep -q cap_net_raw || fail "no capability"
    echo 'wirelane wirelane/capture-without-root boolean false' | debconf-set-selections
    dpkg-reconfigure wirelane
    [ "$(stat -c '%U:%G %a' /usr/bin/wirelane)" = "root:root 755" ] || fail "owner after no"
    [ -z "$(getcap /usr/bin/wirelane)" ] || fail "the capability stays"
fi

# The other packages.
apt-get install -y --no-install-recommends /packages/*.deb > /tmp/install.log 2>&1 \
    || { cat /tmp/install.log; fail "apt-get install of all"; }
for program in wirelane-bench wirelane-query; do
    [ ! -e "/usr/bin/$program" ] || "$program" --version
done
ldconfig -p | grep -q libwirelane.so || fail "libwirelane is not found"
[ -e /usr/lib/wirelane/libpcap.so.1 ] || fail "no libpcap"

# The user of the services records with its single capability, and data stays.
run="setpriv --reuid wirelane --regid wirelane --clear-groups --inh-caps +net_raw"
run="$run --ambient-caps +net_raw --bounding-set -all,+net_raw"
install -d -o wirelane -g wirelane /var/lib/wirelane/record
record="$run wirelane record -q --config /etc/wirelane/record.conf packet:lo"
alone "timeout --preserve-status -s INT 2 $record /var/lib/wirelane/record/lo" \
    || fail "record"
ls /var/lib/wirelane/record/lo/*.pcapng > /dev/null || fail "nothing recorded"

names=$(dpkg-query -W -f '${Package} ' 'wirelane*' 'libwirelane*')
apt-get purge -y $names > /tmp/purge.log 2>&1 || { cat /tmp/purge.log; fail "purge"; }
! getent passwd wirelane > /dev/null || fail "the user stays"
! getent group wirelane > /dev/null || fail "the group stays"
left=$(files | grep -i wirelane | grep -v '^/var/lib/wirelane' || true)
[ -z "$left" ] || fail "left: $left"
ls /var/lib/wirelane/record/lo/*.pcapng > /dev/null || fail "purge removed data"
say "only data is left: $(find /var/lib/wirelane -type f | wc -l) files"
