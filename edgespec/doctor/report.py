"""What the doctor says: lines for people, an object for programs. Both from the same facts and findings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import asdict

from edgespec.backend.settings import LlamaSettings
from edgespec.doctor.facts import (
    AskedFacts,
    ChoiceFacts,
    Curve,
    DrafterFacts,
    Expected,
    Facts,
    Gpu,
    Origin,
    SecondFacts,
    SettingsFacts,
    expected,
)
from edgespec.doctor.finding import Finding
from edgespec.engine.pace import PaceStatus
from edgespec.library.units import readable_bytes, readable_count
from edgespec.spec.predict import BreakEven
from edgespec.tune.words import in_words

# What a command without drafting is called; also a choice of --draft.
OFF = "off"
_NAMES = {"given": "predicted text", "lookup": "lookup", "suffix": "suffix", "recycle": "recycling"}
_LABEL_WIDTH = 10


def chosen(facts: Facts, found: Seq[Finding]) -> str:
    """The drafter that is asked first, "off" if nothing will be drafted."""
    stopped = any(one.stops for one in found)
    return OFF if stopped or not facts.drafters else facts.drafters[0].name


# -- for programs ---------------------------------------------------------------------------------------------------


def to_fields(facts: Facts, found: Seq[Finding]) -> dict[str, object]:
    """Programs may rely on these keys."""
    return {
        "drafter": chosen(facts, found),
        "reasons": [_reason(one) for one in found],
        "model": asdict(facts.model),
        "machine": {**asdict(facts.machine), "gpu": facts.machine.gpu.value},
        "settings": _settings_fields(facts.settings),
        "choices": [{"up_to": one.up_to, "settings": _plain_settings(one.settings)} for one in facts.settings.choices],
        "table": _table_fields(facts.curve) if facts.curve else None,
        "break_even": [
            {"rows": one.rows, "cost_ratio": one.cost_ratio, "acceptance": _finite(one.acceptance)}
            for one in (facts.curve.break_even if facts.curve else ())
        ],
        "drafters": [_drafter_fields(one, facts.curve) for one in facts.drafters],
        "exact": facts.wishes.exact,
        "width_class": facts.width_class.widths if facts.width_class else None,
        "second": asdict(facts.second) if facts.second else None,
        "load": facts.load,
        "ledger": asdict(facts.ledger) if facts.ledger else None,
        "pace": asdict(facts.pace) if facts.pace else None,
        "asked": _asked_fields(facts.asked) if facts.asked else None,
    }


def _reason(one: Finding) -> dict[str, object]:
    return {
        "code": one.code,
        "message": one.message,
        "evidence": one.evidence,
        "remedy": one.remedy,
        "stops_drafting": one.stops,
    }


def _settings_fields(facts: SettingsFacts) -> dict[str, object]:
    return {
        **_plain_settings(facts.settings),
        "origin": facts.origin.value,
        "forced": facts.forced,
        "measured_on": facts.measured_on or None,
        "plain_speedup_over_defaults": facts.speedup.factor if facts.speedup else None,
        "died": facts.died,
        "cut_short": facts.cut_short,
        "notices": [asdict(one) for one in facts.notices],
    }


def _plain_settings(one: LlamaSettings) -> dict[str, object]:
    return {**asdict(one), "flash_attention": one.flash_attention.value, "kv_type": one.kv_type.value}


def _table_fields(curve: Curve) -> dict[str, object]:
    return {
        "context": curve.context,
        "partial": curve.is_partial,
        "seconds": {str(width): seconds for width, seconds in zip(curve.widths, curve.seconds, strict=True)},
    }


def _drafter_fields(one: DrafterFacts, curve: Curve | None) -> dict[str, object]:
    found = expected(one, curve) if curve else None
    return {
        "name": one.name,
        "acceptance": one.acceptance,
        "observed": one.is_observed,
        "steps": one.n_steps,
        "rows": found.rows if found else None,
        "tokens_per_pass": found.tokens_per_pass if found else None,
        "speedup": found.speedup if found else None,
    }


def _asked_fields(asked: AskedFacts) -> dict[str, object]:
    return {
        "prompt_tokens": asked.n_prompt,
        "completion_tokens": asked.n_output,
        "drafted": asked.n_drafted,
        "accepted": asked.n_accepted,
        "tokens_per_second": asked.tokens_per_second,
        "rounds": {reason.value: n for reason, n in asked.rounds},
        "settings": _plain_settings(asked.settings) if asked.settings else None,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# -- for people -----------------------------------------------------------------------------------------------------


def to_lines(facts: Facts, found: Seq[Finding]) -> list[str]:
    lines = [f"{label:<{_LABEL_WIDTH}}{text}" for label, text in _rows(facts, found)]
    if facts.curve is not None:
        lines += ["", *_table_lines(facts.curve, facts.wishes.exact and facts.width_class is not None)]
    if found:
        lines += ["", "what keeps it from drafting more:"]
        for one in found:
            lines += [f"  {one.code}: {one.message}", f"      {one.evidence}", f"      -> {one.remedy}"]
    return lines


def _rows(facts: Facts, found: Seq[Finding]) -> Iterator[tuple[str, str]]:
    model, machine = facts.model, facts.machine
    parts = [model.name, model.quantisation, model.architecture, f"{readable_count(model.n_parameters)} parameters"]
    yield "model", ", ".join([*filter(None, parts), f"{readable_bytes(model.n_bytes)} of weights"])
    yield "", model.path
    others = "unknown" if machine.others is None else f"{machine.others:.1f} of {machine.n_cores} cores"
    yield "machine", f"{machine.description}; {readable_bytes(machine.free_bytes)} free; taken by others: {others}"
    yield "library", f"{machine.library}, {_gpu(machine.gpu)}"
    by_length = len(facts.settings.choices) > 1
    length = f"for a text of {facts.wishes.context} tokens: " if by_length else ""
    yield "settings", length + _settings(facts.settings.settings)
    yield "", _origin(facts.settings)
    if by_length:
        yield from _choice_rows(facts.settings.choices)
    if facts.wishes.exact:
        yield "exact", _exact(facts)
    yield "drafter", _choice(facts, found)
    for one in facts.drafters:
        yield "", f"{_NAMES.get(one.name, one.name)}: {_prospect(one, facts.curve)}"
    if facts.second is not None:
        yield "second", _second(facts.second)
    if facts.load is not None:
        yield "load", f"passes take {facts.load:.2f} times as long as when they were measured"
    if facts.ledger is not None:
        yield (
            "ledger",
            (
                f"{facts.ledger.lost_seconds * 1e3:+.0f} ms lost to drafting so far, "
                f"{facts.ledger.headroom_seconds * 1e3:.0f} ms may be risked"
            ),
        )
    if facts.pace is not None:
        yield "threads", _pace(facts.pace)
    if facts.asked is not None:
        yield from _asked_rows(facts.asked, facts.settings.settings)


def _gpu(gpu: Gpu) -> str:
    return {
        Gpu.NONE: "built for the CPU",
        Gpu.USED: "on the GPU",
        Gpu.UNUSED: "a GPU is there and not used",
        Gpu.NO_DEVICE: "built for a GPU, none found",
    }[gpu]


def _settings(one: LlamaSettings) -> str:
    threads = f"{one.n_threads} thread{'s' * (one.n_threads != 1)}"
    return ", ".join(
        [
            threads if one.batch_threads == one.n_threads else f"{threads} ({one.batch_threads} for wider passes)",
            f"flash attention {one.flash_attention.value}",
            f"extra buffers {'on' if one.extra_buffers else 'off'}",
            f"KV cache {one.kv_type.value}",
            f"context {one.n_ctx}",
            *([f"GPU layers {'all' if one.n_gpu_layers < 0 else one.n_gpu_layers}"] if one.n_gpu_layers else []),
        ]
    )


def _origin(facts: SettingsFacts) -> str:
    forced = f"; forced: {', '.join(facts.forced)}" if facts.forced else ""
    if facts.origin is Origin.TUNED:
        found = facts.speedup
        gain = (
            f", {found.factor:.2f} times as fast as the library's defaults at {found.context} tokens" if found else ""
        )
        return f"tuned on {facts.measured_at}: {facts.n_tried} settings tried{gain}{forced}"
    if facts.measured_on:
        return f"not those of the tuning of {facts.measured_at}, which do not run here now{forced}"
    return f"not tuned yet: safe settings, proven in a child process{forced}"


def _choice_rows(choices: Seq[ChoiceFacts]) -> Iterator[tuple[str, str]]:
    """The text's length decides when its answer begins."""
    label = "by length"
    for one in choices:
        length = f"up to {one.up_to} tokens" if one.up_to is not None else "above"
        yield label, f"{length}: {in_words(one.settings)}"
        label = ""


