#!/bin/bash
# Part of the tests: see test_real_systemd.py.
# Boot a real systemd as PID 1 of fresh namespaces, run one command inside it,
# stream its output, return its exit code, leave nothing behind.
#
#   run.sh [options] -- COMMAND [ARG...]
#
#   -p, --project DIR     show DIR inside, read-only, at /srv/project (and start there)
#       --copy            a writable private copy of DIR instead (thrown away at the end)
#       --at PATH         where the project shows inside          (default /srv/project)
#   -b, --bind SRC[:DST]  one more file or folder, read-only
#   -w, --bind-rw SRC[:DST]  the same, writable: what is written there stays (results, reports)
#   -r, --root ROOT       host          copy-on-write view of this machine's /  (default)
#                         debian:SUITE  a debootstrap tree, made once and cached
#                         DIR           any unpacked root with systemd in it, copy-on-write
#   -n, --net MODE        private: own loopback only (default) | host: this machine's network
#   -E, --env NAME=VALUE  environment for COMMAND (repeatable)
#   -t, --timeout SEC     for COMMAND, default 600; exceeding it gives exit code 124
#   -j, --journal FILE    write the whole journal of the run to FILE
#   -v, --verbose         say what happens and how long it takes (stderr)
#
# Exit code: COMMAND's own; 124 time-out; 125 the lab itself failed (systemd did not come up).
# Needs root, util-linux, and systemd inside ROOT (installed with apt-get if ROOT is this
# machine's and lacks it). No TTY, no stdin, no Docker, no systemd on the host needed.
set -euo pipefail
export LC_ALL=C

ME=$(readlink -f "${BASH_SOURCE[0]}")
PREFIX=sdlab

