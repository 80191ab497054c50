"""Tasks whose answers share most of their text: four families of ten, each a long fixed form with changing fields.

Knows no model: what is said in answer is the model's own business.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.bench.prompts import Prompt, Prompts


@dataclass(frozen=True, slots=True)
class Family:
    """request: with one {} for each value of a task."""

    name: str
    request: str
    tasks: tuple[tuple[str, ...], ...]

    def prompts(self) -> tuple[Prompt, ...]:
        texts = (self.request.format(*values) for values in self.tasks)
        return tuple(Prompt(f"{self.name}-{i}", self.name, text) for i, text in enumerate(texts))


FORM = Family(
    "form",
    "Write the membership form of {0} from {1}, who works as a {2} and pays {3} euros, as one JSON record. "
    "The keys are: full_name, city, occupation, kind_of_membership, start_date, end_date, yearly_fee, payment_method, "
    "has_signed.",
    (
        ("Anna Keller", "Bremen", "nurse", "20"),
        ("Tom Okafor", "Leeds", "plumber", "24"),
        ("Maria Silva", "Porto", "teacher", "18"),
        ("Ivan Petrov", "Varna", "fisherman", "12"),
        ("Lucy Chen", "Boston", "student", "10"),
        ("Samuel Mbeki", "Durban", "baker", "15"),
        ("Elena Rossi", "Turin", "lawyer", "22"),
        ("Noah Berg", "Oslo", "waiter", "30"),
        ("Aisha Khan", "Lahore", "engineer", "14"),
        ("Peter Novak", "Brno", "carpenter", "16"),
    ),
)

EMAIL = Family(
    "email",
    """Write this email again for {0}.

Dear {0},
Thank you for shopping with us. Your order number {1} has left our warehouse today.
The parcel contains one {2} and should arrive on {3}.
If nobody is at home, the driver will leave it with a neighbour or bring it to the nearest post office.
If anything is wrong with your order, please reply to this email within fourteen days.
Kind regards,
The customer service team""",
    (
        ("Mrs Keller", "4711", "desk lamp", "Monday"),
        ("Mr Okafor", "2038", "garden hose", "Thursday"),
        ("Ms Silva", "9125", "coffee grinder", "Friday"),
        ("Mr Petrov", "6650", "rain jacket", "Tuesday"),
        ("Ms Chen", "3307", "chess board", "Wednesday"),
        ("Mr Mbeki", "8014", "bread knife", "Monday"),
        ("Mrs Rossi", "5592", "leather bag", "Saturday"),
        ("Mr Berg", "1276", "bicycle bell", "Thursday"),
        ("Ms Khan", "7843", "drawing set", "Friday"),
        ("Mr Novak", "2961", "tool box", "Tuesday"),
    ),
)

CODE = Family(
    "code",
    "Write a Python class {0} whose __init__ takes {1} and {2}, with the methods to_dict, from_dict, __repr__ and "
    "__eq__. Give only the code, without comments.",
    (
        ("Book", "title", "author"),
        ("City", "name", "country"),
        ("Song", "title", "singer"),
        ("Train", "number", "speed"),
        ("Person", "name", "age"),
        ("Recipe", "dish", "minutes"),
        ("Planet", "name", "radius"),
        ("Ticket", "code", "price"),
        ("Horse", "name", "colour"),
        ("Letter", "sender", "text"),
    ),
)

RECORD = Family(
    "record",
    "Write one JSON record of the product {0} with the price {1}. The keys are: product_name, product_price, currency, "
    "is_available, number_in_stock, warehouse_location, shipping_method, return_policy_days, customer_rating.",
    (
        ("desk lamp", "24"),
        ("garden hose", "31"),
        ("coffee grinder", "55"),
        ("rain jacket", "79"),
        ("chess board", "42"),
        ("bread knife", "18"),
        ("leather bag", "120"),
        ("bicycle bell", "9"),
        ("drawing set", "27"),
        ("tool box", "64"),
    ),
)

FAMILIES = (FORM, EMAIL, CODE, RECORD)


def families(n_tasks: int) -> tuple[Prompts, Prompts]:
    """By family: prompts whose answers are kept to draft from, and those that are measured: half of `n_tasks` each."""
    kept: Prompts = {}
    asked: Prompts = {}
    for family in FAMILIES:
        prompts = family.prompts()[:n_tasks]
        kept[family.name], asked[family.name] = prompts[: n_tasks // 2], prompts[n_tasks // 2 :]
    return kept, asked
