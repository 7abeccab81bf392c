"""The database's file and its folder: where it may stand, whose it is, and clear words when it cannot be used."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from pool.errors import BackendUnavailable, ConfigError

# File systems whose locks or shared memory do not hold across machines, as /proc/self/mountinfo names them.
_NETWORK = {
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "fuse.ceph", "glusterfs", "fuse.glusterfs",
    "lustre", "gfs2", "ocfs2", "afs", "beegfs", "fuse.s3fs", "fuse.rclone", "vboxsf", "prl_fs",
}  # fmt: skip


def stat_or_none(path: str | Path) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116  # once a second in every keeper: a Path would cost more than the call
    except OSError:
        return None


def prepare(path: str, *, create: bool) -> os.stat_result:
    """Check that a database can be opened here, make it when it may be made, and return its stat."""
    folder = str(Path(path).parent)
    _check_folder(path, folder)
    _refuse_network(path, folder)
    found = stat_or_none(path)
    if found is None or found.st_size == 0:
        return _make(path, folder, create=create, exists=found is not None)
    _refuse_foreign(path)
    return found


def _check_folder(path: str, folder: str) -> None:
    try:
        is_folder = stat.S_ISDIR(Path(folder).stat().st_mode)
        Path(path).exists()
    except FileNotFoundError:
        is_folder = False
    except PermissionError as problem:
        raise BackendUnavailable(path, f"this user may not enter {folder}; check owner, group and mode") from problem
    if not is_folder:
        raise ConfigError(f"database folder {folder} does not exist: make it (mkdir -p {folder}) or change backend.url")


def _make(path: str, folder: str, *, create: bool, exists: bool) -> os.stat_result:
    if not exists and not create:
        raise BackendUnavailable(path, "there is no database at this path; start a pool with it, or change backend.url")
    if not exists:
        _refuse_beside_a_wal(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))
    except OSError as problem:
        why = (problem.strerror or "unknown").lower()
        raise BackendUnavailable(path, f"it cannot be made: {why}; check owner and mode of {folder}") from problem
    if not exists:
        _share_as(path, Path(folder).stat())
    return Path(path).stat()


def _refuse_beside_a_wal(path: str) -> None:
    """Somebody has moved the database and not its -wal, which holds accepted jobs: a new one here would not get them, and
    from then on it would look as if the -wal were the one too many.
    """
    wal = stat_or_none(f"{path}-wal")
    if wal is not None and wal.st_size:
        raise BackendUnavailable(
            path,
            "the database is not there, but its -wal is, with the jobs that were stored last: put the database back "
            f"beside it. Only if both are to be given up, delete {path}-wal and {path}-shm",
        )


def _share_as(path: str, folder: os.stat_result) -> None:
    """A new database in a folder that its group may write is the group's; one that root makes is the folder's owner's."""
    if os.geteuid() == 0:
        os.chown(path, folder.st_uid, folder.st_gid)
    if folder.st_mode & 0o020:
        with suppress(PermissionError):  # a unit may forbid the call where it is not even needed
            os.chown(path, -1, folder.st_gid)
        if Path(path).stat().st_gid == folder.st_gid:
            Path(path).chmod(0o660)


def take_after(path: str, like: os.stat_result, *, mode: int | None = None) -> None:
    """Give a side file the database's group and mode, and from root its owner. Another user's file is left as it is."""
    wanted = (like.st_mode & 0o666) if mode is None else mode
    now = Path(path).stat()
    if os.geteuid() not in (0, now.st_uid):
        return
    with suppress(PermissionError):
        if now.st_gid != like.st_gid or (os.geteuid() == 0 and now.st_uid != like.st_uid):
            os.chown(path, like.st_uid if os.geteuid() == 0 else -1, like.st_gid)
    if now.st_mode & 0o777 != wanted:
        Path(path).chmod(wanted)


def _refuse_foreign(path: str) -> None:
    if not Path(path).is_file():
        raise BackendUnavailable(path, "it is not a regular file; change backend.url")
    for wanted, word in ((os.R_OK, "read"), (os.W_OK, "written")):
        if not os.access(path, wanted, effective_ids=True):
            raise BackendUnavailable(path, f"it may not be {word} by this user; check its owner, group and mode")


def _refuse_network(path: str, folder: str) -> None:
    kind = _file_system_of(folder)
    if kind in _NETWORK:
        raise ConfigError(
            f"database {path} is on a network file system ({kind}), where SQLite's locks do not hold: "
            "use a local disk, or redis:// for several machines"
        )


def _file_system_of(folder: str) -> str:
    """The type of the mount that has this folder, by /proc/self/mountinfo; empty when it cannot be told."""
    device = Path(folder).stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        if fields.split()[2] == wanted:
            return rest.split()[0]
    return ""


def open_wal(path: str) -> int:
    """A descriptor of the -wal to sync with; its folder entry is synced at once, so that the file survives a power cut.

    SQLite never takes fcntl locks on the -wal, so closing this descriptor frees none."""
    fd = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
    folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return fd
