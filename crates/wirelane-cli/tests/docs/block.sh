# The beginning of every block of command lines, in separate mount, network and process namespaces.
set -u
mount -t tmpfs none /mnt
mkdir /mnt/disk /mnt/bin /mnt/place
# Bind the original places, which may be below a directory that gets a new file system here.
mount --bind "$PROGRAMS" /mnt/bin
mount --bind . /mnt/place
for place in /tmp /run; do mount -t tmpfs none $place; done
cd /mnt/place
export PATH="/mnt/bin:$PATH"
mount -t sysfs none /sys
ip link set lo up
for n in 0 1; do
    ip link add eth$n numrxqueues 4 numtxqueues 4 type veth peer name far$n numrxqueues 4 numtxqueues 4
    ip address add 192.0.2.$((n + 1))/32 dev eth$n
    ip link set eth$n up
    ip link set far$n up
done
wirelane capture -q 'sim:2?count=2000&proto=mix&ip=mix' --split -w t.pcapng
cp t.rx0.pcapng trace.pcapng
cp t.rx0.pcapng tap.pcapng
cp t.rx1.pcapng wire.pcapng
wirelane capture -q file:trace.pcapng -w trace.pcapng.zst
wirelane capture -q file:trace.pcapng -w wire.pcap.gz
cat >flows.yaml <<'END'
ports:
- {name: left, location: eth0}
flows:
- name: one
  tx_rx: {port: {tx_name: left}}
  duration: {fixed_packets: {packets: 10}}
END

echo "set up in $SECONDS s"
processes=()
names=()
process=

# Starts the command in NAME.sh in a separate process group, with default signals; sets `pid`.
start() {
    begun=$SECONDS
    set -m
    bash -o pipefail -c "$(sed "s/\bPID\b/$process/g" "$1.sh")"$'\nexit $?' >"$1.out" 2>"$1.err" </dev/null &
    pid=$!
    set +m
}

# Waits until process $2 has ended or its command, NAME, is ready: shortly after its message, or after three seconds.
settle() {
    local ticks=0 ready=30
    while [ -d "/proc/$2" ] && [ $ticks -lt $ready ]; do
        sleep 0.1
        ticks=$((ticks + 1))
        if [ $ready = 30 ] && grep -qE '^(capturing|forwarding|recording|sending)' "$1.err"; then ready=$((ticks + 3)); fi
    done
}

# Ends process $2 as ^C would, unless it has ended, and notes the status of NAME.
end() {
    local ticks=0
    [ -d "/proc/$2" ] && kill -INT -- "-$2"
    while [ -d "/proc/$2" ] && [ $ticks -lt 300 ]; do
        sleep 0.1
        ticks=$((ticks + 1))
    done
    [ -d "/proc/$2" ] && kill -KILL -- "-$2"
    wait "$2"
    echo $? >"$1.status"
    echo "$1 took $((SECONDS - begun)) s"
}

run() {
    start "$1"
    settle "$1" $pid
    end "$1" $pid
}

# Starts a command in the background of the following lines.
attend() {
    start "$1"
    settle "$1" $pid
    processes+=($pid)
    names+=("$1")
    [ "$1" = process ] && process=$pid
}

finish() {
    for i in "${!processes[@]}"; do end "${names[$i]}" "${processes[$i]}"; done
}
