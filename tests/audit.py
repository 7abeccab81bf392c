"""`python -m tests.audit`: are there known weaknesses in what jobpool brings along?

Asks pip-audit about exactly the distributions that `pip install 'jobpool[web]'` puts into this environment, at the versions
that are here; tools for tests do not count. Needs the network and pip-audit (`pip install pip-audit`), so it is no part
of `python -m tests`: run it before a release, and once a week by a timer. Exit code: 0 nothing is known, 1 something is or
nobody could be asked, 2 there is no pip-audit.
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOTS = (("jobpool", "web"),)
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRAS = re.compile(r"\[([^\]]*)\]")
_ONLY_WITH = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


def brought_along(roots: tuple[tuple[str, str], ...] = ROOTS) -> dict[str, str]:
    """Name → version of everything that is installed because of these; the roots themselves are left out."""
    found: dict[str, str] = {}
    waiting, seen = list(roots), set(roots)
    while waiting:
        name, extra = waiting.pop()
        try:
            here = distribution(name)
        except PackageNotFoundError:
            continue  # for another system or Python
        found[_canonical(name)] = here.version
        for needed in _needs(here.requires or [], extra):
            if needed not in seen:
                seen.add(needed)
                waiting.append(needed)
    return {name: version for name, version in found.items() if name not in {root for root, _ in roots}}


def _needs(requires: list[str], extra: str) -> list[tuple[str, str]]:
    """What these lines ask for, each with each of its own extras, if they hold for this extra of their owner."""
    wanted = []
    for line in requires:
        what, _, condition = line.partition(";")
        only_with = _ONLY_WITH.findall(condition)
        if only_with and extra not in only_with:
            continue
        name = _NAME.match(what.strip())
        extras = _EXTRAS.search(what)
        if name:
            wanted += [(name[0], each.strip()) for each in ["", *(extras[1].split(",") if extras else [])]]
    return wanted


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    if importlib.util.find_spec("pip_audit") is None:
        print("pip-audit is not installed here; install it with: pip install pip-audit", file=sys.stderr)
        return 2
    pinned = sorted(f"{name}=={version}" for name, version in brought_along().items())
    print(f"{len(pinned)} distributions come with jobpool[web]: {', '.join(pinned)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text("\n".join(pinned) + "\n")
        words = [sys.executable, "-m", "pip_audit", "--strict", "--no-deps", "--disable-pip", "-r", str(file)]
        return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
