"""A worker takes jobs, runs them and hands them in."""

import json
import os
import signal
from pathlib import Path

import pytest

from pool.backends.sqlite.bell import Bells, Ring
from pool.board.lanes import Phase
from pool.board.record import Exit, State
from pool.clock import monotonic_now
from pool.descriptors import readable
from pool.jobs.lifecycle import Reason, Status
from tests.helpers.hired import Shop
from tests.helpers.until import GENEROUS_SECONDS, until


def test_a_job_runs_and_its_result_is_kept(shop: Shop) -> None:
    job = shop.enqueue("add", '{"left": 2, "right": 3}')
    worker = shop.hire()

    done = shop.until_over(job)

    assert (done.status, done.result) == (Status.COMPLETED, "5")
    assert done.attempts[0].worker == f"{worker.seat.worker}/0"
    assert worker.announcements() >= 1


def test_a_worker_that_sleeps_is_woken_by_an_enqueue(shop: Shop) -> None:
    worker = shop.hire()
    worker.until_idle()

    assert shop.until_over(shop.enqueue("nothing")).status is Status.COMPLETED


def test_the_board_shows_the_job_in_hand_and_forgets_it(shop: Shop) -> None:
    gate, ledger = shop.folder / "gate", shop.folder / "ledger"
    job = shop.enqueue("held", json.dumps({"ledger": str(ledger), "gate": str(gate)}), timeout=50.0)
    worker = shop.hire()
    worker.until_started()

    lane = worker.record.lanes[0].state.read()
    assert (lane.job_id, lane.type, lane.queue) == (job, "tests.worker.app.held", "default")
    assert 40 < lane.hard_deadline - lane.since < 60
    assert worker.process.state == State.BUSY

    gate.touch()
    shop.until_over(job)
    until(lambda: worker.record.lanes[0].state.read().phase == Phase.NONE, "an empty lane")
    assert worker.record.lanes[0].state.read().claim == 1
    until(lambda: worker.process.completed == 1, "the count")


def test_an_idle_worker_leaves_at_once_on_term(shop: Shop) -> None:
    worker = shop.hire()
    worker.until_idle()
    assert worker.stop() == 0
    assert worker.process.exit == Exit.STOPPED


def test_a_busy_worker_finishes_its_job_and_takes_no_other(shop: Shop) -> None:
    gate, ledger = shop.folder / "gate", shop.folder / "ledger"
    job = shop.enqueue("held", json.dumps({"ledger": str(ledger), "gate": str(gate)}))
    worker = shop.hire()
    worker.until_started()
    other = shop.enqueue("nothing")

    worker.signal(signal.SIGTERM)
    gate.touch()

    assert worker.until_ended() == 0
    assert shop.job(job).status is Status.COMPLETED
    assert shop.job(other).status is Status.PENDING
    assert shop.job(other).retry_count == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGWINCH, signal.SIGPIPE])
def test_signals_that_people_send_by_name_change_nothing(shop: Shop, number: signal.Signals) -> None:
    worker = shop.hire()
    worker.signal(number)
    assert shop.until_over(shop.enqueue("nothing")).status is Status.COMPLETED


def test_a_draining_worker_stays_and_claims_nothing_until_it_may(shop: Shop) -> None:
    worker = shop.hire()
    worker.record.orders.write(1)
    worker.signal(signal.SIGURG)
    until(lambda: worker.process.state == State.IDLE, "idle")
    # one job may have been claimed before the order was seen
    shop.until_over(shop.enqueue("nothing")) if worker.process.completed else None
    job = shop.enqueue("nothing")
    before = worker.process.alive_at
    until(lambda: worker.process.alive_at > before + 0.5, "another sign of life")
    assert shop.job(job).status is Status.PENDING

    worker.record.orders.write(0)
    worker.signal(signal.SIGURG)
    assert shop.until_over(job).status is Status.COMPLETED


