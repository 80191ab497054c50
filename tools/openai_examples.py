"""Runs examples of OpenAI's Python client against `edgespec serve`, and writes a transcript of them.

    python tools/openai_examples.py --threads 1 --out docs/openai.md

The server is a child process on a free port. What stands in the transcript is the source of each example and what it
printed: nothing in it is written by hand. An example that fails ends the run.
"""

from __future__ import annotations

import inspect
import io
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Literal

import click
import openai
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec import __version__
from edgespec.errors import EngineFailure
from edgespec.records import write_atomically
from tools.asking import reported

MODEL = "local"  # any name will do: there is one model
ENDING_SECONDS = 10.0
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city, now.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Oslo", "Paris", "Rome"]}},
            "required": ["city"],
        },
    },
}
CODE = """def area(width, height):
    return width * height


def volume(width, height, depth):
    return area(width, height) * depth
"""


class Animal(BaseModel):
    kind: Literal["bird", "fish", "mammal"]
    legs: Literal[0, 2, 4]
    can_fly: bool


# -- the examples: each body is shown as it stands ------------------------------------------------------------------


def chat(client: OpenAI) -> None:
    """A chat"""
    completion = client.chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "system", "content": "Answer in one short sentence."},
            {"role": "user", "content": "What is the capital of France?"},
        ],
        max_tokens=30,
        temperature=0,
    )
    print(completion.choices[0].message.content)
    print(completion.choices[0].finish_reason, completion.usage and completion.usage.completion_tokens)


def stream(client: OpenAI) -> None:
    """A stream, with the usage at its end"""
    for chunk in client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Name three colours."}],
        max_tokens=24,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    ):
        if chunk.choices:
            print(chunk.choices[0].delta.content or "", end="")
        elif chunk.usage:
            print(f"\n{chunk.usage.prompt_tokens} + {chunk.usage.completion_tokens} tokens")


def stream_helper(client: OpenAI) -> None:
    """The client's own helper for streams"""
    with client.chat.completions.stream(
        model=MODEL, messages=[{"role": "user", "content": "Say hello."}], max_tokens=16, temperature=0
    ) as events:
        for event in events:
            if event.type == "content.delta":
                print(event.delta, end="|")


def tools(client: OpenAI) -> None:
    """Tools, there and back"""
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is the weather in Paris?"}]
    first = client.chat.completions.create(
        model=MODEL, messages=messages, tools=[WEATHER], tool_choice="required", max_tokens=60, temperature=0
    )
    (call,) = first.choices[0].message.tool_calls or []
    assert call.type == "function"
    print(first.choices[0].finish_reason, call.function.name, call.function.arguments)
    messages += [
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
            ],
        },
        {"role": "tool", "tool_call_id": call.id, "content": "It is sunny in Paris, 21 degrees."},
    ]
    second = client.chat.completions.create(
        model=MODEL, messages=messages, tools=[WEATHER], tool_choice="none", max_tokens=40, temperature=0
    )
    print(second.choices[0].message.content)


def json_schema(client: OpenAI) -> None:
    """An answer in the shape of a pydantic model"""
    completion = client.chat.completions.parse(
        model=MODEL,
        messages=[{"role": "user", "content": "Describe a sparrow."}],
        response_format=Animal,
        max_tokens=60,
        temperature=0,
    )
    print(completion.choices[0].message.content)
    print(repr(completion.choices[0].message.parsed))


def logprobs(client: OpenAI) -> None:
    """Log probabilities"""
    completion = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Is water wet? Say yes or no."}],
        max_tokens=4,
        temperature=0,
        logprobs=True,
        top_logprobs=3,
    )
    scored = completion.choices[0].logprobs
    for token in (scored and scored.content) or []:
        others = ", ".join(f"{other.token!r} {other.logprob:.2f}" for other in token.top_logprobs)
        print(f"{token.token!r} {token.logprob:.2f} among {others}")


def prediction(client: OpenAI) -> None:
    """A predicted answer, which is drafted from"""
    completion = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": f"Repeat this code, with `width` called `w`:\n\n```python\n{CODE}```"}],
        prediction={"type": "content", "content": CODE},
        max_tokens=80,
        temperature=0,
    )
    print(completion.choices[0].message.content)
    print(completion.usage and completion.usage.completion_tokens_details)


