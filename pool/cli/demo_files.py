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
    """The files to take, whether there were more, the folders passed over (their names), and how many were too large."""

    files: list[str]
    is_cut: bool
    skipped: list[str]
    too_large: int = 0

    @property
    def said(self) -> list[str]:
        """What the demo does not take, in words; empty when it takes all."""
        words = [f"the first {MAX_FILES:,} files only, there are more"] if self.is_cut else []
        if self.too_large:
            words.append(f"{self.too_large:,} above {MAX_BYTES // 10**6} MB passed over")
        if self.skipped:
            words.append(f"passed over: {', '.join(self.skipped[:8])}{', …' if len(self.skipped) > 8 else ''}")
        return words


def find_files(root: Path) -> Found:
    """Readable, regular files under `root` in a stable order; hidden folders and environments are passed over."""
    skipped: set[str] = set()
    too_large: list[Path] = []
    found = list(islice(_files(root, skipped, too_large), MAX_FILES + 1))
    return Found(found[:MAX_FILES], len(found) > MAX_FILES, sorted(skipped), len(too_large))


def _files(root: Path, skipped: set[str], too_large: list[Path]) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        noise = {name for name in folders if name in NOISE or name.startswith(".") or name.endswith(".egg-info")}
        skipped |= noise
        folders[:] = sorted(set(folders) - noise)
        for path in (Path(folder, name).absolute() for name in sorted(names)):
            size = _size_of(path)
            if size > MAX_BYTES:
                too_large.append(path)
            elif size >= 0:
                yield str(path)


def _size_of(path: Path) -> int:
    """In bytes; -1 for what is no readable, regular file with a name in UTF-8."""
    try:
        str(path).encode()
        is_taken = path.is_file() and not path.is_symlink() and os.access(path, os.R_OK)
        return path.stat().st_size if is_taken else -1
    except (OSError, UnicodeEncodeError):
        return -1
