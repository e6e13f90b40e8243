#!/bin/sh
# Runs the services in a system with systemd: they start, capture on a veth, and lose nothing that
# they have written when they are killed or stuck. `cargo xtask package --check` boots the system.
set -eu

say() { echo "check: $*"; }
fail() {
    echo "check: FAILED: $*"
    journalctl --no-pager -u 'wirelane-*' | tail -n 40
    exit 1
}
SERVICES='record capture flows'
state() { systemctl show -P "$2" "wirelane-$1@v0"; }
all() { for service in $SERVICES; do "$@" "$service" || return 1; done; }

# Waits until a check holds.
until_holds() {
    for _ in $(seq 1 100); do
        ! "$@" || return 0
        sleep 0.5
    done
    fail "$*"
}

traffic() {
    bash -c 'for port in $(seq 1001 1200); do echo x > /dev/udp/10.9.0.2/$port; done'
}

ip link add v0 type veth peer name v1
ip link set v0 up
ip link set v1 up
ip addr add 10.9.0.1/24 dev v1
ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev v1

all_start() { systemctl start "wirelane-$1@v0"; }
all all_start || fail "start"
traffic
sleep 3

# Killed: each starts again.
kill_it() { kill -9 "$(state "$1" MainPID)"; }
has_restarted() { [ "$(state "$1" NRestarts)" -ge 1 ] && [ "$(state "$1" ActiveState)" = active ]; }
all kill_it
until_holds all has_restarted
traffic
sleep 3

# Stuck: the watchdog ends it.
kill -STOP "$(state record MainPID)"
has_restarted_again() { [ "$(state record NRestarts)" -ge 2 ] && has_restarted record; }
until_holds has_restarted_again

wirelane stats | grep -q record || fail "stats finds no service"
systemctl stop 'wirelane-*@v0'

count() { wirelane count -q --json "$@" udp 2> /dev/null | grep -o '"delivered":[0-9]*' | head -n 1; }
[ "$(ls /var/lib/wirelane/capture/v0_*.pcapng | wc -l)" = 2 ] || fail "files of capture"
for file in /var/lib/wirelane/capture/v0_*.pcapng; do
    [ "$(count "$file")" = '"delivered":200' ] || fail "$file: $(count "$file")"
done
wirelane extract -q /var/lib/wirelane/record/v0 udp -w /tmp/all.pcapng
[ "$(count /tmp/all.pcapng)" = '"delivered":400' ] || fail "record: $(count /tmp/all.pcapng)"
# Flows that had not ended were only in memory.
[ "$(wc -l < /var/lib/wirelane/flows/v0.jsonl)" -ge 200 ] || fail "flows"
[ "$(stat -c '%U:%G %a' /var/lib/wirelane/flows/v0.jsonl)" = "root:wirelane 640" ] \
    || fail "owner of the file of flows"
! grep -qv '^{' /var/lib/wirelane/flows/v0.jsonl || fail "other lines among the flows"
say "services: killed and stuck, and no written packet is lost"
