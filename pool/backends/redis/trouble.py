"""What the server says no with, in our words: which of our errors it is, and what to do about it."""

from pool.errors import BackendFull, BackendUnavailable

# First word of the server's error -> what it means and the remedy.
_REMEDIES = {
    "READONLY": "this server is a replica and takes no writes; after a failover the next attempt finds the primary",
    "MASTERDOWN": "this replica has lost its primary",
    "LOADING": "the server is loading its data from disk",
    "BUSY": "a script of somebody blocks the server (SCRIPT KILL ends one that has not written)",
    "NOAUTH": "it wants a password: put it into the URL (redis://:password@host/0) or into backend.url_file",
    "WRONGPASS": "user name or password is wrong; look at backend.url",
    "NOPERM": "the user's ACL does not allow this; docs/redis.md has the ACL line that jobpool needs",
    "MISCONF": "it cannot save to its disk and therefore refuses writes; free disk space on the server",
    "NOREPLICAS": "it has fewer replicas in step than min-replicas-to-write asks for",
    "CLUSTERDOWN": "its cluster does not serve all slots",
    "TRYAGAIN": "the namespace is being moved to another cluster node",
    "ASK": "the namespace is being moved to another cluster node",
    "MOVED": "the namespace is on another cluster node; use redis+cluster:// in the URL",
    "NOPROTO": "it does not speak the protocol we need",
    "WRONGTYPE": "a key of this namespace was overwritten by something else; choose another namespace or remove that key",
    "UNKILLABLE": "a script of somebody blocks the server",
}


class ServerError(Exception):
    """An error reply, before it is known what it means for the caller."""

    def __init__(self, text: str) -> None:
        self.text = text.removeprefix("ERR ").strip()
        self.word = self.text.partition(" ")[0].lstrip("-")
        super().__init__(self.text)


class ConnectionBroken(Exception):
    """The connection is unusable. `was_sent`: the server may have got the command. `timed_out`: no answer came."""

    def __init__(self, why: str, *, was_sent: bool = False, timed_out: bool = False) -> None:
        self.why, self.was_sent, self.timed_out = why, was_sent, timed_out
        super().__init__(why)


def as_ours(where: str, error: ServerError) -> BackendUnavailable:
    """The error to raise for a reply; the server's own words stand at the end, cut short."""
    word = _word_of(error)
    words = error.text[:160]
    if word == "OOM":
        return BackendFull(where, f"its memory limit (maxmemory) is reached; raise it or work off jobs ({words})")
    remedy = _REMEDIES.get(word)
    return BackendUnavailable(where, f"{remedy} ({words})" if remedy else f"it answered: {words}")


def _word_of(error: ServerError) -> str:
    """Older servers wrap the error of a command inside a script in words of their own."""
    if error.word in _REMEDIES or error.word == "OOM":
        return error.word
    if "unauthenticated" in error.text:  # a long command before AUTH is refused by the protocol's own limits
        return "NOAUTH"
    if "non local key" in error.text or "undeclared" in error.text:
        return "TRYAGAIN"
    for word in ("OOM", "WRONGTYPE", "READONLY", "NOPERM", "MISCONF", "NOREPLICAS"):
        if f"{word} " in error.text:
            return word
    if "invalid DB index" in error.text or "DB index is out of range" in error.text:
        error.text = f"no such database number; change the number at the end of backend.url ({error.text})"
    return ""