# ---------------------------------------------------------------------------------------------
# Stage 2: runs as PID 1 of the new namespaces; builds the root and becomes systemd.
# Every mount made here belongs to this mount namespace and is gone when PID 1 is.
# ---------------------------------------------------------------------------------------------
stage2() {
    local W=$1 R=$1/m/root d ctl
    # shellcheck disable=SC1091
    . "$W/conf"
    mount --make-rprivate /
    mount -t tmpfs -o mode=755 sdlab "$W/m"
    mkdir "$W/m/up" "$W/m/work" "$R"
    mount -t overlay -o "lowerdir=$LOWER,upperdir=$W/m/up,workdir=$W/m/work" sdlab "$R"

    # API file systems. /proc/sys and /sys are read-only, as in any container: they are the
    # host kernel's, and systemd-sysctl, udev and the like then stay off.
    mkdir -p "$R"/{proc,sys,dev,run,tmp}
    mount -t proc -o nosuid,nodev,noexec proc "$R/proc"
    for d in sys sysrq-trigger; do
        [ -e "$R/proc/$d" ] || continue
        mount --bind "$R/proc/$d" "$R/proc/$d"
        mount -o remount,bind,ro,nosuid,nodev,noexec "$R/proc/$d"
    done
    if [ "$NET" = private ]; then           # these are the lab's own
        mount --bind "$R/proc/sys/net" "$R/proc/sys/net"
        mount -o remount,bind,rw,nosuid,nodev,noexec "$R/proc/sys/net"
    fi
    mount -t sysfs -o nosuid,nodev,noexec sysfs "$R/sys"
    mount -t tmpfs -o mode=755,nosuid,size=4m tmpfs "$R/dev"
    mkdir "$R"/dev/{pts,shm}
    for d in null zero full random urandom tty; do
        : >"$R/dev/$d"; mount --bind "/dev/$d" "$R/dev/$d"
    done
    mount -t devpts -o newinstance,mode=620,ptmxmode=0666,gid=5,nosuid,noexec devpts "$R/dev/pts"
    ln -s pts/ptmx "$R/dev/ptmx"
    ln -s /proc/self/fd "$R/dev/fd"
    ln -s fd/0 "$R/dev/stdin"; ln -s fd/1 "$R/dev/stdout"; ln -s fd/2 "$R/dev/stderr"
    # What PID 1 says before journald runs lands in this file (a debugging aid, see boot_failed).
    : >"$W/kmsg"; : >"$R/dev/kmsg"; mount --bind "$W/kmsg" "$R/dev/kmsg"
    : >"$R/dev/console"; mount --bind /dev/null "$R/dev/console"
    mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$R/dev/shm"
    mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$R/run"
    mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$R/tmp"

    # The cgroup trees, seen from this cgroup namespace: only the lab's own branch shows.
    if [ "$CGMODE" = v2 ]; then
        mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 "$R/sys/fs/cgroup"
    else
        mount -t tmpfs -o mode=755,nosuid,nodev,noexec tmpfs "$R/sys/fs/cgroup"
        while IFS=: read -r _ ctl _; do
            case "$ctl" in
                '')     d=unified;         mkdir "$R/sys/fs/cgroup/$d"
                        mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 "$R/sys/fs/cgroup/$d" ;;
                name=*) d=${ctl#name=};    mkdir "$R/sys/fs/cgroup/$d"
                        mount -t cgroup -o "nosuid,nodev,noexec,none,$ctl" cgroup "$R/sys/fs/cgroup/$d" ;;
                *)      d=$ctl;            mkdir "$R/sys/fs/cgroup/$d"
                        mount -t cgroup -o "nosuid,nodev,noexec,$ctl" cgroup "$R/sys/fs/cgroup/$d" ;;
            esac
        done </proc/self/cgroup
    fi
    mount -o remount,bind,ro,nosuid,nodev,noexec "$R/sys"

    # The project and the other binds.
    local kind src dst
    while IFS=$'\t' read -r kind src dst; do
        if [ -d "$src" ]; then mkdir -p "$R$dst"; else mkdir -p "$R$(dirname "$dst")"; : >>"$R$dst"; fi
        case "$kind" in
            copy) mount -t tmpfs -o mode=755 tmpfs "$R$dst"; cp -a "$src/." "$R$dst/" ;;
            rw)   mount --bind "$src" "$R$dst" ;;
            ro)   mount --bind "$src" "$R$dst"; mount -o remount,bind,ro "$R$dst" ;;
        esac
    done <"$W/binds"

    # A quiet machine of its own: nothing enabled but what systemd itself pulls in.
    local E=$R/etc/systemd/system g
    mkdir -p "$E" "$R/etc/systemd/system-generators" "$R/run/systemd/journald.conf.d"
    find "$E" -mindepth 1 -maxdepth 1 \( -name '*.wants' -o -name '*.requires' \) -exec rm -rf {} +
    find "$E" -mindepth 1 -maxdepth 1 -type l -delete
    ln -sf /lib/systemd/system/multi-user.target "$E/default.target"
    for d in getty.target console-getty.service getty-static.service systemd-logind.service \
             systemd-networkd.service systemd-resolved.service systemd-firstboot.service \
             systemd-remount-fs.service systemd-oomd.service dev-hugepages.mount; do
        ln -sf /dev/null "$E/$d"
    done
    for g in "$R"/lib/systemd/system-generators/* "$R"/usr/lib/systemd/system-generators/*; do
        [ -e "$g" ] && ln -sf /dev/null "$R/etc/systemd/system-generators/${g##*/}"
    done
    : >"$R/etc/fstab"
    rm -f "$R/etc/machine-id"; tr -d - </proc/sys/kernel/random/uuid >"$R/etc/machine-id"
    echo sdlab >"$R/etc/hostname"; hostname sdlab
    printf '127.0.0.1 localhost sdlab\n::1 localhost ip6-localhost\n' >"$R/etc/hosts"
    printf '[Journal]\nStorage=volatile\nRuntimeMaxUse=128M\nRateLimitIntervalSec=0\nForwardToConsole=no\n' \
        >"$R/run/systemd/journald.conf.d/lab.conf"
    if [ "$NET" = private ]; then
        ip link set lo up 2>/dev/null || "$R/sbin/ip" link set lo up 2>/dev/null ||
            ifconfig lo 127.0.0.1 up
    fi

    mkdir "$R/run/.host"
    cd "$R"
    pivot_root . run/.host
    umount -l /run/.host; rmdir /run/.host
    # As PID 1 on hardware sets it (in a container it leaves that to us): mounts made by helper
    # processes must come back to PID 1's view, or LoadCredential= and the like find nothing.
    mount --make-rshared /
    # What systemd on hardware gives its services; not to be had without CAP_SYS_RESOURCE.
    { ulimit -Hn 524288 || true; ulimit -Sn 1024; } 2>/dev/null
    local init=/lib/systemd/systemd
    exec </dev/null >/dev/null 2>&1
    exec env -i container=sdlab PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LANG=C.UTF-8 TERM=dumb \
        setpriv --bounding-set=-sys_module,-sys_time,-sys_rawio \
        "$init" --log-level=info --show-status=no SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1
}

