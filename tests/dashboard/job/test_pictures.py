"""The two pictures of a job: the DAG has a box for every stage, the timeline a bar for every delivery."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from dalston_queue.dashboard.job import dag, gantt
from dalston_queue.dashboard.job.dag import MAX_EDGES, Stage, arrange, columns
from dalston_queue.dashboard.job.gantt import Span
from dalston_queue.jobs.lifecycle.dag import MAX_STAGES
from dalston_queue.jobs.queries.timeline import Delivery, DeliveryOutcome

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def shape(**after: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(parents.split()) for name, parents in after.items()}


def test_a_stage_is_one_column_behind_the_last_one_it_waits_for() -> None:
    assert columns(shape(d="b c", a="", b="a", c="b", e="")) == [["a", "e"], ["b"], ["c"], ["d"]]
    assert columns({}) == []


def test_stages_are_next_to_those_they_wait_for() -> None:
    assert columns(shape(a="", b="", x="b", y="a"))[1] == ["y", "x"]


@pytest.mark.parametrize("count", [1, 2, MAX_STAGES])
def test_no_two_boxes_overlap(count: int) -> None:
    after: dict[str, tuple[str, ...]] = {f"s{n}": ((f"s{(n - 1) // 14}",) if n else ()) for n in range(count)}
    picture = arrange(after)
    assert picture.positions.keys() == after.keys()
    (width, height), boxes = picture.box, list(picture.positions.values())
    for number, one in enumerate(boxes):
        assert 0 <= one.x <= picture.width - width
        assert 0 <= one.y <= picture.height - height
        for other in boxes[:number]:
            assert abs(one.x - other.x) >= width or abs(one.y - other.y) >= height


def test_a_hundred_stages_side_by_side_are_no_higher_than_a_screen() -> None:
    picture = arrange({"split": (), **{f"part_{n}": ("split",) for n in range(100)}})
    assert picture.height < 520
    assert picture.positions["split"].x < min(picture.positions[f"part_{n}"].x for n in range(100))


def test_it_is_well_formed_escaped_and_links_to_each_stage() -> None:
    stages = [Stage("split", (), "completed", "ok"), Stage("n" * 64, ("split", "<gone>"), "dead_letter", "bad", False)]
    text = dag.draw(stages)
    root = ET.fromstring(text)  # our own
    assert [box.get("href") for box in root.iter("a")] == ["#stage-split", f"#stage-{'n' * 64}"]
    assert "dead letter, after split, &lt;gone&gt;" in text
    assert len(list(root.iter("path"))) == 1
    assert "2 stages" in text


def test_too_many_lines_are_left_out_and_it_says_so() -> None:
    names = [f"s{n}" for n in range(100)]
    text = dag.draw([Stage(name, tuple(names[:n]), "pending", "") for n, name in enumerate(names)])
    assert text.count("<path") == MAX_EDGES
    assert f"{100 * 99 // 2 - MAX_EDGES} lines are left out" in text


def seconds(n: float) -> datetime:
    return NOW + timedelta(seconds=n)


def test_a_bar_spans_the_time_of_its_delivery() -> None:
    deliveries = (
        Delivery(1, "n.demo.0.b", seconds(10), seconds(30), DeliveryOutcome.RETRIED, message="<boom>"),
        Delivery(2, "n.demo.1.b", seconds(50), seconds(100), DeliveryOutcome.COMPLETED),
    )
    text = gantt.draw([Span("split", seconds(5), deliveries), Span("late", None, ())], NOW, seconds(100), seconds(500))
    ET.fromstring(text)
    bars = re.findall(r'<rect class="(\S+ ?\S*)" x="([\d.]+)%" width="([\d.]+)%"', text)
    assert bars == [("waited", "5", "5"), ("delivery wait", "10", "20"), ("delivery ok", "50", "50")]
    assert "attempt 1 on n.demo.0.b: retried after 20.0 s: &lt;boom&gt;" in text


def test_a_running_delivery_reaches_the_end_and_the_picture_rarely_changes() -> None:
    spans = [Span("split", None, (Delivery(1, "n.demo.0.b", seconds(1)),))]
    drawn = {gantt.draw(spans, NOW, None, seconds(1000 + tick * 0.8)) for tick in range(20)}
    assert len(drawn) <= 3, "a picture that differs with every tick is sent with every tick"
    assert 'class="delivery busy"' in drawn.pop()


def test_a_delivery_that_took_no_time_has_a_bar() -> None:
    text = gantt.draw(
        [Span("a", None, (Delivery(1, "", None, NOW, DeliveryOutcome.COMPLETED),))], NOW, NOW, NOW + timedelta(1)
    )
    assert f'width="{gantt.MIN_WIDTH}%"' in text
    assert "an unknown engine" in text