def text(client: OpenAI) -> None:
    """A text that is gone on with, and the numbers of its tokens"""
    completion = client.completions.create(
        model=MODEL,
        prompt="Once upon a time",
        max_tokens=12,
        temperature=0,
        stop=["."],
        extra_body={"edgespec": {"token_ids": True, "exact": True}},
    )
    print(completion.choices[0].text)
    print((completion.model_extra or {})["edgespec"]["token_ids"])


def errors(client: OpenAI) -> None:
    """What is wrong is an error of the client's own"""
    try:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}], temperature=-1)
    except openai.BadRequestError as error:
        print(type(error).__name__, error.status_code, error.param)
        print(error.message)


EXAMPLES: tuple[Callable[[OpenAI], None], ...] = (
    chat, stream, stream_helper, tools, json_schema, logprobs, prediction, text, errors,
)  # fmt: skip


# -- the transcript -------------------------------------------------------------------------------------------------


@contextmanager
def child(model: str | None, threads: int | None) -> Iterator[OpenAI]:
    """A client of a server that lives as long as this context. Raises EngineFailure when none begins."""
    command = [sys.executable, "-m", "edgespec", "serve", "--sidecar", *([model] if model else [])]
    command += ["--threads", str(threads)] if threads else []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            if not line:
                raise EngineFailure("the server", f"it ended with code {server.wait()}", "see what it said above")
            ready = json.loads(line)
            with OpenAI(base_url=f"{ready['url']}/v1", api_key=ready["key"], max_retries=0) as client:
                yield client
        finally:
            server.stdin.close()  # which ends it
            server.wait(ENDING_SECONDS)


def printed(example: Callable[[OpenAI], None], client: OpenAI) -> str:
    """Raises what the client raises."""
    said = io.StringIO()
    with redirect_stdout(said):
        example(client)
    return said.getvalue()


def body_of(example: Callable[[OpenAI], None]) -> str:
    """The source without its first line and its title."""
    _, _, rest = inspect.getsource(example).partition('"""')
    return textwrap.dedent(rest.partition('"""\n')[2])


def transcript(client: OpenAI) -> str:
    """All examples in Markdown. Raises what the client raises."""
    name = client.models.list().data[0].id
    parts = [
        "# OpenAI's Python client and edgespec",
        f"A transcript of `python tools/openai_examples.py`: openai {openai.__version__}, `edgespec serve`\n"
        f"{__version__} with {name}. Only `base_url` and `api_key` are other than with OpenAI.\n"
        "(The model is small: what it says is no more than an example.)",
        f"````python\n{shared()}````",
    ]
    for example in EXAMPLES:
        said = printed(example, client).rstrip("\n")
        parts.append(f"## {example.__doc__}\n\n````python\n{body_of(example)}````\n\nprints\n\n````text\n{said}\n````")
    return "\n\n".join(parts) + "\n"


def shared() -> str:
    """What the examples begin with."""
    begin = 'client = OpenAI(base_url="http://127.0.0.1:8317/v1", api_key="none")  # edgespec serve\n'
    given = f'MODEL = "{MODEL}"\nWEATHER = {json.dumps(WEATHER, indent=4)}\nCODE = """{CODE}"""\n'
    used = (
        "openai import OpenAI",
        "openai.types.chat import ChatCompletionMessageParam",
        "pydantic import BaseModel",
    )
    imports = "from typing import Literal\n\nimport openai\n" + "".join(f"from {one}\n" for one in used)
    return f"{imports}\n{begin}{given}\n\n{inspect.getsource(Animal)}"


@click.command()
@click.option("--model", help="as for 'edgespec serve'; the starter model when not given")
@click.option("--threads", type=click.IntRange(1), help="of the engine; all cores when not given")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="write it here instead of printing it")
def main(model: str | None, threads: int | None, out: Path | None) -> None:
    """Run all examples and show what they printed."""
    with reported(), child(model, threads) as client:
        written = transcript(client)
    if out is None:
        click.echo(written, nl=False)
    else:
        write_atomically(out, written)


if __name__ == "__main__":
    main()
