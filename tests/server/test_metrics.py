from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from edgespec.server.metrics import BUCKETS_SECONDS, Histogram, Metrics
from tests.server.toy_completion import completion_of


@given(st.lists(st.floats(0, 300)))
def test_a_bucket_counts_all_up_to_its_end(observed: list[float]) -> None:
    histogram = Histogram()
    for seconds in observed:
        histogram.observe(seconds)
    samples = dict(line.rsplit(" ", 1) for line in histogram.lines("x"))
    for end in BUCKETS_SECONDS:
        assert int(samples[f'x_bucket{{le="{end!r}"}}']) == sum(seconds <= end for seconds in observed)
    assert int(samples['x_bucket{le="+Inf"}']) == int(samples["x_count"]) == len(observed)
    assert float(samples["x_sum"]) == sum(observed, 0.0)


def test_every_family_is_described_once_and_no_sample_twice() -> None:
    metrics = Metrics()
    metrics.finished(completion_of("ab"), waited_seconds=0.2)
    metrics.finished(completion_of("abc"), waited_seconds=0.0)
    metrics.failed()
    metrics.refused(429)
    lines = metrics.text(n_open=3).splitlines()
    samples = Counter(line.rpartition(" ")[0] for line in lines if not line.startswith("#"))
    assert set(samples.values()) == {1}
    described = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(set(described)) == len(described)
    assert all(name.partition("{")[0].startswith(tuple(described)) for name in samples)
    assert "edgespec_open_requests 3" in lines
    assert 'edgespec_answers_total{finish="stop"} 2' in lines
    assert 'edgespec_answers_total{finish="error"} 1' in lines
    assert 'edgespec_refusals_total{status="429"} 1' in lines
    assert "edgespec_completion_tokens_total 5" in lines
    assert 'edgespec_first_token_seconds_bucket{le="0.1"} 1' in lines
