"""What people wait for at a prompt: a pool's start, a probe, an import. And an HTTP enqueue beside a bare route."""

import datetime
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.measures import Found, Options
from tests.bench.pools import APP
from tests.helpers.house import House
from tests.web.serving import Api
from tests.web.test_load import BODY, bare_server, load

IMPORT = "import time; began = time.perf_counter(); import pool; print(time.perf_counter() - began)"
LOAD_S = 1.5
CONNECTIONS = 32


def boot(options: Options) -> Found:
    """Seconds: start of a pool of 8 to all ready, `jobpool health` as a whole process, `import pool`."""
    started = [_start_s() for _ in range(options.runs)]
    house = House(workers=1, app=APP).start()
    try:
        health = [_seconds_of("-m", "pool", "health", "--socket", str(house.socket)) for _ in range(3 * options.runs)]
    finally:
        house.close()
    imports = [float(_output_of("-c", IMPORT)) for _ in range(3 * options.runs)]
    bare = [_seconds_of("-I", "-c", "pass") for _ in range(3 * options.runs)]
    found = {
        "start": statistics.median(started),
        "health": statistics.median(health),
        "import": statistics.median(imports),
        "bare python": statistics.median(bare),
    }
    print(", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in found.items()))
    return found


def _start_s() -> float:
    house = House(workers=8, app=APP)
    try:
        began = time.time()
        house.start()
        return datetime.datetime.fromisoformat(house.status()["pool"]["since"]).timestamp() - began
    finally:
        house.close()


def _seconds_of(*words: str) -> float:
    began = time.monotonic()
    _output_of(*words)
    return time.monotonic() - began


def _output_of(*words: str) -> str:
    return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True).stdout


def http(options: Options) -> Found:
    """Enqueue calls per second over HTTP, in parts of what a route does that only validates the same body."""
    body, ratios = json.dumps(BODY).encode(), []
    api = Api()
    try:
        api.start()
        with tempfile.TemporaryDirectory() as folder, bare_server(Path(folder)) as bare:
            for address in (api.address, bare):  # warm
                load(address, 0.5, connections=CONNECTIONS, body=body)
            for _ in range(options.runs):
                ours, _ = load(api.address, LOAD_S, connections=CONNECTIONS, body=body)
                control, _ = load(bare, LOAD_S, connections=CONNECTIONS, body=body)
                ratios.append(ours / control)
                print(f"enqueue {ours / LOAD_S:,.0f}/s, control {control / LOAD_S:,.0f}/s, ratio {ratios[-1]:.2f}")
    finally:
        api.close()
    return {"ratio": statistics.median(ratios)}
