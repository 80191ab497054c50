from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.spec.cost import CostTable
from edgespec.tune.decide import (
    SAME_SPEED,
    as_choices,
    best_chunk,
    cheapest_class,
    choose,
    clearly_slower,
    drafted_rate,
    finalists,
    refined,
    without_echoes,
)
from edgespec.tune.tuning import Tuned

WIDTHS = (1, 2, 4, 8)
OFF = LlamaSettings(n_threads=2)
ON = replace(OFF, flash_attention=FlashAttention.ON)
BARE = replace(OFF, extra_buffers=False)
BARE_ON = replace(ON, extra_buffers=False)
EVERYONE = (OFF, ON, BARE, BARE_ON)


def table(*plain: float, slope: float = 0.2) -> CostTable:
    """At contexts 100, 400, ...: a pass of n rows takes plain * (1 + slope * (n - 1))."""
    contexts = tuple(100 * 4**i for i in range(len(plain)))
    return CostTable(contexts, WIDTHS, tuple(tuple(one * (1 + slope * (n - 1)) for n in WIDTHS) for one in plain))


def test_clearly_slower() -> None:
    plain = {OFF: 0.010, ON: 0.0139, BARE: 0.0141}
    assert clearly_slower(plain, [OFF, ON, BARE]) == {BARE}
    assert clearly_slower(plain, [BARE]) == set()
    assert clearly_slower(plain, []) == set()
    assert clearly_slower({}, []) == set()


def test_finalists_are_close_to_the_fastest_somewhere() -> None:
    plain = {OFF: (0.012, 0.020), ON: (0.010, 0.030), BARE: (0.013, 0.026), BARE_ON: (0.0105,)}
    assert finalists(plain) == [OFF, ON, BARE_ON]
    assert finalists({ON: (0.010, 0.030), OFF: (0.0101, 0.020), BARE: (0.0099, 0.040)}) == [OFF, BARE, ON]
    assert finalists({}) == []
    assert finalists({OFF: ()}) == []


def test_auto_is_measured_where_it_stands_for_nothing_else() -> None:
    auto, bare_auto = (replace(one, flash_attention=FlashAttention.AUTO) for one in (OFF, BARE))
    assert without_echoes([auto, ON, bare_auto]) == [ON, bare_auto]
    on_gpu = [replace(one, n_gpu_layers=-1) for one in (auto, ON)]
    assert without_echoes(on_gpu) == on_gpu


def test_one_answer_where_one_fits() -> None:
    assert choose({OFF: table(0.0101, 0.020), ON: table(0.010, 0.030)}, (100, 400)) == [OFF, OFF]


def test_one_answer_per_context_where_none_fits_both() -> None:
    assert choose({OFF: table(0.012, 0.020), ON: table(0.010, 0.030)}, (100, 400)) == [ON, OFF]


def test_among_equally_fast_ones_the_flatter_curve_wins() -> None:
    steep, flat = table(0.0100, 0.0200, slope=0.5), table(0.0101, 0.0202, slope=0.1)
    assert choose({OFF: steep, ON: flat}, (100, 400)) == [ON, ON]
    assert choose({OFF: steep, ON: table(0.0104, 0.0208, slope=0.1)}, (100, 400)) == [OFF, OFF]


def test_what_needs_another_load_is_the_same_for_all_contexts() -> None:
    tables = {OFF: table(0.010, 0.030), BARE: table(0.015, 0.020), ON: table(0.0099, 0.040)}
    assert choose(tables, (100, 400)) == [
        BARE,
        BARE,
    ]  # 1.5 + 1.0 beats 1.0 + 1.5 for its flatter... equal sums: by rate
    assert choose({OFF: table(0.010, 0.025), BARE: table(0.015, 0.020)}, (100, 400)) == [OFF, OFF]


def test_a_table_that_lacks_a_context_is_not_chosen() -> None:
    assert choose({OFF: table(0.010), ON: table(0.011, 0.020)}, (100, 400)) == [ON, ON]
    assert choose({OFF: table(0.010)}, (100, 400)) == []
    assert choose({}, (100, 400)) == []


