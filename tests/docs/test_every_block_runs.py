"""Every block of every page has a test that runs it. A new kind of block on a page fails here until it has one, too."""

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks_of, name_of

WALKS = "tests/docs/test_walks.py::"
JOBS = "tests/docs/test_jobs_page.py::"
LAB = "tests/docs/test_on_a_server.py::test_an_empty_server_gets_a_pool_an_upgrade_and_its_backup_back_by_the_book"
BY_LANGUAGE = {
    "toml": "tests/docs/test_pages.py::test_configuration_of_a_page_is_one_that_jobpool_takes",
    "mermaid": "tests/docs/test_pages.py::test_the_picture_of_a_jobs_life_has_exactly_the_legal_moves",
}
# page, language and tag → the test that runs such blocks of the page
RUN_BY = {
    ("README.md", "sh", "clone"): WALKS + "test_a_fresh_clone_goes_from_nothing_to_the_demo_and_a_first_own_pool",
    ("README.md", "sh", ""): WALKS + "test_the_five_minutes_of_the_readme_end_with_two_jobs_done_and_one_scheduled",
    ("README.md", "python", ""): WALKS + "test_the_five_minutes_of_the_readme_end_with_two_jobs_done_and_one_scheduled",
    ("README.md", "python", "fragment"): WALKS + "test_the_test_of_the_readme_passes_without_a_pool",
    # CI runs this very command: .ci/run
    ("docs/contributing.md", "sh", "clone"): "tests/shape/test_words.py::test_the_two_commands_are_those_that_ci_and_newcomers_run",
    ("docs/deploy/README.md", "sh", "engine"): "tests/docs/test_deploy.py::test_what_is_asked_from_outside_is_answered_inside",
    ("docs/examples/README.md", "sh", ""): WALKS + "test_a_pool_starts_in_the_folder_of_the_examples",
    ("docs/examples/README.md", "python", ""): WALKS + "test_the_outbox_carries_over_what_the_tour_put_into_it",
    ("docs/guarantees.md", "sh", ""): WALKS + "test_the_trials_of_the_guarantees_end_well_though_they_last_seconds_here",
    ("docs/http.md", "sh", ""): "tests/web/test_workers.py::test_every_route_has_a_curl_line_that_works",
    ("docs/jobs.md", "python", ""): JOBS + "test_the_blocks_of_the_page_about_jobs_run",
    ("docs/jobs.md", "python", "payment"): "tests/docs/test_examples.py::test_a_payment_in_a_pool_meets_a_bank_that_takes_declines_and_is_busy",
    ("docs/jobs.md", "python", "fragment"): "tests/docs/test_integrations.py::test_every_fragment_of_the_pages_is_tried_here",
    ("docs/jobs.md", "php", ""): JOBS + "test_the_php_command_of_the_page_makes_a_picture_small",
    ("docs/migrating.md", "sh", ""): WALKS + "test_code_moved_from_rq_and_celery_runs",
    ("docs/migrating.md", "python", ""): WALKS + "test_code_moved_from_rq_and_celery_runs",
    ("docs/migrating.md", "python", "fragment"): "tests/docs/test_integrations.py::test_every_fragment_of_the_pages_is_tried_here",
    ("docs/operating.md", "sh", ""): WALKS + "test_the_commands_for_a_night_with_trouble_work_in_a_night_with_trouble",
    ("docs/operating.md", "sh", "root"): LAB,
    ("docs/redis.md", "text", ""): "tests/docs/test_redis_page.py::test_every_block_of_the_page_is_one_of_these",
    ("docs/redis.md", "sh", ""): "tests/docs/test_redis_page.py::test_the_move_of_the_page_takes_the_jobs_along",
    ("docs/jobs.md", "sh", ""): JOBS + "test_every_shell_block_of_the_page_is_tried_here",
    ("systemd/README.md", "sh", "root"): LAB,
}  # fmt: skip
BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def kind_of(block: Block) -> tuple[str, str, str]:
    return name_of(block.page), block.language, " ".join(block.tags)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_every_block_has_a_test_that_runs_it(block: Block) -> None:
    assert block.language in BY_LANGUAGE or kind_of(block) in RUN_BY


@pytest.mark.parametrize("test", sorted({*RUN_BY.values(), *BY_LANGUAGE.values()}))
def test_the_test_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


def test_nothing_is_said_of_blocks_that_are_gone() -> None:
    assert RUN_BY.keys() - {kind_of(block) for block in BLOCKS} == set()
