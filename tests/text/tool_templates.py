"""Chat templates that know tools, each in one of the forms that models are trained in."""

from __future__ import annotations

_TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls or [] %}CALL{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_OPENING = "{% if tools %}<|im_start|>system\nFunctions:{% for t in tools %}\n{{ t | tojson }}{% endfor %}<|im_end|>\n"


def _template(call: str) -> str:
    return _OPENING + "{% endif %}" + _TURNS.replace("CALL", call)


TAGGED = _template(
    '\n<tool_call>\n{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n'
    "</tool_call>"
)
PARAMETERS = _template('{"name": "{{ call.function.name }}", "parameters": {{ call.function.arguments | tojson }}}')
BARE = _template("{{ call.function | tojson }}")
LISTED = _template(
    '[{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}, '
    '"id": "{% if call.id | length != 9 %}{{ raise_exception("an id has nine characters") }}{% endif %}{{ call.id }}"}]'
)
# Its calls are no JSON, so the model could not be understood.
STRANGE = _template("<function={{ call.function.name }}>{{ call.function.arguments | tojson }}</function>")
# It shows no results.
DEAF = TAGGED.replace("{{ m.content }}", "{% if m.role != 'tool' %}{{ m.content }}{% endif %}")
# It shows no tools.
BLIND = TAGGED.removeprefix(_OPENING + "{% endif %}")
