from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgespec.engine.pair.placing import Course, Placer
from edgespec.engine.pair.standings import BESIDE, IN_TURN, Standings

T1 = 0.1


def test_an_answer_begins_beside_the_draft_only_where_one_works_there() -> None:
    told: list[bool] = []
    placer = Placer(told.append, lambda _context: T1)
    assert placer.begin(exact=False, drafts=True) is not None
    assert placer.begin(exact=True, drafts=True) is None
    assert placer.begin(exact=False, drafts=False) is None
    assert Placer().begin(exact=False, drafts=True) is None
    assert placer.plain_seconds(5) == T1
    for may in (True, True, False, False, True):
        placer.work_ahead(may)
    assert told == [False, True]
    Placer().work_ahead(False)


def test_the_course_of_an_answer_is_that_of_its_drafter() -> None:
    courses = [Course(beside=False, way=IN_TURN), Course(beside=True)]
    placer = Placer(lambda _may: None, lambda _context: T1, iter(courses).__next__)
    assert placer.begin(exact=True, drafts=True) is None
    assert [placer.begin(exact=False, drafts=True) for _ in courses] == courses


def test_an_answer_in_turn_stays_so_and_its_rounds_are_told() -> None:
    standings = Standings("draft", {IN_TURN: 0.5, BESIDE: 0.6}, IN_TURN)
    course = Course(beside=False, way=IN_TURN, standings=standings)
    for _ in range(200):
        course.settle(0.01, 3, T1)
        assert not course.beside
    assert standings.cost(IN_TURN) < 0.1
    assert standings.cost(IN_TURN) < standings.cost(BESIDE) < 0.1


def test_plain_rounds_of_an_answer_beside_it_count_for_that_way() -> None:
    standings = Standings("draft", {IN_TURN: 0.5, BESIDE: 0.4}, BESIDE)
    course = Course(beside=True, standings=standings)
    for _ in range(300):
        course.settle(2 * T1 if course.beside else T1, 1, T1)
    assert not course.beside
    assert standings.cost(BESIDE) > 0.8
    assert standings.choose() is IN_TURN


def test_rounds_that_gain_go_on_beside_it() -> None:
    course = Course(beside=True)
    for _ in range(200):
        course.settle(0.15, 3, T1)
        assert course.beside


def test_rounds_that_lose_end_it_and_it_is_tried_again_later_each_time() -> None:
    course = Course(beside=True)
    spans: list[int] = []
    n_waited = n_beside = 0
    for _ in range(20_000):
        if course.beside and n_waited:
            spans.append(n_waited)
            n_waited = 0
        course.settle(2 * T1 if course.beside else T1, 1, T1)
        n_beside += course.beside
        n_waited += not course.beside
    assert spans[:3] == sorted(spans[:3])
    assert spans[0] >= 32
    # Each try may lose a little over one token, so the share of rounds that lose stays small.
    assert n_beside < 0.03 * 20_000


@given(st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(1, 8)), min_size=1, max_size=400))
def test_what_is_lost_stays_bounded(rounds: list[tuple[float, int]]) -> None:
    """At most 1 % of the time, one token and a bit, and one round's worth more, since that is known only afterwards."""
    course = Course(beside=True)
    lost = total = 0.0
    for seconds, n in rounds:
        was_beside = course.beside
        course.settle(seconds, n, T1)
        total += seconds
        if was_beside:
            lost = max(lost + seconds - n * T1, -16 * T1)
        assert lost <= 0.01 * total + 1.2 * T1 + 1.0