if [ "${1:-}" = __stage2 ]; then stage2 "$2"; exit 125; fi

# ---------------------------------------------------------------------------------------------
# Stage 1: on the host.
# ---------------------------------------------------------------------------------------------
die()  { echo "systemd-lab: $*" >&2; exit 125; }
say()  { [ -z "$VERBOSE" ] || printf 'systemd-lab: [%6.2fs] %s\n' "$(bc_since)" "$*" >&2; }
bc_since() { local n=${EPOCHREALTIME/[.,]/}; printf '%d.%02d' $(((n - T0) / 1000000)) $(((n - T0) % 1000000 / 10000)); }
T0=${EPOCHREALTIME/[.,]/}

PROJECT='' COPY=ro AT=/srv/project ROOT=host NET=private TMO=600 JOURNAL='' VERBOSE='' CGMODE=''
BINDS=() ENVS=()
while [ $# -gt 0 ]; do
    case "$1" in
        -p|--project) PROJECT=$(readlink -e "$2") || die "no such folder: $2"; shift 2 ;;
        --copy)       COPY=copy; shift ;;
        --at)         AT=$2; shift 2 ;;
        -b|--bind)    BINDS+=("ro:$2"); shift 2 ;;
        -w|--bind-rw) BINDS+=("rw:$2"); shift 2 ;;
        -r|--root)    ROOT=$2; shift 2 ;;
        -n|--net)     NET=$2; shift 2 ;;
        -E|--env)     ENVS+=("--setenv=$2"); shift 2 ;;
        -t|--timeout) TMO=$2; shift 2 ;;
        -j|--journal) JOURNAL=$2; shift 2 ;;
        -v|--verbose) VERBOSE=1; shift ;;
        --)           shift; break ;;
        -h|--help)    sed -n '2,/^set -eu/p' "$ME" | sed '$d;s/^# \{0,1\}//'; exit 0 ;;
        -*)           die "unknown option $1 (see --help)" ;;
        *)            break ;;
    esac
done
[ $# -gt 0 ] || die "no command given (see --help)"
[ "$(id -u)" = 0 ] || die "must run as root"
case "$NET" in private|host) ;; *) die "--net is private or host" ;; esac

# The root to boot.
case "$ROOT" in
    host) LOWER=/
        if [ ! -x /lib/systemd/systemd ] || [ ! -x /usr/bin/dbus-daemon ]; then
            say "installing systemd and dbus"
            (apt-get install -y --no-install-recommends systemd systemd-sysv dbus ||
             { apt-get update && apt-get install -y --no-install-recommends systemd systemd-sysv dbus; }) >&2 </dev/null
        fi ;;
    debian:*) SUITE=${ROOT#debian:}
        LOWER=${SDLAB_CACHE:-/var/cache/systemd-lab}/$SUITE
        if [ ! -e "$LOWER.done" ]; then
            say "debootstrap $SUITE into $LOWER (once)"
            command -v debootstrap >/dev/null || {
                apt-get install -y --no-install-recommends debootstrap ||
                { apt-get update && apt-get install -y --no-install-recommends debootstrap; }; } >&2 </dev/null
            rm -rf --one-file-system "$LOWER"; mkdir -p "$LOWER"
            debootstrap --variant=minbase \
                --include=systemd,systemd-sysv,dbus,libnss-systemd,python3,python3-venv,iproute2,procps,util-linux,ca-certificates \
                "$SUITE" "$LOWER" "${SDLAB_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep -v security | sort -u | head -n 1)}" >"$LOWER.log" 2>&1 </dev/null ||
                { tail -20 "$LOWER.log" >&2; die "debootstrap failed"; }
            rm -f "$LOWER"/var/cache/apt/archives/*.deb; touch "$LOWER.done"
        fi ;;
    *) LOWER=$(readlink -e "$ROOT") || die "no such root: $ROOT" ;;
esac
[ -x "$LOWER/lib/systemd/systemd" ] || die "$LOWER has no /lib/systemd/systemd"

# Left over from a run that was killed with SIGKILL? (Its processes died with it.)
sweep() {
    local d p
    for d in "${TMPDIR:-/tmp}/$PREFIX".*; do
        [ -r "$d/owner" ] || continue
        read -r p <"$d/owner"
        [ -d "/proc/$p" ] && continue
        while read -r c; do drop_cgroup "$c"; done <"$d/cgroups" 2>/dev/null || true
        rm -rf --one-file-system "$d"
    done
}
drop_cgroup() {   # remove a cgroup folder and all below it, once empty
    [ -d "$1" ] || return 0
    for _ in $(seq 40); do
        find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
        [ -d "$1" ] || return 0
        sleep 0.1
    done
    echo "systemd-lab: could not remove $1" >&2
}
sweep

W=$(mktemp -d "${TMPDIR:-/tmp}/$PREFIX.XXXXXX"); NAME=${W##*/}
mkdir "$W/m"; echo $$ >"$W/owner"; : >"$W/cgroups"; : >"$W/binds"
UPID='' INIT='' CPID=''

