from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialogButtonBox, QFileDialog, QMessageBox, QWidget

from apps.desk.chooser import LOOKING, Chooser, ask_for_file
from apps.desk.listing import Offer
from tests.apps.desk.toy_window import focusable, name_of

OFFERS = (
    Offer("here", "One that is here", "98 MB", "on this machine", True, "Small. Licence: Apache-2.0."),
    Offer("far", "One to accept", "1 GB", "to be downloaded", False, "Large.", "Be kind.", "https://example.org/terms"),
)


def chooser_of(parent: QWidget, chosen: list[tuple[str, bool]]) -> Chooser:
    chooser = Chooser(lambda model, accepted: chosen.append((model, accepted)), parent)
    chooser.show()
    assert chooser.details.text() == LOOKING
    chooser.show_offers(OFFERS)
    return chooser


def test_what_is_here_is_opened_by_return(parent: QWidget) -> None:
    chosen: list[tuple[str, bool]] = []
    chooser = chooser_of(parent, chosen)
    assert chooser.details.text() == OFFERS[0].details
    assert chooser.list.item(1).text() == "One to accept   1 GB, to be downloaded"
    QTest.keyClick(chooser.list, Qt.Key.Key_Return)
    assert chosen == [("here", False)]
    assert not chooser.isVisible()


def test_a_licence_is_shown_before_anything_is_downloaded(parent: QWidget) -> None:
    chosen: list[tuple[str, bool]] = []
    chooser = chooser_of(parent, chosen)
    QTest.keyClick(chooser.list, Qt.Key.Key_Down)
    for button in (QMessageBox.StandardButton.No, QMessageBox.StandardButton.Yes):
        assert not chosen
        chooser.buttons.button(QDialogButtonBox.StandardButton.Open).click()
        assert chooser.question is not None
        assert "Be kind." in chooser.question.text()
        assert OFFERS[1].licence_url in chooser.question.text()
        chooser.question.button(button).click()
    assert chosen == [("far", True)]


def test_a_name_that_is_typed_goes_before_the_list(parent: QWidget) -> None:
    chosen: list[tuple[str, bool]] = []
    chooser = chooser_of(parent, chosen)
    QTest.keyClicks(chooser.name, " hf:user/repo ")
    QTest.keyClick(chooser.name, Qt.Key.Key_Return)
    assert chosen == [("hf:user/repo", False)]


def test_a_file_is_asked_for(parent: QWidget) -> None:
    chosen: list[str] = []
    dialog = ask_for_file(parent, chosen.append)
    assert dialog.fileMode() is QFileDialog.FileMode.ExistingFile
    dialog.fileSelected.emit("/models/a.gguf")
    assert chosen == ["/models/a.gguf"]
    dialog.close()


def test_nothing_is_chosen_from_an_empty_list_or_by_cancel(parent: QWidget) -> None:
    chosen: list[tuple[str, bool]] = []
    chooser = chooser_of(parent, chosen)
    assert [widget for widget in focusable(chooser) if not name_of(widget)] == []
    chooser.show_offers(())
    chooser.buttons.button(QDialogButtonBox.StandardButton.Open).click()
    assert chooser.isVisible()
    chooser.buttons.button(QDialogButtonBox.StandardButton.Cancel).click()
    assert not chosen
    assert not chooser.isVisible()