PLAINS = st.tuples(*[st.floats(0.005, 0.05)] * 2)


@given(st.dictionaries(st.sampled_from(EVERYONE), st.tuples(PLAINS, st.floats(0.0, 1.0)), min_size=1))
def test_chosen_ones_are_as_fast_as_any_that_load_the_same(
    drawn: dict[LlamaSettings, tuple[tuple[float, float], float]],
) -> None:
    tables = {one: table(*plain, slope=slope) for one, (plain, slope) in drawn.items()}
    chosen = choose(tables, (100, 400))
    assert len({one.extra_buffers for one in chosen}) == 1
    for i, one in enumerate(chosen):
        rivals = [other for other in tables if other.extra_buffers == one.extra_buffers]
        fastest = min(tables[other].seconds[i][0] for other in rivals)
        assert tables[one].seconds[i][0] <= SAME_SPEED * fastest * (1 + 1e-12)


def test_drafted_rate() -> None:
    assert drafted_rate([0.01, 0.01]) == pytest.approx(100.0)
    assert drafted_rate([0.01, 0.01, 0.02]) == pytest.approx(100.0)  # 1.6 tokens in two passes' time: not drafted
    assert drafted_rate([0.01, 0.01, 0.01]) == pytest.approx(160.0)
    assert drafted_rate([0.01, 0.01, 0.01, 0.01], acceptance=0.5) == pytest.approx(175.0)


def test_choices_meet_at_the_geometric_middle() -> None:
    one, other = Tuned(OFF, table(0.01, 0.02), table(0.01)), Tuned(ON, table(0.01, 0.02), table(0.01))
    assert [(choice.up_to, choice.tuned.settings) for choice in as_choices([one, other], (100, 400))] == [
        (200, OFF),
        (400, ON),
    ]
    assert [choice.up_to for choice in as_choices([one, one], (100, 400))] == [400]
    assert [choice.up_to for choice in as_choices([one], (100,))] == [100]


def test_refined_classes_are_equal_under_every_probe() -> None:
    first, second = ((2, 4, 8, 16), (1,), (3, 5)), ((1, 2, 4), (8, 16), (3,))
    assert refined([first, second]) == ((2, 4), (8, 16), (1,), (3,))
    assert refined([first]) == ((2, 4, 8, 16), (3, 5), (1,))
    assert refined([]) == ()


CLASSES = st.lists(st.integers(1, 4), min_size=8, max_size=8).map(
    lambda marks: tuple(tuple(i + 1 for i, mark in enumerate(marks) if mark == m) for m in sorted(set(marks)))
)


@given(CLASSES, CLASSES)
def test_refining_agrees_with_comparing_pairs(
    first: tuple[tuple[int, ...], ...], second: tuple[tuple[int, ...], ...]
) -> None:
    def together(classes: tuple[tuple[int, ...], ...], a: int, b: int) -> bool:
        return any(a in widths and b in widths for widths in classes)

    both = refined([first, second])
    for a in range(1, 9):
        for b in range(1, 9):
            assert together(both, a, b) == (together(first, a, b) and together(second, a, b))


def test_cheapest_class() -> None:
    flat = [0.0, 1.0, *[1.05] * 15]
    assert cheapest_class(((2, 4, 8, 16), (1,)), [flat]) == (2, 4, 8, 16)
    steep = [float(max(1, rows)) for rows in range(17)]
    assert cheapest_class(((2, 4, 8, 16), (1,)), [steep]) == (1,)
    assert cheapest_class(((2, 4, 8, 16), (1, 3)), [flat, flat, flat]) == (2, 4, 8, 16)
    assert cheapest_class((), [flat]) == ()
    assert cheapest_class(((32,), (1,)), [flat]) == (1,)  # 32 rows were not measured


def test_best_chunk() -> None:
    assert best_chunk({128: 1.04, 256: 1.02, 512: 1.0}) == 128
    assert best_chunk({128: 1.3, 256: 1.02, 512: 1.0}) == 256
    assert best_chunk({128: 1.3, 256: 1.2, 512: 1.0}) == 512