alive() {   # is there such a process, and not just a zombie?
    local st
    [ -n "$1" ] && read -r st 2>/dev/null <"/proc/$1/stat" || return 1
    st=${st##*) }
    [ "${st%% *}" != Z ]
}
# shellcheck disable=SC2329
cleanup() {
    local rc=$?
    trap '' EXIT HUP INT TERM
    # SIGKILL to a PID namespace's init ends every process in it. Its parents (unshare, nsenter)
    # are left to reap, which the machine's PID 1 may be slow to do.
    if [ -n "$UPID" ]; then {
        if [ -n "$INIT" ]; then kill -KILL "$INIT"; else kill -KILL "$UPID"; fi || true
        for _ in $(seq 100); do alive "$UPID" || alive "$CPID" || break; sleep 0.05; done
        # shellcheck disable=SC2086  # CPID may be empty
        kill -KILL "$UPID" $CPID || true
        # shellcheck disable=SC2086
        wait "$UPID" $CPID || true
    } 2>/dev/null; fi
    while read -r c; do drop_cgroup "$c"; done <"$W/cgroups"
    rm -rf --one-file-system "$W"
    say "cleaned up"
    exit "$rc"
}
trap cleanup EXIT
trap 'exit 129' HUP; trap 'exit 130' INT; trap 'exit 143' TERM

# One new cgroup per hierarchy, below our own (so limits put on this session still count).
mountpoint_of() {  # $1: "" for cgroup2, else the v1 controller or name=...; prints "mountpoint<TAB>root"
    awk -v want="$1" '{
        for (i = 7; $i != "-"; i++); fs = $(i+1); n = split($(i+3), o, ",")
        if (want == "" && fs == "cgroup2") { print $5 "\t" $4; exit }
        if (want != "" && fs == "cgroup") for (k = 1; k <= n; k++) if (o[k] == want) { print $5 "\t" $4; exit }
    }' /proc/self/mountinfo
}
while IFS=: read -r _ ctl path; do
    IFS=$'\t' read -r mp mroot < <(mountpoint_of "${ctl%%,*}") || true
    [ -n "${mp:-}" ] || continue
    [ "$mroot" = / ] || path=${path#"$mroot"}
    if [ -z "$ctl" ] && [ "$mp" = /sys/fs/cgroup ]; then       # a pure cgroup-v2 machine
        CGMODE=v2; path=/                                       # (inner cgroups may hold no processes)
        sed 's/\([^ ]\+\)/+\1/g' "$mp/cgroup.controllers" >"$mp/cgroup.subtree_control" 2>/dev/null || true
    fi
    d=$mp${path%/}/$NAME
    mkdir "$d"; echo "$d" >>"$W/cgroups"
    case ",$ctl," in
        *,cpuset,*) for f in cpuset.cpus cpuset.mems; do cat "$mp${path%/}/$f" >"$d/$f"; done ;;
        *,cpu,*)    echo 500000 >"$d/cpu.rt_runtime_us" || true ;;   # or realtime policies are refused
    esac 2>/dev/null
    mp=
done </proc/self/cgroup

