"""Names of the keys. All carry one hash tag, so that a namespace lives on one node of a cluster."""

from pool.backends.contract import Want
from pool.backends.redis.frames import short_text
from pool.errors import ConfigError
from pool.identity import LaneId, PoolId

FIXED = (
    "jobs", "state", "past", "ids", "heads", "dues", "queues", "stats", "unique", "idem", "idem_at", "bells",
    "expiry", "pools",
)  # fmt: skip
SEPARATOR = "\x1f"
SPAN = 2**46  # as in parts/places.lua


class Keys:
    """The keys of one namespace; `fixed` in the order of scripts/parts/keys.lua."""

    def __init__(self, namespace: str) -> None:
        if not namespace or any(sign in namespace for sign in "{}") or not namespace.isprintable():
            raise ConfigError(f"bad namespace {namespace!r}: it must not be empty, nor hold braces or control signs")
        self.root = f"{{jobpool:{namespace}}}:"
        self.fixed = tuple((self.root + name).encode() for name in FIXED)
        self.exchange = tuple((self.root + name).encode() for name in ("jobs", "state", "heads", "dues", "stats"))
        self.enqueue_one = tuple(
            (self.root + name).encode() for name in ("jobs", "ids", "queues", "stats", "heads", "bells")
        )
        self.settings = (self.root + "settings").encode()
        self.audit = (self.root + "audit").encode()
        self.tick_jobs = (self.root + "tick_jobs").encode()
        self.ticks = (self.root + "ticks").encode()
        self.schema = (self.root + "schema").encode()

    def pool(self, pool: PoolId) -> bytes:
        return f"{self.root}pool:{pool}".encode()

    def bell(self, worker_class: bytes) -> bytes:
        return self.root.encode() + b"bell:" + worker_class


def lane_field(lane: LaneId) -> str:
    """The lane's entry in its pool's hash."""
    return f"{lane.worker.slot}.{lane.worker.generation}/{lane.lane}"


def lane_words(lane: LaneId) -> bytes:
    """The lane as a job's state has it: its length, and the text."""
    return short_text(str(lane).encode())


def listed(names: tuple[str, ...]) -> str:
    """Names between separators, so that a whole name can be looked for."""
    return SEPARATOR + SEPARATOR.join(names) + SEPARATOR if names else ""


def class_of(want: Want) -> bytes:
    """The worker class whose bell this want hears."""
    mode, names = ("*", want.reserved) if want.is_any else ("=", want.queues)
    return f"{want.min_priority}:{want.max_priority}:{mode}:{listed(names)}".encode()


def ranks_of(want: Want) -> tuple[str, str]:
    """Lowest and highest rank that the want allows; ("0", "+inf") for every priority."""
    low = (100 - want.max_priority) * SPAN
    high = "+inf" if want.min_priority <= 0 else f"({(101 - want.min_priority) * SPAN}"
    return str(max(0, low)), high


def is_whole(want: Want) -> bool:
    """Whether it leaves out no priority and its holder's pool beats for it: what nearly all ask for."""
    return want.min_priority <= 0 and want.max_priority >= 100 and not want.lease_seconds
