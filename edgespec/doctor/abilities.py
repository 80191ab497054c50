"""Causes in what was asked for, and in what model, settings and library can do. Pure functions of the facts."""

from __future__ import annotations

from edgespec.doctor.facts import Facts, Gpu
from edgespec.doctor.finding import Finding
from edgespec.spec.policy import Reason

# A draft of that many tokens is as long as most accepted ones.
USUAL_DRAFT = 7
# Answers up to this long never wait for a drafter that costs time.
SHORT_ANSWER = 3


def draft_off(facts: Facts) -> Finding | None:
    wishes = facts.wishes
    if wishes.draft == "off" and not wishes.has_prediction:
        evidence = f"draft = off, from {wishes.draft_from}"
        return Finding("draft-off", "drafting is switched off", evidence, "use '--draft auto'", True)
    if not wishes.off_for:
        return None
    return Finding(
        "draft-off",
        "drafting is switched off for some commands",
        f"draft = off {'; '.join(wishes.off_for)}",
        "remove that setting, or use '--draft auto'",
    )


def no_drafter(facts: Facts) -> Finding | None:
    if facts.drafters or facts.wishes.draft == "off":
        return None
    return Finding(
        Reason.NO_DRAFTER.value,
        "there is no drafter to ask",
        f"draft = {facts.wishes.draft}",
        "use '--draft auto', or give the expected text with --predict",
        True,
    )


def short_answer(facts: Facts) -> Finding | None:
    n = facts.wishes.max_tokens
    if n > SHORT_ANSWER:
        return None
    return Finding(
        Reason.SHORT_ANSWER.value,
        "the answer may not be long enough to draft for",
        f"--max-tokens {n}: room for {n - 1} drafted tokens, and none from a drafter that costs time",
        "allow longer answers; short ones are as fast as they get",
        n == 1,
    )


def context_full(facts: Facts) -> Finding | None:
    n_ctx = facts.settings.settings.n_ctx
    used = facts.asked.n_prompt + facts.asked.n_output if facts.asked else facts.wishes.context
    room = n_ctx - used
    if room >= USUAL_DRAFT:
        return None
    return Finding(
        Reason.LIMIT.value,
        "the context is nearly full, so there is no room for drafts",
        f"{used} of {n_ctx} tokens are used",
        "give a larger --ctx-size, or begin a new conversation",
        room <= 0,
    )


def no_rollback(facts: Facts) -> Finding | None:
    if facts.model.can_rollback:
        return None
    return Finding(
        Reason.NO_ROLLBACK.value,
        "the model keeps a running state, out of which rejected guesses cannot be taken again",
        f"architecture {facts.model.architecture}",
        "choose a model with plain attention (llama, qwen2, gemma3, ...); this one is decoded plainly",
        True,
    )


def windowed_exact(facts: Facts) -> Finding | None:
    if not (facts.wishes.exact and facts.settings.windowed and facts.model.sliding_window):
        return None
    return Finding(
        "windowed-exact",
        "in a small cache for sliding windows rejected guesses leave traces in the last bits, so exact answers are "
        "decoded plainly",
        f"a window of {facts.model.sliding_window} tokens, cached in a ring",
        "free some memory or give a smaller --ctx-size, so that the whole context is cached; or do without --exact",
        True,
    )


def narrow_class(facts: Facts) -> Finding | None:
    """Tuning keeps exact answers to the class that costs least, which may be one row: a price, not a lack of widths."""
    found, model = facts.width_class, facts.model
    if not facts.wishes.exact or found is None or max(found.widths) >= 1 + USUAL_DRAFT:
        return None
    if not model.can_rollback or windowed_exact(facts):  # that is why, then
        return None
    widest = max(found.widths)
    why = next((one.message for one in (facts.asked.notices if facts.asked else ()) if one.code == "no-probe"), "")
    if found.is_cheapest:
        why = "exact answers keep to the class of pass widths that costs them least, and that is a narrow one"
    said = f"widths {', '.join(map(str, found.widths))}: at most {widest - 1} drafted tokens in a pass"
    if found.widths == (1,) and found.pair_ratio is not None:
        said = (
            "passes of 1 row, without drafts; in any other class each round takes 2 rows or more, and 2 rows take "
            f"{found.pair_ratio:.2f} times as long as 1"
        )
    return Finding(
        "narrow-class",
        why or "few pass widths give the same bits, and exact answers must stay inside such a class",
        said,
        "leave out --exact to draft: with it not even a predicted text is drafted"
        if widest == 1
        else "leave out --exact to draft more",
        widest == 1,
    )


def settings_died(facts: Facts) -> Finding | None:
    """In the trial at the start, or in tuning, where these settings died with extra buffers. Where they did not die
    they were slower, which is nothing to mend.
    """
    used = facts.settings.settings
    notice = next((one.message for one in facts.settings.notices if one.code == "settings-died"), "")
    if not notice and not facts.settings.twin_died:
        return None
    layers = f"{used.n_gpu_layers} layers on the GPU" if used.n_gpu_layers >= 0 else "all layers on the GPU"
    died = facts.settings.twin_died or "a trial in a child process died"
    return Finding(
        "settings-died",
        notice or "this build of llama.cpp crashes with faster settings, so edgespec goes on without",
        f"{died}; now extra buffers are {'on' if used.extra_buffers else 'off'}, {layers}",
        "rebuild llama-cpp-python as the README says under 'Building llama.cpp'",
    )


def windowed_cache(facts: Facts) -> Finding | None:
    if not any(one.code == "windowed-cache" for one in facts.settings.notices):
        return None
    return Finding(
        "windowed-cache",
        "memory is short, so sliding windows get a small cache: drafts are single chains, and going back may mean "
        "reading again",
        f"{facts.machine.free_bytes / 1e9:.1f} GB free, a context of {facts.settings.settings.n_ctx} tokens",
        "close other programs, or give a smaller --ctx-size",
    )


def no_gpu_device(facts: Facts) -> Finding | None:
    if facts.machine.gpu is not Gpu.NO_DEVICE:
        return None
    return Finding(
        "no-gpu-device",
        "the library was built for a GPU and finds none, so everything runs on the CPU",
        f"library {facts.machine.library}",
        "check the GPU's driver, and that this user may use it",
    )
