"""Which files the demo takes: real ones under a folder, without what tools leave behind, and not endlessly many."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

MAX_FILES = 3000
MAX_BYTES = 256_000_000
NOISE = frozenset({"node_modules", "__pycache__", "venv", "env", "site-packages", "build", "dist"})


@dataclass(frozen=True, slots=True)
class Found:
    """The files to take, whether there were more, and the folders passed over (their names)."""

    files: list[str]
    is_cut: bool
    skipped: list[str]


def find_files(root: Path) -> Found:
    """Readable, regular files under `root` in a stable order; hidden folders and environments are passed over."""
    skipped: set[str] = set()
    found = list(islice(_files(root, skipped), MAX_FILES + 1))
    return Found(found[:MAX_FILES], len(found) > MAX_FILES, sorted(skipped))


def _files(root: Path, skipped: set[str]) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        noise = {name for name in folders if name in NOISE or name.startswith(".") or name.endswith(".egg-info")}
        skipped |= noise
        folders[:] = sorted(set(folders) - noise)
        yield from (str(path) for path in (Path(folder, name).absolute() for name in sorted(names)) if _is_taken(path))


def _is_taken(path: Path) -> bool:
    try:
        is_small = path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_BYTES
        str(path).encode()
    except (OSError, UnicodeEncodeError):
        return False
    return is_small and os.access(path, os.R_OK)
