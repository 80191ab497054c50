"""How answers are made: a dialog that gives back options, or says why they cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from edgespec import DraftChoice, EdgeSpecError, GenerateOptions
from edgespec.choice import AUTO, DRAFTERS, OFF
from edgespec.errors import BadInput

DRAFT_HELP = "auto takes what pays, off is plain decoding; names of drafters can be joined by commas."
EXACT_HELP = "Bit for bit the answer of plain decoding, whatever is drafted; slower."
MOST_TOKENS = 1_000_000


class SettingsDialog(QDialog):
    def __init__(self, options: GenerateOptions, chosen: Callable[[GenerateOptions], None], parent: QWidget) -> None:
        super().__init__(parent)
        self._chosen = chosen
        self._options = options
        self.setWindowTitle("Settings")
        self.temperature = _decimal(options.sampling.temperature, 100.0, "Temperature", "0 takes the likeliest token.")
        self.top_p = _decimal(options.sampling.top_p, 1.0, "Top p", "Draw among tokens that share this probability.")
        self.max_tokens = QSpinBox()
        self.max_tokens.setRange(1, MOST_TOKENS)
        self.max_tokens.setValue(options.max_tokens)
        self.seed = QLineEdit(str(options.sampling.seed))
        self.exact = QCheckBox("&Exact")
        self.exact.setChecked(options.exact)
        self.draft = QComboBox()
        self.draft.setEditable(True)
        self.draft.addItems([AUTO, OFF, *DRAFTERS])
        self.draft.setCurrentText(options.draft.value)
        self.draft.view().setAccessibleName("Drafters")
        self.error = QLabel()
        self.error.setWordWrap(True)
        self.error.setVisible(False)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self._form = QFormLayout(self)
        self._lay_out()
        self._buttons.accepted.connect(self._accept)
        self._buttons.rejected.connect(self.reject)

    def options(self) -> GenerateOptions:
        """Raises EdgeSpecError for values that cannot be."""
        sampling = replace(
            self._options.sampling,
            temperature=self.temperature.value(),
            top_p=self.top_p.value(),
            seed=_seed(self.seed.text()),
        )
        return replace(
            self._options,
            sampling=sampling,
            max_tokens=self.max_tokens.value(),
            exact=self.exact.isChecked(),
            draft=DraftChoice.parse(self.draft.currentText()),
        )

    def _accept(self) -> None:
        try:
            options = self.options()
        except EdgeSpecError as error:
            self.error.setText(str(error))
            self.error.setVisible(True)
            self.resize(self.width(), self._form.totalHeightForWidth(self.width()))
            return
        self._chosen(options)
        self.accept()

    def _lay_out(self) -> None:
        rows: tuple[tuple[str, QWidget, str], ...] = (
            ("&Temperature", self.temperature, self.temperature.toolTip()),
            ("Top &p", self.top_p, self.top_p.toolTip()),
            ("&Longest answer, tokens", self.max_tokens, "The answer is cut after so many tokens."),
            ("&Seed", self.seed, "The same seed gives the same answer."),
            ("", self.exact, EXACT_HELP),
            ("&Draft", self.draft, DRAFT_HELP),
        )
        for label, widget, help_text in rows:
            widget.setAccessibleName((label or self.exact.text()).replace("&", ""))
            widget.setAccessibleDescription(help_text)
            widget.setToolTip(help_text)
            self._form.addRow(label, widget)
        self._form.addRow(self.error)
        self._form.addRow(self._buttons)


def _decimal(value: float, highest: float, name: str, help_text: str) -> QDoubleSpinBox:
    box = QDoubleSpinBox()
    box.setDecimals(2)
    box.setRange(0.0, highest)
    box.setSingleStep(0.05)
    box.setValue(value)
    box.setAccessibleName(name)
    box.setToolTip(help_text)
    return box


def _seed(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"seed {text!r}", "it must be a whole number", "give one, such as 1") from None
