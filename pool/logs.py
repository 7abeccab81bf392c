"""Events to lines. Code names an event and its fields; this file decides how they look."""

from typing import Any

from loguru import logger


class Log:
    """`log.info("worker died", slot=3, signal=9)`: an event in plain words, and its facts as fields."""

    def debug(self, event: str, **fields: Any) -> None:
        self._write("DEBUG", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._write("INFO", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write("WARNING", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write("ERROR", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        logger.bind(**fields).log(level, event)


log = Log()
