from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel
from edgespec.draft.jacobi import JacobiDrafter
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Capabilities, Plan
from edgespec.spec.tree import is_chain, n_pinned
from tests.draft.decoding import decode
from tests.draft.fake import prompt_of
from tests.spec.plain_decoding import Asked, plain_fast

N_VOCAB = 9
ROOMY = Capabilities(n_ctx=300, n_vocab=N_VOCAB, max_rows=80, max_chunk=16, max_leaves=16, can_rollback=True)
N = 12

models = st.builds(ToyModel, n_vocab=st.just(N_VOCAB), order=st.integers(1, 3), seed=st.integers(0, 10**6))
prompts = st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=8)


def best(model: ToyModel, text: list[int]) -> int:
    return int(model.logits(text).argmax())


def fixed_point(model: ToyModel, prompt: list[int], guesses: list[int]) -> list[list[int]]:
    """Jacobi's iteration as it is defined, without rounds or windows: all guesses of every step, the last repeats."""
    steps = [guesses]
    while len(steps) < 2 or steps[-1] != steps[-2]:
        steps.append([best(model, [*prompt, *steps[-1][:i]]) for i in range(len(guesses))])
    return steps


def n_right(guesses: list[int], truth: tuple[int, ...]) -> int:
    return next((i for i, (one, other) in enumerate(zip(guesses, truth, strict=True)) if one != other), len(truth))


@settings(deadline=None)
@given(models, prompts, st.lists(st.integers(0, N_VOCAB - 1), min_size=N, max_size=N))
def test_the_fixed_point_is_the_greedy_text(model: ToyModel, prompt: list[int], guesses: list[int]) -> None:
    truth = plain_fast(model, Asked(tuple(prompt), SamplingSettings(), N)).output
    steps = fixed_point(model, prompt, guesses)
    assert tuple(steps[-1]) == truth
    right = [n_right(step, truth) for step in steps]
    assert right == sorted(right)
    assert all(found >= min(n, N) for n, found in enumerate(right))
    assert len(steps) - 2 <= N


@settings(deadline=None)
@given(models, prompts)
def test_the_drafter_iterates_as_defined_and_ends_at_the_fixed_point(model: ToyModel, prompt: list[int]) -> None:
    """Round for round the guesses of the plain iteration, of which what is right has already been said."""
    asked = Asked(tuple(prompt), SamplingSettings(), N)
    truth = plain_fast(model, asked).output
    drafter = JacobiDrafter(N)
    drafter.begin(0, prompt_of(prompt))
    steps = fixed_point(model, prompt, [column[0] for column in drafter.guesses(0)])
    decoded = decode(model, ROOMY, asked, (drafter,), FixedPolicy(max_nodes=N, max_leaves=1))
    assert decoded.plain.output == truth
    assert len(decoded.reports) <= N
    n_said = 0
    for number, report in enumerate(decoded.reports):
        step = steps[min(number, len(steps) - 1)]
        # One token is the target's own: no guess is needed for the last place.
        assert list(report.tree_tokens) == step[n_said : N - 1]
        n_said += len(report.tokens)
        assert n_said >= min(N, n_right(step, truth) + 1)


def test_all_its_nodes_are_pinned_and_one_branch() -> None:
    drafter = JacobiDrafter(5)
    drafter.begin(0, prompt_of([1, 2]))
    tree = drafter.propose(0, Plan(20, 8))
    assert is_chain(tree)
    assert (len(tree), n_pinned(tree), drafter.name) == (5, 5, "jacobi")
    assert len(drafter.propose(0, Plan(3, 1))) == 3


def test_it_takes_fewer_passes_than_tokens_where_guesses_fall_into_step() -> None:
    """A text that looks back two tokens only: guesses behind a wrong one come right before it does."""
    model = ToyModel(n_vocab=N_VOCAB, order=2, seed=5)
    asked = Asked((1, 2, 3), SamplingSettings(), 60)
    decoded = decode(model, ROOMY, asked, (JacobiDrafter(8),), FixedPolicy(max_nodes=8, max_leaves=1))
    assert decoded.plain == plain_fast(model, asked)
    assert len(set(decoded.plain.output)) > 5
    assert decoded.tokens_per_pass > 1.5
