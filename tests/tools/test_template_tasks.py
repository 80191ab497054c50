from __future__ import annotations

from tools.template_tasks import FAMILIES, families


def test_there_are_four_families_of_ten_different_tasks() -> None:
    assert len({family.name for family in FAMILIES}) == 4
    prompts = [prompt for family in FAMILIES for prompt in family.prompts()]
    assert len({prompt.text for prompt in prompts}) == len({prompt.id for prompt in prompts}) == 40


def test_a_task_is_the_form_with_its_values() -> None:
    for family in FAMILIES:
        for values, prompt in zip(family.tasks, family.prompts(), strict=True):
            assert prompt.category == family.name
            assert all(value in prompt.text for value in values)
            assert "{" not in prompt.text
        assert len({prompt.text[-50:] for prompt in family.prompts()}) == 1  # what is asked for has a fixed end


def test_no_task_is_kept_and_measured() -> None:
    kept, asked = families(10)
    assert list(kept) == list(asked) == [family.name for family in FAMILIES]
    for name in kept:
        assert (len(kept[name]), len(asked[name])) == (5, 5)
        assert not {one.text for one in kept[name]} & {one.text for one in asked[name]}


def test_a_smaller_number_is_the_beginning() -> None:
    kept, asked = families(3)
    for family in FAMILIES:
        assert (*kept[family.name], *asked[family.name]) == family.prompts()[:3]
        assert len(kept[family.name]) == 1
