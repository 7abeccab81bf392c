"""Pictures made smaller. One job for one file, and one for a whole folder that goes on where it was interrupted."""

import os
from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError

import pool


@pool.job(queue="images", max_retries=1, timeout=120, fatal=(UnidentifiedImageError, FileNotFoundError))
def thumbnail(source: str, target: str, width: int = 320) -> list[int]:
    """Write a JPEG of at most this width; its size. Running it twice does no harm: the target is replaced whole."""
    return list(shrink(Path(source), Path(target), width))


@pool.job(queue="images", max_retries=3)
def thumbnails(folder: str, target: str, width: int = 320) -> int:
    """All pictures of a folder; how many there are. After a kill or a deploy, those that were done are not done again."""
    job = pool.current()
    files = sorted(Path(folder).glob("*.jpg"))
    done = job.restored or 0
    for number, file in enumerate(files[done:], start=done + 1):
        shrink(file, Path(target) / file.name, width)
        job.checkpoint(number)
        job.progress(number / len(files), note=file.name)
    return len(files)


def shrink(source: Path, target: Path, width: int) -> tuple[int, int]:
    """The temporary name and the rename: whoever looks sees the old file or the new one, never half of it."""
    part = target.with_name(f".{target.name}.{os.getpid()}")
    with Image.open(source) as image:
        upright = ImageOps.exif_transpose(image).convert("RGB")
    upright.thumbnail((width, 10 * width))
    upright.save(part, "JPEG", quality=85)
    part.replace(target)
    return upright.size
