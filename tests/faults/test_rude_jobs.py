"""Jobs that behave as no job should, in a whole pool: they come to an end, and the next job finds a sound worker."""

from collections.abc import Callable

import pytest

from tests.helpers.house import APP, House

OpenHouse = Callable[..., House]

RUDE = (
    APP
    + """
import locale, shutil, subprocess, sys, tempfile, threading

def thread_that_stays():
    threading.Thread(target=time.sleep, args=(3600,)).start()

def subprocess_that_stays():
    subprocess.Popen(["sleep", "300"])

def deleted_working_directory():
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    shutil.rmtree(folder)

def other_umask_locale_and_environment():
    os.umask(0o777)
    os.environ.update(PATH="", HOME="", TZ="Asia/Shanghai", PYTHONPATH="/")
    locale.setlocale(locale.LC_ALL, "C")

def flood_of_output():
    line = b"x" * 65_535 + b"\\n"
    for _ in range(MEGABYTES * 16):
        sys.stdout.buffer.write(line)

def all_descriptors_closed():
    os.closerange(0, 1024)

def forks_and_forgets():
    if os.fork() == 0:
        time.sleep(300)

def no_signal_handlers():
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)

MEGABYTES = int(os.environ.get("RUDE_MEGABYTES", "20"))
WAYS = {function.__name__: function for function in (
    thread_that_stays, subprocess_that_stays, deleted_working_directory, other_umask_locale_and_environment,
    flood_of_output, all_descriptors_closed, forks_and_forgets, no_signal_handlers,
)}

@pool.job
@noted
def rude(way: str) -> str:
    WAYS[way]()
    return "done"
"""
)
WAYS = (
    "thread_that_stays",
    "subprocess_that_stays",
    "deleted_working_directory",
    "other_umask_locale_and_environment",
    "flood_of_output",
    "all_descriptors_closed",
    "forks_and_forgets",
    "no_signal_handlers",
)


def test_a_rude_job_ends_and_its_worker_or_heir_works_on(open_house: OpenHouse) -> None:
    """One house for all of them, since each must leave it fit for the next."""
    house = open_house(workers=1, app=RUDE)
    for way in WAYS:
        job = house.enqueue("tasks.rude", {"way": way})
        assert house.wait_until(job, "completed").claim == 1, way
        assert len(house.runs(job)) == 1, way
        assert house.wait_until(house.enqueue("tasks.quick"), "completed").claim == 1, way
    assert house.stop() == 0
    house.wait_for(lambda: house.pids() == [], "nobody left, not even what they started")


@pytest.mark.full
def test_a_gigabyte_of_output_keeps_its_end(open_house: OpenHouse) -> None:
    house = open_house(workers=1, app=RUDE, environ={"RUDE_MEGABYTES": "1024"}, settings='[log]\nlevel = "ERROR"\n')
    done = house.wait_until(house.enqueue("tasks.rude", {"way": "flood_of_output"}), "completed", within=100)
    assert 0 < len(done.attempts[0].output) <= 16 * 1024