add_bind() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$W/binds"; }
[ -z "$PROJECT" ] || add_bind "$COPY" "$PROJECT" "$AT"
for b in "${BINDS[@]}"; do
    k=${b%%:*}; b=${b#*:}; s=${b%%:*}; t=${b#*:}
    s=$(readlink -e "$s") || die "no such path: ${b%%:*}"
    [ "$t" != "$b" ] || t=$s
    add_bind "$k" "$s" "$t"
done
printf 'LOWER=%q\nNET=%q\nCGMODE=%q\n' "$LOWER" "$NET" "$CGMODE" >"$W/conf"

# Boot. The subshell moves itself into the new cgroups, so that the new cgroup namespace is
# rooted there. If this script is killed, --pdeathsig takes unshare along, and --kill-child
# takes systemd along.
NS=(--mount --uts --ipc --cgroup --pid --fork --kill-child --propagation private)
[ "$NET" = host ] || NS+=(--net)
(
    while read -r d; do echo "$BASHPID" >"$d/cgroup.procs"; done <"$W/cgroups"
    cd /
    exec setpriv --pdeathsig KILL unshare "${NS[@]}" bash "$ME" __stage2 "$W"
) </dev/null >"$W/stage2.log" 2>&1 &
UPID=$!

boot_failed() {
    echo "systemd-lab: systemd did not come up: $1" >&2
    cat "$W/stage2.log" >&2; [ ! -s "$W/kmsg" ] || tr -d '\0' <"$W/kmsg" >&2
    [ -z "$INIT" ] || nsenter -t "$INIT" -a journalctl -b --no-pager -n 50 >&2 </dev/null || true
    exit 125
}
inside() { nsenter -t "$INIT" -a -- "$@"; }
state=
for _ in $(seq 600); do
    [ -d "/proc/$UPID" ] || boot_failed "PID 1 ended"
    if [ -z "$INIT" ]; then
        read -r INIT <"/proc/$UPID/task/$UPID/children" 2>/dev/null || true
        INIT=${INIT%% *}
    fi
    if [ -n "$INIT" ] && [ "$(cat "/proc/$INIT/comm" 2>/dev/null)" = systemd ]; then
        state=$(inside systemctl is-system-running 2>/dev/null </dev/null) || true
        case "$state" in running|degraded) break ;; esac
    fi
    sleep 0.1
done
case "$state" in running|degraded) ;; *) boot_failed "state ${state:-unknown} after 60 s" ;; esac
say "up: $(inside systemctl --version </dev/null | head -1), state $state"
[ "$state" = running ] || [ -z "$VERBOSE" ] || inside systemctl --failed --no-pager --plain </dev/null >&2 || true

# Run the command as a transient service of that systemd; its output is our output. (The shell
# around it is there because systemd counts an end by SIGTERM as success; $ is doubled because it expands variables.)
OPTS=(--quiet --pipe --wait --collect --service-type=exec --unit=lab-command
      --property=KillMode=mixed --property=TimeoutStopSec=5s --property="RuntimeMaxSec=$TMO"
      --property=TasksMax=infinity
      --setenv=HOME=/root --setenv=LANG=C.UTF-8 --setenv=SYSTEMD_PAGER= --setenv=SYSTEMD_COLORS=0)
[ -z "${CI:-}" ] || OPTS+=(--setenv=CI="$CI")
[ -z "$PROJECT" ] || OPTS+=(--working-directory="$AT" --setenv=LAB_PROJECT="$AT")
START=${EPOCHREALTIME%[.,]*}
# shellcheck disable=SC2016
timeout -k 5 "$((TMO + 30))" nsenter -t "$INIT" -a -- systemd-run "${OPTS[@]}" "${ENVS[@]}" -- \
    /bin/sh -c '"$@"; c=$?; echo "$c" >/run/lab-command.rc; exit "$c"' lab-command "${@//\$/\$\$}" </dev/null &
CPID=$!                                     # in the background: bash runs traps only while it waits
wait "$CPID" || true
CPID=
rc=$(cat "/proc/$INIT/root/run/lab-command.rc" 2>/dev/null) || rc=
if [ -n "$rc" ]; then
    say "command ended with $rc"
elif [ "$((${EPOCHREALTIME%[.,]*} - START))" -ge "$TMO" ]; then
    rc=124; echo "systemd-lab: command still running after $TMO s: ended" >&2
else
    rc=125; echo "systemd-lab: command ended without an exit code" >&2
fi

[ -z "$JOURNAL" ] || inside journalctl -b --no-pager -o short-precise >"$JOURNAL" 2>&1 </dev/null || true

# Ask for an orderly end (units get their stop signals), but not for long.
inside systemctl --no-block exit >/dev/null 2>&1 </dev/null || true
for _ in $(seq 200); do alive "$INIT" || break; sleep 0.05; done
! alive "$INIT" || say "systemd had to be killed"
exit "$rc"