def _exact(facts: Facts) -> str:
    found = facts.width_class
    if found is None:
        return "to which widths its passes keep is found at the first exact answer; the table shows all of them"
    if max(found.widths) == 1:
        return "passes of 1 row, which is plain decoding"
    return f"passes of {', '.join(map(str, found.widths))} rows, which give the same bits"


def _pace(pace: PaceStatus) -> str:
    taken = "" if pace.taken is None else f"others took {pace.taken:.1f} of {pace.n_cores} cores; "
    return (
        f"{pace.n_threads} of {pace.n_wanted} at the end; {taken}"
        f"steps down: {pace.n_steps_down}, passes given up: {pace.n_aborted}"
    )


def _choice(facts: Facts, found: Seq[Finding]) -> str:
    name = chosen(facts, found)
    if name != OFF:
        return f"{_NAMES.get(name, name)}, wherever it pays"
    codes = ", ".join(one.code for one in found if one.stops)
    return f"off: plain decoding ({codes or 'no drafter'})"


def _second(second: SecondFacts) -> str:
    if not second.placement:
        return f"{second.name}: not measured beside this model yet; it runs {second.home}"
    given = f"{second.speedup:.2f}x plain decoding expected at {second.acceptance:.0%} acceptance"
    return f"{second.name}: {second.placement}, {second.home}; {given}"


