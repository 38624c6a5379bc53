"""Propositions 1 to 3: what is compared can differ, and does not."""

import pytest

from exfam_studies.common.harness import Options, reproduce
from exfam_studies.common.rows import higher_is_better
from exfam_studies.efa import efa_special_cases


def test_every_proposition_holds_to_double_precision():
    rows = efa_special_cases.run(Options(fast=True, seeds=2))
    assert [(row.task, row.settings.get("k")) for row in rows] == [
        ("proposition-1", None),
        ("proposition-2", "all"),
        ("proposition-2", 5),
        ("proposition-3", None),
    ]
    assert {(row.metric, row.n_seeds) for row in rows} == {("max-difference", 2)}
    assert all(0 < row.value < 1e-9 for row in rows)
    assert higher_is_better("max-difference") is None


@pytest.mark.parametrize("case", efa_special_cases.CASES, ids=lambda case: case.task)
def test_two_latent_factor_models_differ(case):
    """The comparison sees other weights: it is no accident that the construction agrees."""

    def mixed(groups, seed):
        return case.build(groups, seed)[0], case.build(groups, seed + 1)[1]

    wrong = efa_special_cases._difference(case._replace(build=mixed), seed=0, n_groups=10)
    assert wrong > 0.1


def test_small_figures_keep_their_size_in_the_table(capsys):
    rows = reproduce("efa-special-cases", options=Options(fast=True, only=["proposition-2"]))
    printed = capsys.readouterr().out
    assert len(rows) == 2 and all(f"{row.value:.1e}" in printed for row in rows)
    assert "0.0000" not in printed and "e-1" in printed and "*\n" not in printed
