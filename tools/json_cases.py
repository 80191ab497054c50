"""What JSON answers are asked for in measurements: ten shapes with a question for each, and the topics to fill in.

Contract: every shape gives its JSON schema and tells by itself, without the schema, whether a value has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgespec.bench.report import Json


@dataclass(frozen=True, slots=True)
class Text:
    """1 to `longest` characters; or a whole that fits `pattern`, a regular expression without anchors."""

    longest: int = 0
    pattern: str = ""

    def schema(self) -> dict[str, Json]:
        if self.pattern:
            return {"type": "string", "pattern": f"^{self.pattern}$"}
        return {"type": "string", "minLength": 1, "maxLength": self.longest}

    def allows(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        return re.fullmatch(self.pattern, value) is not None if self.pattern else 1 <= len(value) <= self.longest


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from low to high."""

    low: int
    high: int

    def schema(self) -> dict[str, Json]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}

    def allows(self, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Flag:
    def schema(self) -> dict[str, Json]:
        return {"type": "boolean"}

    def allows(self, value: object) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class OneOf:
    names: tuple[str, ...]

    def schema(self) -> dict[str, Json]:
        return {"enum": list(self.names)}

    def allows(self, value: object) -> bool:
        return value in self.names


@dataclass(frozen=True, slots=True)
class Some:
    """An array of `least` to `most` items."""

    item: Shape
    least: int
    most: int

    def schema(self) -> dict[str, Json]:
        return {"type": "array", "items": self.item.schema(), "minItems": self.least, "maxItems": self.most}

    def allows(self, value: object) -> bool:
        if not isinstance(value, list) or not self.least <= len(value) <= self.most:
            return False
        return all(map(self.item.allows, value))


@dataclass(frozen=True, slots=True)
class Record:
    """An object with just these fields."""

    fields: Mapping[str, Shape]

    def schema(self) -> dict[str, Json]:
        properties: dict[str, Json] = {name: shape.schema() for name, shape in self.fields.items()}
        return {
            "type": "object",
            "properties": properties,
            "required": list(self.fields),
            "additionalProperties": False,
        }

    def allows(self, value: object) -> bool:
        if not isinstance(value, dict) or set(value) != set(self.fields):
            return False
        return all(shape.allows(value[name]) for name, shape in self.fields.items())


Shape = Text | Whole | Flag | OneOf | Some | Record


@dataclass(frozen=True, slots=True)
class Case:
    """question: with {} for a topic."""

    name: str
    question: str
    shape: Record

    def is_valid(self, text: str) -> bool:
        """Whether the text is JSON of this shape."""
        try:
            return self.shape.allows(json.loads(text))
        except ValueError:
            return False


CASES = (
    Case(
        "person",
        "Describe the person {} as JSON.",
        Record({"name": Text(30), "age": Whole(0, 120), "job": Text(30), "married": Flag()}),
    ),
    Case(
        "book",
        "Invent a book about {} and give its record as JSON.",
        Record(
            {
                "title": Text(60),
                "author": Record({"first_name": Text(20), "last_name": Text(20)}),
                "year": Whole(1500, 2030),
                "language": OneOf(("English", "German", "French")),
            }
        ),
    ),
    Case(
        "sentiment",
        "Say as JSON what somebody feels who writes: 'I have just seen {}!'",
        Record(
            {
                "sentiment": OneOf(("positive", "neutral", "negative")),
                "confidence": Whole(0, 100),
                "reason": Text(80),
            }
        ),
    ),
    Case(
        "order",
        "Make an order for a shop, as JSON, with things for {}.",
        Record(
            {
                "order_id": Text(pattern="[A-Z]{2}-[0-9]{4}"),
                "items": Some(Record({"product": Text(20), "quantity": Whole(1, 9)}), 1, 3),
                "express_delivery": Flag(),
            }
        ),
    ),
    Case(
        "recipe",
        "Give a small recipe for {} as JSON.",
        Record(
            {
                "dish": Text(30),
                "minutes": Whole(1, 240),
                "ingredients": Some(Text(20), 2, 5),
                "vegetarian": Flag(),
            }
        ),
    ),
    Case(
        "event",
        "Plan an event about {} as JSON.",
        Record(
            {
                "event_name": Text(40),
                "date": Text(pattern="20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"),
                "location": Record({"city": Text(20), "country": Text(20)}),
                "number_of_guests": Whole(1, 500),
            }
        ),
    ),
    Case(
        "call",
        "Choose the function to call for: 'What is the weather like for {}?' Answer as JSON.",
        Record(
            {
                "function_name": OneOf(("get_weather", "get_time", "search_web")),
                "arguments": Record({"location": Text(30), "unit": OneOf(("celsius", "fahrenheit"))}),
            }
        ),
    ),
    Case(
        "animal",
        "Name an animal that goes with {} and describe it as JSON.",
        Record(
            {
                "animal": Text(20),
                "class_of_animal": OneOf(("mammal", "bird", "reptile", "fish", "insect")),
                "number_of_legs": Whole(0, 8),
                "can_fly": Flag(),
            }
        ),
    ),
    Case(
        "ticket",
        "Write a support ticket about {} as JSON.",
        Record(
            {
                "subject": Text(50),
                "priority": OneOf(("low", "medium", "high", "critical")),
                "tags": Some(OneOf(("billing", "login", "crash", "feature", "other")), 1, 3),
                "needs_reply": Flag(),
            }
        ),
    ),
    Case(
        "settings",
        "Give settings of a program for {} as JSON.",
        Record(
            {
                "display": Record({"dark_mode": Flag(), "font_size": Whole(6, 48), "theme_name": Text(16)}),
                "network": Record({"use_proxy": Flag(), "timeout_seconds": Whole(1, 120), "retry_on_failure": Flag()}),
            }
        ),
    ),
)

TOPICS = (
    "Mary Smith",
    "a lighthouse keeper",
    "winter in Norway",
    "a lost dog",
    "the old town of Prague",
    "three children",
    "a night train",
    "apples and honey",
    "a football match",
    "the first day of school",
    "a broken radio",
    "Doctor Ferreira",
    "the moon",
    "a small bakery",
    "a long river",
    "the king's garden",
    "a robot that paints",
    "tea in Kyoto",
    "an island without roads",
    "the last letter",
)
