from __future__ import annotations

import pytest

from mlxdiag.errors import UsageError
from mlxdiag.models import catalogue
from mlxdiag.models.configs.geometry import from_config

from .geometries import WHOLE, summary


def test_every_entry_has_an_independent_expectation() -> None:
    assert set(catalogue.CATALOGUE) == set(WHOLE)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_the_geometry_of_a_real_config_is_what_its_publisher_says(name: str) -> None:
    assert summary(from_config(catalogue.config(name)).families()) == WHOLE[name]


def test_a_config_is_a_copy() -> None:
    catalogue.config("gemma4")["text_config"]["sliding_window"] = 1
    assert catalogue.config("gemma4")["text_config"]["sliding_window"] == 512


def test_an_unknown_family_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no known config for 'frobnicator'; known: baichuan_m1, cohere2"):
        catalogue.config("frobnicator")


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_what_is_uncertain_names_fields_that_exist(name: str) -> None:
    real = catalogue.CATALOGUE[name]
    fields = {*real.config, *real.config.get("text_config", {}), "checkpoint"}
    assert set(real.uncertain) <= fields
