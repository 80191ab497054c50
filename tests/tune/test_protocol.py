from __future__ import annotations

import pytest

from edgespec.tune.protocol import Order, Report, Task


@pytest.mark.parametrize(
    "order",
    [Order(Task.READ, 7, 2, 128), Order(Task.CLASSES, n_threads=1, seconds=2.5, n_batch=2), Order(Task.PASS, 3)],
)
def test_orders_come_back(order: Order) -> None:
    assert Order.from_line(order.to_line()) == order


@pytest.mark.parametrize("report", [Report(), Report(0.25, 7, 32, ((1, 2), (3,))), Report(refused="no, it's so\n")])
def test_reports_come_back(report: Report) -> None:
    line = report.to_line()
    assert line.count("\n") == 1
    assert Report.from_line(line) == report


@pytest.mark.parametrize("line", ["", "hello", "[]", "{}", '{"seconds": "soon"}'])
def test_other_lines_are_no_reports(line: str) -> None:
    with pytest.raises(ValueError, match="no report"):
        Report.from_line(line)
