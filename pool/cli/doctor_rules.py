"""What `doctor` checks: each rule is pure, takes the facts, and yields findings with the exact remedy. No I/O.

A rule says `ok` where it looked and found nothing, and nothing at all where its facts are missing.
"""

import re

from pool.cli.doctor_facts import Facts
from pool.cli.doctor_unit import UNIT_RULES, Finding, Findings, Level, Rule
from pool.cli.output import duration, size
from pool.why import STALE_BEAT_S, serves

LEAST_FREE_BYTES = 500_000_000
LARGEST_WAL_BYTES = 64_000_000
CLOCK_OFF_S, CLOCK_WRONG_S = 1.0, 30.0
NETWORK = ("nfs", "cifs", "smb", "9p", "sshfs", "ceph", "gluster", "lustre", "gfs2", "ocfs2", "afs", "beegfs", "s3fs")
VANISHING = ("tmpfs", "ramfs", "overlay", "aufs")
WAL_RESET_FIXED = ((3, 44, 6), (3, 50, 7), (3, 51, 3))  # sqlite.org/wal.html: the fault and the versions without it


def examine(facts: Facts) -> list[Finding]:
    """Every finding of every rule, in the order of the rules."""
    return [finding for rule in RULES for finding in rule(facts)]


# ---------------------------------------------------------------- the store


def _store_answers(facts: Facts) -> Findings:
    if facts.store_trouble.startswith("it is not there yet"):
        yield Finding("note", "store", facts.store_trouble)
    elif facts.store_trouble:
        yield Finding(
            "error", "store", facts.store_trouble, "start the store, or correct [backend] url; then: jobpool doctor"
        )
    else:
        yield Finding("ok", "store", f"{facts.kind} answers")


def _file_system(facts: Facts) -> Findings:
    kind = facts.file_system
    if not kind:
        return
    if any(name in kind for name in NETWORK):
        yield Finding(
            "error", "file system", f"the database is on {kind}, where SQLite's locks do not hold",
            "move it to a local disk ([backend] url), or use redis:// for several machines",
        )  # fmt: skip
    elif kind in VANISHING:
        yield Finding(
            "warning", "file system", f"the database is on {kind}, which does not survive a restart of the machine or container",
            "put it on a disk or a volume: [backend] url = \"sqlite:////var/lib/jobpool/jobpool.db\"",
        )  # fmt: skip
    else:
        yield Finding("ok", "file system", kind)


def _room(facts: Facts) -> Findings:
    if facts.free_bytes is not None and facts.free_bytes < LEAST_FREE_BYTES:
        yield Finding(
            "error", "disk", f"only {size(facts.free_bytes) or '0 B'} are free beside the database; a full disk refuses new jobs",
            "make room, or shorten [retention] completed and failed",
        )  # fmt: skip
    wal = next((side for side in facts.side_files if side.path.endswith("-wal")), None)
    if wal is not None and wal.size > LARGEST_WAL_BYTES:
        yield Finding(
            "warning", "WAL", f"the write-ahead log has {size(wal.size)}: some reader keeps a transaction open",
            f"find it with: fuser -v {wal.path.removesuffix('-wal')}",
        )  # fmt: skip


def _database_permissions(facts: Facts) -> Findings:
    if facts.database is None or facts.folder is None:
        return
    if facts.folder.mode & 0o002 and not facts.folder.mode & 0o1000:
        yield Finding(
            "error", "data", f"anyone may replace files in {facts.folder.path}", f"chmod o-w {facts.folder.path}"
        )
    files = (facts.database, *facts.side_files)
    opened = [file for file in files if file.mode & 0o007]
    for file in opened:
        level: Level = "error" if file.mode & 0o002 else "warning"
        yield Finding(level, "data", f"every user may use {file.path}", f"chmod o-rwx {file.path}")
    strangers = [file for file in (*files, facts.folder) if not file.is_usable]
    for file in strangers:
        yield Finding(
            "error", "data", f"this user may not read and write {file.path} (owner uid {file.uid}, mode {file.mode:04o})",
            f"run this as the pool's user, or: chgrp jobpool {file.path} && chmod g+rw {file.path}",
        )  # fmt: skip
    if not opened and not strangers:
        yield Finding("ok", "data", f"{facts.database.path} has mode {facts.database.mode:04o}")


