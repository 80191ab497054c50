from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.settings import SPLIT, FlashAttention, KvType
from edgespec.tune.grid import Site, candidates, defaults_among, is_allowed, library_defaults
from edgespec.tune.sheet import opening_of
from edgespec.tune.store import Forced

SMALL = Site(cores=2, usable=2, logical=2, has_gpu=False, n_ctx=1024)
LARGE = Site(cores=8, usable=16, logical=16, has_gpu=True, n_ctx=1024)
NOTHING = Forced()
FORCED = st.builds(
    Forced,
    threads=st.sampled_from([None, 1, 3]),
    extra_buffers=st.sampled_from([None, True, False]),
    gpu_layers=st.sampled_from([None, 0, -1, 7]),
    kv_type=st.sampled_from([None, *KvType]),
)


def test_on_two_cores() -> None:
    tried = candidates(SMALL, Forced())
    assert len(tried) == len(set(tried)) == 19  # 3 (threads) x 3 (flash attention) x 2 (extra buffers) + q8_0
    assert {(one.n_threads, one.batch_threads) for one in tried} == {(1, 1), (1, 2), (2, 2)}
    assert {one.flash_attention for one in tried} == set(FlashAttention)
    assert {one.n_gpu_layers for one in tried} == {0}
    assert [one.kv_type for one in tried].count(KvType.Q8_0) == 1
    assert tried[-1].kv_type is KvType.Q8_0
    assert (tried[0].n_threads, tried[0].extra_buffers) == (2, True)


def test_on_many_cores_and_a_gpu() -> None:
    tried = candidates(LARGE, Forced())
    assert {one.n_threads for one in tried} == {1, 4, 8, 16}
    assert all(one.batch_threads >= one.n_threads for one in tried)
    assert {one.n_gpu_layers for one in tried} == {0, -1}
    assert tried[0].n_gpu_layers == -1


def test_no_more_threads_than_may_run_at_a_time_but_for_the_librarys_defaults() -> None:
    """Two cores of sixteen, by affinity or by a container's quota."""
    site = Site(cores=2, usable=2, logical=16, has_gpu=False, n_ctx=1024)
    usual = library_defaults(site)
    assert (usual.n_threads, usual.batch_threads) == (8, 16)
    others = [one for one in candidates(site, Forced()) if one != usual]
    assert max(one.batch_threads for one in others) == 2
    assert usual in candidates(site, Forced())


@pytest.mark.parametrize(("logical", "threads"), [(1, (1, 1)), (2, (1, 2)), (16, (8, 16))])
def test_defaults_of_the_library(logical: int, threads: tuple[int, int]) -> None:
    site = replace(SMALL, cores=1, logical=logical)
    usual = library_defaults(site)
    assert (usual.n_threads, usual.batch_threads) == threads
    assert (usual.flash_attention, usual.extra_buffers, usual.n_gpu_layers) == (FlashAttention.OFF, True, 0)
    assert defaults_among(candidates(site, Forced()), site) in candidates(site, Forced())


@given(FORCED, st.sampled_from([SMALL, LARGE]))
def test_what_is_forced_holds_for_all_that_may_be_chosen(forced: Forced, site: Site) -> None:
    tried = candidates(site, forced)
    allowed = [one for one in tried if is_allowed(one, forced)]
    assert allowed
    assert tried[0] in allowed
    for one in allowed:
        assert forced.threads in (None, one.n_threads)
        assert forced.threads in (None, one.batch_threads)
        assert forced.extra_buffers in (None, one.extra_buffers)
        assert forced.gpu_layers in (None, one.n_gpu_layers)
        assert one.kv_type is (forced.kv_type or KvType.F16)
    assert defaults_among(tried, site) in tried
    # What may not be chosen is there to be compared with: the defaults, and one quantised cache.
    assert len(tried) - len(allowed) <= 2
    assert len({opening_of(one) for one in tried}) <= 14


# -- where there are GPUs ---------------------------------------------------------------------------------------------


def placements(site: Site, forced: Forced = NOTHING) -> list[tuple[int, int]]:
    """(layers, main GPU) in the order in which they are opened."""
    usual = library_defaults(site)
    opened = [one for one in candidates(site, forced) if one.n_gpu_layers or one != usual]
    return list(dict.fromkeys((one.n_gpu_layers, one.main_gpu) for one in opened if one.kv_type is KvType.F16))


def with_gpus(*gigabytes: int, needed: int = 4, n_layers: int = 32) -> Site:
    return replace(LARGE, gpu_bytes=tuple(g << 30 for g in gigabytes), needed_bytes=needed << 30, n_layers=n_layers)


@pytest.mark.parametrize(
    ("gigabytes", "expected"),
    [
        ((), [(-1, SPLIT), (0, SPLIT)]),  # nothing is known
        ((8,), [(-1, SPLIT), (0, SPLIT)]),
        ((2,), [(14, SPLIT), (-1, SPLIT), (0, SPLIT)]),  # 0.9 * 2 of 4 GB are 14.4 of 32 layers
        ((0,), [(-1, SPLIT), (0, SPLIT)]),
        ((8, 24), [(-1, 1), (-1, 0), (-1, SPLIT), (0, SPLIT)]),  # the one with most memory first
        ((2, 24), [(-1, 1), (-1, SPLIT), (0, SPLIT)]),  # only one of them holds it
        ((3, 3), [(-1, SPLIT), (0, SPLIT)]),  # both together do
        ((1, 1), [(14, SPLIT), (-1, SPLIT), (0, SPLIT)]),
        ((8, 9, 10, 11), [(-1, 3), (-1, 2), (-1, SPLIT), (0, SPLIT)]),
    ],
)
def test_gpus_are_tried_alone_and_together_as_far_as_they_hold_the_model(
    gigabytes: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    assert placements(with_gpus(*gigabytes)) == expected


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (0, [(0, SPLIT)]),
        (-1, [(-1, 1), (-1, SPLIT)]),
        (7, [(7, 1), (7, 0), (7, SPLIT)]),  # 7 of 32 layers fit on either
        (99, [(99, 1), (99, SPLIT)]),
    ],
)
def test_layers_that_are_forced_leave_the_choice_of_gpus(layers: int, expected: list[tuple[int, int]]) -> None:
    assert placements(with_gpus(2, 24), Forced(gpu_layers=layers)) == expected


def test_beside_the_first_placement_the_others_are_opened_in_the_librarys_own_way_only() -> None:
    openings = {opening_of(one) for one in candidates(with_gpus(8, 24), Forced()) if one.n_gpu_layers}
    assert {one.flash_attention for one in openings if one.main_gpu != 1} == {FlashAttention.AUTO}
    assert len([one for one in openings if one.main_gpu != 1 and one.kv_type is KvType.F16]) == 2
    assert len([one for one in openings if one.main_gpu == 1 and one.kv_type is KvType.F16]) == 6


@pytest.mark.parametrize("site", [LARGE, with_gpus(2), with_gpus(8, 24)])
def test_gpus_come_before_the_cpu_and_so_before_the_librarys_defaults(site: Site) -> None:
    tried = candidates(site, Forced(threads=3))
    usual = defaults_among(tried, site)
    assert all(one.n_gpu_layers for one in tried[: tried.index(usual)])
    assert all(not one.n_gpu_layers for one in tried[tried.index(usual) : -1])
