"""What the measures print and draw: without measuring anything."""

from argparse import Namespace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench import footprint, growth, merging, model, pages, plots, table

COSTS = {
    "server_us": 25.0,
    "enqueue_us": 30.0,
    "idle_bytes": 19_000.0,
    "idle_us": 4.0,
    "keeper_us": 300.0,
    "look_us_per_pool": 7.0,
}
MARKS = (
    ("performance.md", "all"),
    ("performance.md", "anatomy"),
    ("performance.md", "growth"),
    ("scale.md", "scale: measured"),
    ("scale.md", "scale: model"),
)


@pytest.mark.parametrize(("page", "name"), MARKS)
def test_each_table_has_its_place_in_the_pages(page: str, name: str, tmp_path: Path, monkeypatch) -> None:
    before = (pages.DOCS / page).read_text()
    (tmp_path / page).write_text(before)
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    pages.fill(page, name, "the new table")
    after = (tmp_path / page).read_text()
    assert after.count("the new table") == 1
    assert after.splitlines()[0] == before.splitlines()[0]
    assert after.splitlines()[-1] == before.splitlines()[-1]


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(SystemExit, match="no marks for nothing"):
        pages.fill("scale.md", "nothing", "")


@pytest.mark.parametrize("axis", growth.AXES, ids=lambda axis: axis.name)
def test_a_plot_is_svg_that_shows_every_line_in_both_panels(axis: growth.Axis, tmp_path: Path) -> None:
    values: list[list[float | None]] = [[10.0, 200.0, None, 40.0], [5.0, 6.0, 7.0, 8.0]]
    lines = [plots.Line("one & only", "#123"), plots.Line("other", "#456", is_dashed=True)]
    labels = [axis.label(value) for value in axis.values[:4]]
    drawn = ElementTree.fromstring(
        plots.figure(
            axis.title, axis.x_title, labels, lines, [plots.Panel("left, s", values), plots.Panel("right", values)]
        )
    )
    words = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {axis.title, "one & only", "other", "left, s", "right", *labels} <= words
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}circle"))) == 2 * 7


@pytest.mark.parametrize("top", [0.9, 3.0, 7.4, 99.0, 1234.0, 250_000.0])
def test_an_axis_ends_a_little_above_the_highest_value(top: float) -> None:
    assert top <= plots._round_up(top) <= 1.75 * top


def test_the_model_grows_with_the_square_only_where_keepers_look_at_each_other() -> None:
    few, many = model.load(COSTS, 100), model.load(COSTS, 1000)
    assert many.looks == pytest.approx(100 * few.looks)
    assert many.idle == pytest.approx(10 * few.idle)
    assert many.keepers == pytest.approx(10 * few.keepers)
    assert model.first_limit(COSTS).startswith("With 100 workers a host, limits are met in this order: ")


def test_without_ksmd_merging_is_not_measured_but_the_remedy_told(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(merging, "KSM", tmp_path)
    for written in (None, "0\n", "2\n"):
        if written is not None:
            (tmp_path / "run").write_text(written)
        with pytest.raises(SystemExit, match=f"echo 1 > {tmp_path}/run"):
            footprint.footprint(Namespace(merge=True, backend="sqlite"))


@pytest.mark.parametrize(("works", "rows"), [(True, 2), (False, 0)])
def test_the_table_has_what_merging_gives_only_where_ksmd_works(monkeypatch, works: bool, rows: int) -> None:
    asked = []
    monkeypatch.setattr(merging, "runs", lambda: works)
    monkeypatch.setattr(footprint, "idle", lambda options: {"cpu_s_in_20_s": 0.01})
    monkeypatch.setattr(
        footprint, "footprint", lambda options: asked.append(options.merge) or {"pss_mib": 50.0, "worker_mib": 3.0}
    )
    found = list(table.rest(Namespace(quick=True, runs=1)))
    assert sum("merge_memory" in row.what and "--merge" in row.command for row in found) == rows
    assert (asked.count(True), asked.count(False)) == (rows, 2)


@pytest.mark.parametrize(("cold", "mark"), [(1.2, ""), (40.0, " ‡")])
def test_on_a_machine_that_takes_away_what_rests_the_table_says_so(
    cold: float, mark: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        table.Row("a pickup", "< 1 ms", "9 ms", False, "pickup --backend redis"),
        table.Row("a rate", "≥ 1", "2", True, "http"),
    ]
    monkeypatch.setattr(table, "PARTS", {"some": lambda options: iter(rows)})
    monkeypatch.setattr(table, "coldness", lambda: cold)
    table.all_rows(Namespace(runs=1, write=False))
    text = capsys.readouterr().out
    assert f"| a pickup{mark} |" in text
    assert "| a rate |" in text
    assert ("40 times" in text) == bool(mark)
