"""Why a pool is not ready, in sentences, for `/readyz`. Reads what `report.py` wrote; no reason means ready."""

from typing import Any

Document = dict[str, Any]

NOTHING_CLAIMED_S = 30.0
NOT_STARTED_S = 5.0
HIGHEST_PRIORITY = 100  # as pool.jobs.priority has it; the supervisor knows no job


def unready_reasons(status: Document, idle_s: dict[str, float]) -> list[str]:
    """All reasons. `idle_s`: group → for how long its least idle worker has been idle; groups with a busy one are absent."""
    reasons = _of_state(status["pool"]["state"])
    reasons += [reason for group in status["groups"] for reason in _of_group(group, status["workers"])]
    reasons += _of_backend(status["backend"])
    if status["backend"]["ok"]:
        reasons += [reason for queue in status["queues"] for reason in _of_queue(queue, status["groups"], idle_s)]
    return reasons


def _of_state(state: str) -> list[str]:
    return [f"the pool is {state}"] if state in ("starting", "draining", "stopping") else []


def _of_group(group: Document, workers: list[Document]) -> list[str]:
    if group["ready"] >= group["count"]:
        return []
    parked = [worker for worker in workers if worker["group"] == group["name"] and worker["state"] == "parked"]
    why = f": {_parked_words(parked[0])}" if parked else ""
    return [f"group {group['name']}: {group['ready']} of {group['count']} workers are ready{why}"]


def _parked_words(worker: Document) -> str:
    last = worker["last_exit"] or {}
    why = worker["why"] or last.get("cause") or "it keeps failing"
    return f"slot {worker['slot']} is parked for {worker['next_start_s']:.0f} s more, {why}"


def _of_backend(backend: Document) -> list[str]:
    if backend["ok"]:
        return []
    return [f"the backend {backend['url'] or ''} does not answer: {backend['error']}".replace("  ", " ")]


def _of_queue(queue: Document, groups: list[Document], idle_s: dict[str, float]) -> list[str]:
    """Work that lies there while those who should do it sit idle. A paused or unserved queue is nobody's fault."""
    idle = _idle_time_of_its_workers(queue, groups, idle_s)
    if idle is None or queue.get("paused"):
        return []
    reasons = []
    if queue.get("overdue", 0) > 0 and idle > NOT_STARTED_S:
        reasons.append(f"queue {queue['name']}: {queue['overdue']} delayed jobs are overdue and workers are idle")
    waited_s = queue.get("oldest_pending_s") or 0.0
    if queue.get("pending", 0) > 0 and waited_s > NOTHING_CLAIMED_S and idle > NOTHING_CLAIMED_S:
        reasons.append(
            f"queue {queue['name']}: {queue['pending']} jobs are ready, workers are idle, nothing was claimed for {idle:.0f} s"
        )
    return reasons


def _idle_time_of_its_workers(queue: Document, groups: list[Document], idle_s: dict[str, float]) -> float | None:
    """The shortest idle time among all workers that serve the queue; None when one of them is busy, or none serves it."""
    serving = [group for group in groups if serves(group, queue) and group["ready"] and not group["draining"]]
    if any(group["name"] not in idle_s for group in serving) or not cover_all_priorities(serving):
        return None
    return min(idle_s[group["name"]] for group in serving)


def serves(group: Document, queue: Document) -> bool:
    """Whether the group's workers take jobs of this queue; `"*"` leaves out queues reserved for other languages."""
    return queue["name"] in group["queues"] or ("*" in group["queues"] and queue.get("served", True))


def cover_all_priorities(groups: list[Document]) -> bool:
    """Whether any job of a queue has a group here. Where none serves low priorities, say, what waits may be just those."""
    reached = 0
    for group in sorted(groups, key=lambda group: group["min_priority"]):
        if group["min_priority"] <= reached:
            reached = max(reached, group["max_priority"] + 1)
    return reached > HIGHEST_PRIORITY