def _sqlite_version(facts: Facts) -> Findings:
    if facts.kind != "sqlite" or is_wal_reset_fixed(facts.sqlite_version):
        return
    text = ".".join(map(str, facts.sqlite_version))
    yield Finding(
        "note", "SQLite", f"version {text} can damage a database when two programs checkpoint it at one moment; jobpool takes turns",
        "let no other program write to this database, or use SQLite 3.51.3 or newer",
    )  # fmt: skip


def is_wal_reset_fixed(version: tuple[int, int, int]) -> bool:
    """The newest line, or a version of an older line that got the correction."""
    return version >= WAL_RESET_FIXED[-1] or any(
        version[:2] == fixed[:2] and version >= fixed for fixed in WAL_RESET_FIXED
    )


def _redis(facts: Facts) -> Findings:
    """The backend's own sentences on persistence, eviction and age; each carries its remedy behind the last semicolon."""
    for sentence in facts.store_warnings:
        says, _, remedy = sentence.rpartition(";")
        yield Finding(
            "error" if "may drop" in sentence else "warning", "Redis", says or sentence, _redis_remedy(remedy)
        )
    if facts.kind == "redis" and not facts.store_warnings and not facts.store_trouble:
        yield Finding("ok", "Redis", "it keeps what it accepts: appendonly yes, noeviction")


def _redis_remedy(remedy: str) -> str:
    wish = remedy.strip()
    if "noeviction" in wish:
        return "redis-cli CONFIG SET maxmemory-policy noeviction && redis-cli CONFIG REWRITE"
    if "appendonly" in wish:
        return "redis-cli CONFIG SET appendonly yes && redis-cli CONFIG REWRITE"
    return wish


# ---------------------------------------------------------------- clocks, doors, pools


def _clock(facts: Facts) -> Findings:
    ahead = facts.clock_ahead_s
    if ahead is not None and abs(ahead) > CLOCK_OFF_S:
        level: Level = "error" if abs(ahead) > CLOCK_WRONG_S else "warning"
        which = "ahead of" if ahead > 0 else "behind"
        says = f"the store's clock is {duration(abs(ahead))} {which} ours; due times and cron follow the store"
        yield Finding(level, "clock", says, "timedatectl set-ntp true    # on both machines")
    elif facts.is_clock_synchronised is False:
        yield Finding(
            "warning", "clock", "this machine's clock is not synchronised; it decides when cron entries fire",
            "timedatectl set-ntp true",
        )  # fmt: skip
    else:
        yield Finding("ok", "clock", "it agrees with the store's")


def _socket(facts: Facts) -> Findings:
    if facts.socket is not None and facts.socket.mode & 0o002:
        remedy = '[status] socket_mode = "0660"'
        yield Finding("error", "socket", f"every user may connect to {facts.socket.path}", remedy)
    elif facts.socket is not None:
        yield Finding("ok", "socket", f"mode {facts.socket.mode:04o}")
    if facts.runtime is not None and facts.runtime.mode & 0o002:
        path = facts.runtime.path
        yield Finding("error", "socket", f"anyone may replace the socket in {path}", f"chmod 0750 {path}")


def _configuration(facts: Facts) -> Findings:
    for warning in facts.loaded.warnings:
        says, _, remedy = warning.partition("; ")
        yield Finding("warning", "configuration", says, remedy)
    if facts.config_file is not None and facts.config_file.mode & 0o002:
        path = facts.config_file.path
        yield Finding("error", "configuration", f"every user may change {path}", f"chmod o-w {path}")
    web = facts.loaded.config.web
    if web.enabled and not facts.loaded.config.tokens:
        yield Finding(
            "error", "web", "[web] is enabled, but there are no tokens", "jobpool token new NAME --role admin"
        )