def test_a_burst_worker_leaves_when_nothing_is_pending(shop: Shop) -> None:
    jobs = [shop.enqueue("nothing") for _ in range(20)]
    worker = shop.hire(burst=True)
    assert worker.until_ended() == 0
    assert worker.process.exit == Exit.BURST_DONE
    assert {shop.job(job).status for job in jobs} == {Status.COMPLETED}


def test_a_stop_during_a_long_import_is_obeyed_at_once(shop: Shop) -> None:
    (shop.folder / "slow_app.py").write_text(
        "open('importing', 'w'); import time; time.sleep(300)\n".replace(
            "'importing'", repr(str(shop.folder / "importing"))
        )
    )
    worker = shop.fork(shop.config({"app": {"modules": ["slow_app"], "path": str(shop.folder)}}))
    until((shop.folder / "importing").exists, "the import")
    assert worker.stop() == 0
    assert worker.process.exit == Exit.STOPPED


def test_an_app_that_cannot_be_imported_is_told_with_its_traceback(shop: Shop) -> None:
    (shop.folder / "broken_app.py").write_text("import no_such_library_here\n")
    config = shop.config({"app": {"modules": ["broken_app"], "path": str(shop.folder)}})

    worker = shop.hire(config)

    assert worker.until_ended() == 78
    assert "No module named 'no_such_library_here'" in worker.record.remark.read().text
    assert "importlib" not in worker.record.remark.read().text
    assert worker.process.state == State.BOOTING


def test_a_memory_limit_below_a_fresh_worker_is_a_configuration_error(shop: Shop) -> None:
    worker = shop.hire(memory_limit=1_000_000)
    assert worker.until_ended() == 78
    assert "raise memory_limit" in worker.record.remark.read().text


def test_a_worker_above_its_memory_limit_finishes_and_waits_for_its_replacement(shop: Shop) -> None:
    big = shop.enqueue("memory", '{"megabytes": 400}')
    worker = shop.hire(memory_limit="350MB")

    assert shop.until_over(big).status is Status.COMPLETED
    until(lambda: worker.process.exit == Exit.MEMORY, "the announcement")
    later = shop.enqueue("nothing")
    assert worker.process.state == State.RETIRING
    assert worker.stop() == 0
    assert shop.job(later).status is Status.PENDING


def test_a_worker_is_replaced_after_about_so_many_jobs(shop: Shop) -> None:
    for _ in range(15):
        shop.enqueue("nothing")
    worker = shop.hire(max_jobs=10)
    until(lambda: worker.process.exit == Exit.MAX_JOBS, "the announcement")
    assert 9 <= worker.process.completed <= 10
    assert worker.stop() == 0


def test_a_worker_is_replaced_after_a_while(shop: Shop) -> None:
    worker = shop.hire(max_age=0.2)
    until(lambda: worker.process.exit == Exit.MAX_AGE, "the announcement")
    assert worker.stop() == 0


def test_a_worker_that_is_rung_for_nothing_all_the_time_still_grows_old(shop: Shop) -> None:
    """Whoever is rung goes straight to the job that should be there, past its limits: not twice in a row."""
    worker = shop.hire(max_age=0.5)
    bells, give_up_at = Bells(f"{shop.folder}/store.db"), monotonic_now() + GENEROUS_SECONDS
    while worker.process.exit != Exit.MAX_AGE:  # without a pause: no sleep of the worker ends in another way
        bells.ring([Ring("default", 10)])
        assert monotonic_now() < give_up_at
    assert worker.stop() == 0


def test_a_barred_worker_leaves_by_itself(shop: Shop) -> None:
    worker = shop.hire()
    worker.until_idle()
    shop.recover(worker)
    shop.enqueue("nothing")
    assert worker.until_ended() == 0
    assert worker.process.exit == Exit.BARRED


