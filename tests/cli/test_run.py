from __future__ import annotations

import _thread
import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from edgespec.cli.main import cli
from edgespec.cli.run import CUT_SHORT
from edgespec.errors import BadInput
from tests.cli.conftest import Invoke, PressesCtrlC

PROMPT = "the river runs under the bridge and the river runs under the bridge and the river"


def answer(invoke: Invoke, *arguments: object, stdin: str = "") -> dict[str, Any]:
    """The JSON object, which must be all there is on stdout."""
    result = invoke("run", "--json", "--max-tokens", "40", *arguments, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 1
    parsed = json.loads(lines[0])
    assert isinstance(parsed, dict)
    return parsed


# -- where model and prompt come from ---------------------------------------------------------------------------


def test_the_ways_to_give_model_and_prompt_agree(
    invoke: Invoke, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "prompt.txt"
    written.write_text(PROMPT + "\n")
    expected = answer(invoke, toy, PROMPT)["token_ids"]
    assert answer(invoke, "--model", toy, PROMPT)["token_ids"] == expected
    assert answer(invoke, toy, "-", stdin=PROMPT + "\n")["token_ids"] == expected
    assert answer(invoke, toy, stdin=PROMPT + "\r\n")["token_ids"] == expected
    assert answer(invoke, "-m", toy, stdin=PROMPT)["token_ids"] == expected
    assert answer(invoke, toy, "--prompt-file", written)["token_ids"] == expected
    assert answer(invoke, "-m", toy, "--prompt-file", written)["token_ids"] == expected
    monkeypatch.setenv("EDGESPEC_MODEL", str(toy))
    assert answer(invoke, PROMPT)["token_ids"] == expected
    assert answer(invoke, "-", stdin=PROMPT)["token_ids"] == expected


def test_a_model_in_front_of_the_prompt_wins_over_the_environment(
    invoke: Invoke, toy: Path, other_toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answer(invoke, toy, PROMPT)["token_ids"]
    monkeypatch.setenv("EDGESPEC_MODEL", str(other_toy))
    assert answer(invoke, toy, PROMPT)["token_ids"] == expected
    assert answer(invoke, PROMPT)["token_ids"] != expected


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["a", "b", "c"], "3 arguments"),
        (["--model", "m", "a", "b"], "--model"),
        (["--prompt-file", "f", "a", "b"], "--prompt-file"),
        (["--model", "m", "--prompt-file", "f", "a"], "--model and --prompt-file"),
        (["--raw", "--system", "s", "a"], "--raw"),
    ],
)
def test_arguments_that_contradict_are_wrong_usage(invoke: Invoke, arguments: list[str], complaint: str) -> None:
    result = invoke("run", *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_an_empty_prompt_is_refused(invoke: Invoke, toy: Path) -> None:
    for result in (invoke("run", toy, "-", stdin="\n"), invoke("run", toy, "   ")):
        assert result.exit_code == 13
        assert "empty" in result.stderr


# -- what is printed --------------------------------------------------------------------------------------------


def test_the_text_ends_in_one_line_end_and_nothing_else_is_printed(invoke: Invoke, toy: Path) -> None:
    result = invoke("run", toy, PROMPT, "--max-tokens", "40", "--draft", "off", "--no-stats")
    assert result.stdout == answer(invoke, toy, PROMPT)["text"].rstrip("\n") + "\n"
    assert result.stderr == ""


def test_the_json_object_has_what_programs_rely_on(invoke: Invoke, toy: Path) -> None:
    got = answer(invoke, toy, PROMPT, "--seed", "7")
    assert set(got) == {"text", "token_ids", "finish_reason", "usage", "timings", "notices"}
    assert set(got["usage"]) == {"prompt_tokens", "completion_tokens"}
    assert set(got["timings"]) >= {
        *("prompt_seconds", "decode_seconds", "tokens_per_second", "first_token_seconds", "passes", "draft_n"),
        *("draft_n_accepted", "drafter", "exact", "width_class", "padded_rows", "cached_prompt_tokens", "seed"),
    }
    assert got["usage"]["completion_tokens"] == len(got["token_ids"]) == 40
    assert got["finish_reason"] == "length"
    assert got["timings"]["seed"] == 7


def test_log_probabilities_are_a_key_of_the_object_when_asked_for(invoke: Invoke, toy: Path) -> None:
    plain = answer(invoke, toy, PROMPT, "--exact", "--logprobs", "2", "--draft", "off")
    assert (
        answer(invoke, toy, PROMPT, "--exact", "--logprobs", "2", "--draft", "lookup")["logprobs"] == plain["logprobs"]
    )
    content = plain["logprobs"]["content"]
    assert b"".join(bytes(one["bytes"]) for one in content).decode("utf-8", "replace") == plain["text"]
    assert len(content) == len(plain["token_ids"]) == 40
    for one in content:  # greedy
        assert one["top_logprobs"][0]["logprob"] == one["logprob"]
        assert len(one["top_logprobs"]) == 2
    assert answer(invoke, toy, PROMPT, "--logprobs", "0")["logprobs"]["content"][0]["top_logprobs"] == []


def test_log_probabilities_need_the_object_and_a_number_that_can_be(invoke: Invoke, toy: Path) -> None:
    result = invoke("run", toy, PROMPT, "--logprobs", "2")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--json" in result.stderr
    result = invoke("run", toy, PROMPT, "--json", "--logprobs", "21")
    assert (result.exit_code, result.stdout) == (BadInput.exit_code, "")
    assert "--logprobs 21" in result.stderr


def test_notices_are_said_on_stderr_and_in_the_object(invoke: Invoke, base_toy: Path) -> None:
    result = invoke("run", base_toy, PROMPT, "--max-tokens", "5", "--json", "--draft", "off")
    (notice,) = json.loads(result.stdout)["notices"]
    assert notice["code"] == "no-chat-template"
    assert result.stderr == notice["message"] + "\n"


def test_the_line_about_speed_comes_when_asked_for(invoke: Invoke, toy: Path) -> None:
    assert "tok/s" in invoke("run", toy, PROMPT, "--max-tokens", "5", "--stats").stderr
    assert invoke("run", toy, PROMPT, "--max-tokens", "5", "--no-stats", "--draft", "off").stderr == ""


def test_an_answer_that_is_cut_says_so_where_nobody_watches(invoke: Invoke, toy: Path) -> None:
    result = invoke("run", toy, PROMPT, "--max-tokens", "5", "--draft", "off")
    assert (result.exit_code, result.stderr) == (0, "cut here after 5 tokens\n")


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_one_that_is_cut_before_its_form_is_complete_has_an_exit_code_of_its_own(
    invoke: Invoke, toy: Path, tmp_path: Path, as_json: tuple[str, ...]
) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}')
    result = invoke("run", toy, PROMPT, "--json-schema", schema, "--max-tokens", "3", *as_json)
    assert result.exit_code == CUT_SHORT


