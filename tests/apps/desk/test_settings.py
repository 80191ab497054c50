from __future__ import annotations

from PySide6.QtWidgets import QDialogButtonBox, QWidget

from apps.desk.settings import SettingsDialog
from edgespec import DraftChoice, GenerateOptions, SamplingSettings
from tests.apps.desk.toy_window import focusable, name_of

OPTIONS = GenerateOptions(SamplingSettings(temperature=0.7, top_p=0.95, seed=3, min_p=0.1), max_tokens=100)


def dialog_of(parent: QWidget, chosen: list[GenerateOptions]) -> SettingsDialog:
    dialog = SettingsDialog(OPTIONS, chosen.append, parent)
    dialog.show()
    return dialog


def press(dialog: SettingsDialog, button: QDialogButtonBox.StandardButton) -> None:
    box = dialog.findChild(QDialogButtonBox)
    assert box is not None
    box.button(button).click()


def test_what_is_not_changed_stays(parent: QWidget) -> None:
    chosen: list[GenerateOptions] = []
    dialog = dialog_of(parent, chosen)
    press(dialog, QDialogButtonBox.StandardButton.Ok)
    assert chosen == [OPTIONS]
    assert not dialog.isVisible()


def test_all_of_it_can_be_changed(parent: QWidget) -> None:
    chosen: list[GenerateOptions] = []
    dialog = dialog_of(parent, chosen)
    dialog.temperature.setValue(0.0)
    dialog.top_p.setValue(1.0)
    dialog.max_tokens.setValue(7)
    dialog.seed.setText("12")
    dialog.exact.setChecked(True)
    dialog.draft.setCurrentText("suffix, lookup")
    press(dialog, QDialogButtonBox.StandardButton.Ok)
    sampling = SamplingSettings(temperature=0.0, top_p=1.0, seed=12, min_p=0.1)
    draft = DraftChoice.parse("lookup,suffix")
    assert chosen == [GenerateOptions(sampling, max_tokens=7, exact=True, draft=draft)]


def test_what_cannot_be_is_said_and_can_be_mended(parent: QWidget) -> None:
    chosen: list[GenerateOptions] = []
    dialog = dialog_of(parent, chosen)
    for seed, draft, said in (("x", "auto", "seed 'x'"), ("-1", "auto", "seed"), ("1", "nobody", "nobody")):
        dialog.seed.setText(seed)
        dialog.draft.setCurrentText(draft)
        press(dialog, QDialogButtonBox.StandardButton.Ok)
        assert said in dialog.error.text()
        assert dialog.isVisible()
    assert not chosen
    press(dialog, QDialogButtonBox.StandardButton.Cancel)
    assert not chosen
    assert not dialog.isVisible()


def test_every_field_has_a_name_and_a_description(parent: QWidget) -> None:
    dialog = dialog_of(parent, [])
    assert [widget for widget in focusable(dialog) if not name_of(widget)] == []
    assert dialog.exact.accessibleDescription()
    assert dialog.draft.accessibleName() == "Draft"