def _prospect(one: DrafterFacts, curve: Curve | None) -> str:
    source = f"observed over {one.n_steps} tokens" if one.is_observed else "assumed"
    said = f"acceptance {one.acceptance:.0%} ({source})"
    return f"{said}, {_gain(expected(one, curve), curve.easiest)}" if curve else said


def _gain(found: Expected, easiest: BreakEven | None) -> str:
    if found.rows == 1:
        pays = easiest is not None and easiest.acceptance < 1.0
        surer = f"; it drafts only where it is surer than {easiest.acceptance:.0%}" if easiest and pays else ""
        return "at which plain decoding is fastest" + surer
    return f"{found.tokens_per_pass:.2f} tokens per pass of {found.rows} rows, {found.speedup:.2f} times plain decoding"


def _asked_rows(asked: AskedFacts, shown: LlamaSettings) -> Iterator[tuple[str, str]]:
    yield (
        "answer",
        (
            f"{asked.n_prompt} tokens of prompt, {asked.n_output} of answer, {asked.tokens_per_second:.1f} tok/s, "
            f"{asked.n_accepted} of {asked.n_drafted} drafted tokens accepted"
        ),
    )
    if asked.settings is not None and asked.settings != shown:
        yield "", f"it ran with other settings, for its own length: {in_words(asked.settings)}"
    if asked.rounds:
        yield "", "rounds: " + ", ".join(f"{reason.value} {n}" for reason, n in asked.rounds)


def _table_lines(curve: Curve, is_class: bool) -> Iterator[str]:
    inside = ", inside the class of exact widths" if is_class else ""
    partial = " (partial)" if curve.is_partial else ""
    yield f"a pass at {curve.context} tokens of context{inside}{partial}"
    yield f"{'rows':>6}{'ms':>10}{'x plain':>10}   pays from"
    needed = {one.rows: one.acceptance for one in curve.break_even}
    ratios = {one.rows: one.cost_ratio for one in curve.break_even}
    for width, seconds in zip(curve.widths, curve.seconds, strict=True):
        line = f"{width:>6}{seconds * 1e3:>10.2f}{ratios.get(width, 1.0):>10.2f}"
        yield f"{line}   {_needed(needed[width])}" if width in needed else line


def _needed(acceptance: float) -> str:
    return f"{acceptance:.0%} acceptance" if acceptance < 1.0 else "never"
