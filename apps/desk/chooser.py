"""Which model to open: a list of those there are and those that can be downloaded, or any file. Opens none itself."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QLabel,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QMessageBox,
    QVBoxLayout,
    QWidget,
)

from .listing import Offer

LOOKING = "Looking for models on this machine…"
NAME_HELP = "Or a name: a file, or hf:user/repo"
FILTER = "Models (*.gguf);;All files (*)"


class Chooser(QDialog):
    """chosen: gets a model's name, and whether its licence was accepted here."""

    def __init__(self, chosen: Callable[[str, bool], None], parent: QWidget) -> None:
        super().__init__(parent)
        self._chosen = chosen
        self.setWindowTitle("Choose a model")
        self.list = QListWidget()
        self.list.setAccessibleName("Models")
        self.list.setAccessibleDescription("Return opens the chosen one, after a download where it is not here yet.")
        self.details = QLabel(LOOKING)
        self.details.setWordWrap(True)
        self.details.setTextFormat(Qt.TextFormat.PlainText)
        self.name = QLineEdit()
        self.name.setPlaceholderText(NAME_HELP)
        self.name.setAccessibleName(NAME_HELP)
        self._offers: tuple[Offer, ...] = ()
        self.question: QMessageBox | None = None
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Open | QDialogButtonBox.StandardButton.Cancel)
        self.file = self.buttons.addButton("Open &file…", QDialogButtonBox.ButtonRole.ActionRole)
        layout = QVBoxLayout(self)
        for widget in (self.list, self.details, self.name, self.buttons):
            layout.addWidget(widget)
        self.list.currentRowChanged.connect(self._describe)
        self.list.itemActivated.connect(lambda _item: self._open())
        self.buttons.accepted.connect(self._open)
        self.buttons.rejected.connect(self.reject)
        self.file.clicked.connect(lambda: ask_for_file(self, self._choose_file))
        self.resize(520, 380)

    def show_offers(self, offers: tuple[Offer, ...]) -> None:
        self._offers = offers
        self.list.clear()
        for offer in offers:
            self.list.addItem(QListWidgetItem(f"{offer.title}   {offer.size}, {offer.where}"))
        self.list.setCurrentRow(0)
        self.list.setFocus()

    def _describe(self, row: int) -> None:
        self.details.setText(self._offers[row].details if 0 <= row < len(self._offers) else "")

    def _open(self) -> None:
        row = self.list.currentRow()
        name = self.name.text().strip()
        if name:
            self._choose(name, False)
        elif 0 <= row < len(self._offers):
            offer = self._offers[row]
            if offer.licence_notice:
                self._ask_for_licence(offer)
            else:
                self._choose(offer.model, False)

    def _ask_for_licence(self, offer: Offer) -> None:
        """Nothing is downloaded before it is accepted."""
        text = f"{offer.licence_notice}\n\n{offer.licence_url}\n\nDo you accept this licence?"
        buttons = QMessageBox.StandardButton.Yes | QMessageBox.StandardButton.No
        self.question = QMessageBox(QMessageBox.Icon.Question, offer.title, text, buttons, self)
        self.question.setTextFormat(Qt.TextFormat.PlainText)
        self.question.setDefaultButton(QMessageBox.StandardButton.No)
        yes = int(QMessageBox.StandardButton.Yes)
        self.question.finished.connect(lambda given: self._choose(offer.model, True) if given == yes else None)
        self.question.open()

    def _choose_file(self, path: str) -> None:
        self._choose(path, False)

    def _choose(self, model: str, licence_accepted: bool) -> None:
        self._chosen(model, licence_accepted)
        self.accept()


def ask_for_file(parent: QWidget, chosen: Callable[[str], None]) -> QFileDialog:
    """The system's own dialog, which does not hold up the window; `chosen` gets a path."""
    dialog = QFileDialog(parent, "Open a model file", "", FILTER)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.fileSelected.connect(chosen)
    dialog.open()
    return dialog