def _merging(facts: Facts) -> Findings:
    found = facts.merging
    if found is None or not facts.loaded.config.pool.merge_memory:
        return
    if not found.is_able:
        yield Finding(
            "warning", "merge_memory", "this kernel cannot merge memory",
            "[pool] merge_memory = false, or a kernel that can: Linux 6.4 or newer with CONFIG_KSM",
        )  # fmt: skip
    elif found.is_working is False:
        yield Finding(
            "warning", "merge_memory", "ksmd, the kernel's thread that merges memory, does not run",
            "as root: echo 1 > /sys/kernel/mm/ksm/run; "
            "for each boot: echo 'w /sys/kernel/mm/ksm/run - - - - 1' > /etc/tmpfiles.d/ksm.conf",
        )  # fmt: skip
    elif found.is_let is False:
        yield Finding("warning", "merge_memory", "the running pool does not let the kernel merge", "jobpool reload")
    elif found.merged:
        says = f"{size(found.merged)} of the pool are in merged pages, which saves up to {size(found.saved) or '0 B'}"
        yield Finding("ok", "merge_memory", says)
    elif found.is_working:
        yield Finding("ok", "merge_memory", "ksmd runs; nothing of the pool is merged yet")


def _pool_is_well(facts: Facts) -> Findings:
    if facts.status is None:
        yield Finding("note", "pool", facts.pool_trouble, "jobpool start, or: systemctl start jobpool")
        return
    pool = facts.status["pool"]
    problems = list(pool.get("problems") or ())
    for problem in problems:
        yield Finding("error", "pool", str(problem), "jobpool status; then look into the log")
    reload = pool.get("last_reload") or {}
    if reload and not reload.get("ok"):
        yield Finding("error", "reload", f"the last reload failed: {reload.get('error')}", "jobpool check")
    if pool.get("version") != facts.own_version:
        says = f"the running pool is jobpool {pool.get('version')}, installed is {facts.own_version}"
        yield Finding("warning", "version", says, "systemctl restart jobpool")
    if not problems:
        says, is_degraded = f"{pool.get('name')} is {pool.get('state')}", pool.get("state") == "degraded"
        yield Finding("warning" if is_degraded else "ok", "pool", says, "jobpool status" if is_degraded else "")


def _versions(facts: Facts) -> Findings:
    by_version: dict[str, list[str]] = {}
    for pool in facts.pools:
        if not pool.lost and pool.age_s < STALE_BEAT_S:
            by_version.setdefault(str(pool.facts.get("version")), []).append(f"{pool.pool.name} on {pool.pool.host}")
    if len(by_version) > 1:
        newest = max(by_version, key=lambda text: [int(n) for n in re.findall(r"\d+", text)])
        listing = "; ".join(f"{version}: {', '.join(names)}" for version, names in sorted(by_version.items()))
        yield Finding(
            "warning", "versions", f"pools of several versions share this store ({listing})",
            f"install the wheel of jobpool {newest} on the others, then: systemctl restart jobpool",
        )  # fmt: skip
    elif by_version:
        yield Finding("ok", "versions", f"all pools on this store are jobpool {next(iter(by_version))}")


def _queues(facts: Facts) -> Findings:
    living = [pool for pool in facts.pools if not pool.lost and pool.age_s < STALE_BEAT_S]
    for queue in facts.queues:
        if queue.pending and living and not any(serves(pool, queue.name) for pool in living):
            yield Finding(
                "error", "queues", f"{queue.pending:,} jobs wait in {queue.name}, which no running pool serves",
                f'add "{queue.name}" to [workers] queues, or: jobpool purge {queue.name}',
            )  # fmt: skip
        if queue.paused:
            says = f"queue {queue.name} is paused; {queue.pending:,} jobs wait"
            yield Finding("note", "queues", says, f"jobpool resume {queue.name}")
        elif queue.overdue and living:
            yield Finding("warning", "queues", f"{queue.overdue:,} jobs of {queue.name} are overdue", "jobpool status")


RULES: tuple[Rule, ...] = (
    _pool_is_well, _configuration, *UNIT_RULES, _store_answers, _file_system, _room, _database_permissions,
    _sqlite_version, _redis, _clock, _socket, _versions, _queues, _merging,
)  # fmt: skip