def test_a_killed_workers_job_is_known_to_have_started(shop: Shop) -> None:
    ledger = shop.folder / "ledger"
    job = shop.enqueue("held", json.dumps({"ledger": str(ledger), "gate": str(shop.folder / "never")}))
    worker = shop.hire()
    worker.until_started()
    worker.kill()

    shop.recover(worker)

    assert shop.job(job).status is Status.PENDING
    assert shop.job(job).kill_count == 1


def test_an_orphan_finishes_its_job_and_leaves(tmp_path: Path) -> None:
    """The supervisor is killed; the worker is adopted by another process."""
    shop = Shop(tmp_path)
    gate, ledger = tmp_path / "gate", tmp_path / "ledger"
    job = shop.enqueue("held", json.dumps({"ledger": str(ledger), "gate": str(gate)}))
    other = shop.enqueue("nothing")
    pid_file = tmp_path / "pid"
    shop.store.close()
    supervisor = os.fork()
    if supervisor == 0:
        os.setpgid(0, 0)
        worker = shop.fork(shop.config(), at_parents_death=signal.SIGTERM)
        pid_file.write_text(str(worker.pid))
        signal.pause()
    until(lambda: pid_file.exists() and pid_file.read_text() and ledger.exists(), "a started job")
    worker_pid = int(pid_file.read_text())
    pidfd = os.pidfd_open(worker_pid)

    os.kill(supervisor, signal.SIGKILL)
    os.waitpid(supervisor, 0)
    gate.touch()

    assert readable([pidfd], 60), "the orphan did not leave"
    os.close(pidfd)
    assert shop.job(job).status is Status.COMPLETED
    assert shop.job(other).status is Status.PENDING
    assert shop.board.record(0).process.read().exit == Exit.ORPHANED
    shop.store.close()


def test_an_orphan_that_does_not_finish_in_time_hands_its_job_back(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    job = shop.enqueue("stuck", json.dumps({"ledger": str(tmp_path / "ledger")}))
    config = shop.config({"pool": {"state_dir": str(tmp_path), "stop_timeout": 0.5}})
    pid_file = tmp_path / "pid"
    shop.store.close()
    supervisor = os.fork()
    if supervisor == 0:
        os.setpgid(0, 0)
        pid_file.write_text(str(shop.fork(config, at_parents_death=signal.SIGTERM).pid))
        signal.pause()
    until(lambda: pid_file.exists() and pid_file.read_text() and (tmp_path / "ledger").exists(), "a started job")
    pidfd = os.pidfd_open(int(pid_file.read_text()))

    os.kill(supervisor, signal.SIGKILL)
    os.waitpid(supervisor, 0)

    assert readable([pidfd], 60), "the orphan did not leave"
    os.close(pidfd)
    assert shop.job(job).status is Status.PENDING
    assert shop.job(job).retry_count == 0
    shop.store.close()


def test_unknown_types_are_handed_back_and_given_up_at_last(shop: Shop) -> None:
    job = shop.enqueue("app.of_tomorrow")
    shop.hire()

    waiting = shop.until_attempts(job, 1)
    until(lambda: shop.job(job).misfits == 1, "a misfit")
    assert shop.job(job).status is Status.SCHEDULED
    assert (waiting.retry_count, waiting.kill_count) == (0, 0)


def test_a_payload_that_no_longer_fits_is_handed_back(shop: Shop) -> None:
    job = shop.enqueue("add", '{"left": "two"}')
    shop.hire()
    until(lambda: shop.job(job).misfits == 1, "a misfit")
    assert shop.job(job).status is Status.SCHEDULED
    assert "left" in (shop.job(job).attempts[0].cause.text or "")  # type: ignore[union-attr]


def test_no_retries_left_is_the_end(shop: Shop) -> None:
    job = shop.enqueue("bad", '{"how": "base exception"}', max_retries=2)
    shop.hire()
    over = shop.until_over(job)
    assert (over.status, over.reason) == (Status.FAILED, Reason.RETRIES_EXHAUSTED)
    assert len(over.attempts) == 3