def test_a_model_that_was_not_measured_is_decoded_plainly_and_says_so(invoke: Invoke, toy: Path) -> None:
    result = invoke("run", toy, PROMPT, "--max-tokens", "5", "--json")
    (notice,) = json.loads(result.stdout)["notices"]
    assert notice["code"] == "not-tuned"
    assert "edgespec tune" in result.stderr


def test_accepted_guesses_are_tinted_only_with_color(
    invoke: Invoke, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = invoke("run", toy, PROMPT, "--max-tokens", "40").stdout
    predicted = tmp_path / "predicted.txt"
    predicted.write_text(plain, encoding="utf-8")
    arguments = ("run", toy, PROMPT, "--max-tokens", "40", "--predict", predicted)
    assert "\x1b[" not in invoke(*arguments).stdout
    assert "\x1b[36m" in invoke(*arguments, "--color").stdout
    assert "\x1b[" not in invoke(*arguments, "--no-color").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in invoke(*arguments, "--color").output


# -- Ctrl-C -----------------------------------------------------------------------------------------------------


LONG = ("--ctx-size", "4096", "--max-tokens", "4000")


def test_ctrl_c_keeps_what_came_and_says_so_by_the_exit_code(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = PressesCtrlC()
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", out)
        with pytest.raises(SystemExit) as left:
            cli.main(["run", str(toy), PROMPT, *LONG])
    assert left.value.code == 130
    text = out.getvalue()
    assert text.endswith("\n")
    assert len(text) > 1


def press_ctrl_c_once_an_answer_is_followed(over: threading.Event) -> None:
    while not over.wait(0.001):
        if "ctrl_c_cancels" in repr(signal.getsignal(signal.SIGINT)):
            _thread.interrupt_main()
            return


def test_ctrl_c_with_json_still_gives_an_object(invoke: Invoke, toy: Path) -> None:
    over = threading.Event()
    finger = threading.Thread(target=press_ctrl_c_once_an_answer_is_followed, args=(over,))
    finger.start()
    result = invoke("run", toy, PROMPT, "--json", *LONG)
    over.set()
    finger.join()
    assert result.exit_code == 130
    got = json.loads(result.stdout)
    assert got["finish_reason"] == "cancelled"
    assert got["usage"]["completion_tokens"] == len(got["token_ids"]) < 3000


# -- how it is answered -----------------------------------------------------------------------------------------


def test_a_seed_makes_answers_repeat(invoke: Invoke, toy: Path) -> None:
    warm = (toy, PROMPT, "--temperature", "0.9")
    first = answer(invoke, *warm, "--seed", "3")
    assert answer(invoke, *warm, "--seed", "3")["token_ids"] == first["token_ids"]
    assert answer(invoke, *warm, "--seed", "4")["token_ids"] != first["token_ids"]


def test_a_drawn_seed_is_shown_and_repeats_the_answer(invoke: Invoke, toy: Path) -> None:
    first = answer(invoke, toy, PROMPT, "--temperature", "0.9")
    second = answer(invoke, toy, PROMPT, "--temperature", "0.9")
    seed = first["timings"]["seed"]
    assert second["timings"]["seed"] != seed
    assert answer(invoke, toy, PROMPT, "--temperature", "0.9", "--seed", seed)["token_ids"] == first["token_ids"]


@pytest.mark.parametrize("temperature", ["0", "0.3"])
def test_exact_answers_do_not_depend_on_drafting(invoke: Invoke, toy: Path, tmp_path: Path, temperature: str) -> None:
    common = (toy, PROMPT, "--exact", "--seed", "11", "--temperature", temperature)
    plain = answer(invoke, *common, "--draft", "off")
    predicted = tmp_path / "predicted.txt"
    predicted.write_text(plain["text"], encoding="utf-8")
    drafted = answer(invoke, *common, "--draft", "lookup", "--predict", predicted)
    assert drafted["token_ids"] == plain["token_ids"]
    assert drafted["text"] == plain["text"]
    assert plain["timings"]["draft_n"] == 0
    assert drafted["timings"]["draft_n_accepted"] > 0
    assert plain["timings"]["width_class"] == drafted["timings"]["width_class"] != []


def test_raw_continues_the_text_and_a_base_model_does_so_by_itself(invoke: Invoke, toy: Path, base_toy: Path) -> None:
    raw = answer(invoke, toy, PROMPT, "--raw")
    assert raw["usage"]["prompt_tokens"] < answer(invoke, toy, PROMPT)["usage"]["prompt_tokens"]
    assert answer(invoke, base_toy, PROMPT)["token_ids"] == raw["token_ids"]
    assert answer(invoke, base_toy, PROMPT, "--template", "plain")["token_ids"] != raw["token_ids"]


def test_a_system_prompt_is_read_too(invoke: Invoke, toy: Path) -> None:
    plain = answer(invoke, toy, PROMPT)
    assert (
        answer(invoke, toy, PROMPT, "--system", "the dog")["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"]
    )


def test_an_answer_follows_a_schema_or_a_grammar(invoke: Invoke, toy: Path, tmp_path: Path) -> None:
    schema, grammar = tmp_path / "shape.json", tmp_path / "shape.lark"
    schema.write_text(
        '{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], '
        '"additionalProperties": false}'
    )
    grammar.write_text('start: "so be it"')
    said = answer(invoke, "--json-schema", schema, "--draft", "lookup", toy, PROMPT)
    assert json.loads(said["text"]) in ({"ok": True}, {"ok": False})
    assert said["finish_reason"] == "stop"
    assert answer(invoke, "--grammar", grammar, toy, PROMPT)["text"] == "so be it"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--json-schema", "none.json"], "none.json"),
        (["--json-schema", "bad.json"], "bad.json: it is no JSON"),
        (["--json-schema", "odd.json"], "odd.json: Invalid type"),
        (["--grammar", "bad.json", "--json-schema", "odd.json"], "give one"),
    ],
)
def test_a_shape_that_cannot_be_used_is_refused(
    invoke: Invoke, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], complaint: str
) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "odd.json").write_text('{"type": "objec"}')
    monkeypatch.chdir(tmp_path)
    result = invoke("run", *arguments, toy, PROMPT)
    assert result.exit_code == BadInput.exit_code
    assert complaint in result.stderr


def test_the_answer_ends_before_a_stop_text(invoke: Invoke, toy: Path) -> None:
    text = answer(invoke, toy, PROMPT)["text"]
    stop = next(word for word in text.split()[2:] if word.isascii() and len(word) > 2)
    got = answer(invoke, toy, PROMPT, "--stop", stop, "--stop", "never said")
    assert got["text"] == text[: text.index(stop)]
    assert got["finish_reason"] == "stop"


def test_the_settings_of_a_configuration_file_count(invoke: Invoke, toy: Path, config: Path) -> None:
    config.write_text('[run]\nmax_tokens = 3\nstop = "never said"\ndraft = "off"\n')
    result = invoke("run", toy, PROMPT, "--json")
    assert json.loads(result.stdout)["usage"]["completion_tokens"] == 3
    result = invoke("run", toy, PROMPT, "--json", "--max-tokens", "4")
    assert json.loads(result.stdout)["usage"]["completion_tokens"] == 4
