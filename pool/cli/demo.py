"""`jobpool demo`: the words; the story itself is loaded only when it is told, because its jobs would be known here too."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    path: Annotated[
        Path,
        typer.Option(
            "--path",
            exists=True,
            file_okay=False,
            help="Whose files to take, the first 3,000 up to 256 MB; default: here.",
        ),
    ] = Path(),
    workers: Annotated[int, typer.Option("--workers", min=2, max=64, help="Worker processes.")] = 4,
) -> int:
    """See a pool at work: checksums of real files, retries, a worker killed in mid-job, every job accounted for."""
    from pool.cli.demo_story import tell

    return tell(path, workers)
