from __future__ import annotations

import pytest

from mlxdiag.bundle.detect import figures
from mlxdiag.bundle.redact.settings import DEEPEST, KINDS, MOST_LAYERS, Settings, is_name, names_of
from mlxdiag.models.catalogue import CATALOGUE
from mlxdiag.models.configs import geometry
from tests.bundle.cleaning import messages


def cleaned(value, **how):
    return Settings(messages()).mapping(value, **how)


@pytest.mark.parametrize("architecture", sorted(CATALOGUE))
def test_a_published_config_reads_the_same_after_cleaning(architecture):
    config = CATALOGUE[architecture].config
    left = cleaned(config)
    whole, less = geometry.from_config(config), geometry.from_config(left)
    assert (less.families(), less.depth, less.architecture) == (
        whole.families(),
        whole.depth,
        whole.architecture,
    )
    assert less.config == whole.config


def test_a_number_stays_under_a_name_that_counts_something_and_under_no_other():
    assert cleaned({"sliding_window": 512, "mask": 512, "zorblax_size": 3}) == {"sliding_window": 512}


@pytest.mark.parametrize(
    ("name", "values", "stays"),
    [
        ("sliding_window_layers", [1, 3, 5], True),
        ("sliding_window_layers", [3, 1], False),
        ("sliding_window_layers", [1, 1], False),
        ("sliding_window_layers", [1, 6], True),  # counted from one
        ("sliding_window_layers", [1, 7], False),
        ("hybrid_layer_pattern", [0, 1, 1, 0, 1, 0], True),
        ("hybrid_layer_pattern", [0, 2], False),
        ("intermediate_size", [64, 64, 64, 64, 128, 128], True),
        ("intermediate_size", [64, 64, 128], False),
        ("mrope_section", [16, 24, 24], True),
        ("mrope_section", [16, 24, 257], False),
        ("activation_sparsity_pattern", [0.95, 0.95, 0.0], True),
        ("long_factor", [1.0, 1.5, 64.25], True),
        ("long_factor", [72.0, 101.0, 108.0], False),
        ("eos_token_id", [1, 2, 3, 4], True),
        ("eos_token_id", [1, 2, 3, 4, 5], False),
        ("layer_types", [1, 2, 3, 4, 5, 0], False),
    ],
)
def test_a_list_has_to_look_like_what_its_name_counts(name, values, stays):
    assert (name in cleaned({"num_hidden_layers": 6, name: values})) is stays


def test_texts_are_single_names_and_in_an_environment_words_with_a_version():
    assert cleaned(
        {"model_type": "gemma3_text", "layer_types": ["full_attention", "9906"], "mask": "macOS 26"}
    ) == {
        "model_type": "gemma3_text",
        "layer_types": ["full_attention"],
    }
    kept = {
        "os": "Linux 6.18.44",
        "libraries": {"mlx": "0.32.1.dev3", "torch": "2.13.0+cpu"},
        "python": "3.11.7",
    }
    assert cleaned(kept, spoken=True) == kept
    assert cleaned({"os": "9906", "device": "cuda 9906", "python": "12345"}, spoken=True) == {}
    assert cleaned({"hybrid_override_pattern": "M-M*-E"}) == {"hybrid_override_pattern": "M-M*-E"}


@pytest.mark.parametrize(
    ("attention", "stays"),
    [("sdpa", True), ("eager", True), ("flash_attention_2", True), ("flex_attention", True),
     ("paged|sdpa", True), ("zorblax", False), ("paged|zorblax", False), ("9906", False),
     ("sdpa 9906", False), ("paged|", False)],
)  # fmt: skip
def test_an_attention_implementation_stays_where_its_parts_are_known(attention, stays):
    kept = cleaned({"device": "cuda", "attention": attention}, spoken=True)
    assert kept == {"device": "cuda", **({"attention": attention} if stays else {})}


@pytest.mark.parametrize(
    ("system", "stays"),
    [
        ("Linux 6.18.44-fc-v595", "Linux 6.18.44"),
        ("Linux 5.15.0-1051-zorblax", "Linux 5.15.0"),
        ("Linux kestrel 6.1.0-18-amd64", "Linux 6.1.0"),
        ("Darwin 24.6.0-kestrel 7.1.1", "Darwin 24.6.0"),
        ("Linux kestrel.lan", "Linux"),
        ("Linux 10.0.0.17-kestrel", "Linux"),
        ("Linux 6.18.44.kestrel", "Linux"),
        ("Linux 6.18.kestrel-44", "Linux"),
        ("Linux 9906.15339-kestrel", "Linux"),
        ("kestrel 6.18.44-fc", None),
        ("6.18.44-kestrel", None),
        (" ", None),
    ],
)
def test_of_a_system_its_name_and_its_plain_version_stay_whatever_the_kernel_is_named_for(system, stays):
    told = messages()
    kept = Settings(told).mapping({"os": system, "device": "cpu"}, spoken=True)
    assert kept == {**({"os": stays} if stays else {}), "device": "cpu"}
    assert told.ledger.count("field") == 1, "what was cut is counted"
    assert "os" not in cleaned({"os": "Linux 6.18.44-zorblax"}), "only where a system is told"


def test_neither_the_depth_nor_the_length_is_endless():
    deep = {"mask": {}}
    for _ in range(20):
        deep = {"mask": deep}
    assert str(cleaned(deep)).count("mask") <= DEEPEST + 1
    assert cleaned({"no_rope_layers": [1] * MOST_LAYERS})
    assert cleaned({"no_rope_layers": [1] * (MOST_LAYERS + 1)}) == {}


@pytest.mark.parametrize(
    ("text", "fits"),
    [("gemma-3-4b-it", True), ("qwen2_5_vl", True), ("glm-4-9b-0414", True), ("9906", False),
     ("a-15339", False), ("a-1-2-3-4-5", False), ("a 9906", False)],
)  # fmt: skip
def test_a_name_begins_with_a_letter_and_has_few_short_numbers(text, fits):
    assert is_name(text) is fits


def test_the_detector_lets_every_number_of_the_list_pass():
    names = {name for kind in KINDS for name in names_of(kind) if kind in ("number", "special")}
    assert len(names) > 100
    assert {name for name in names if list(figures._mapping({name: 7}))} == set()


@pytest.mark.parametrize("kind", ["architecture", "model_type"])
def test_a_librarys_model_type_stays_though_it_is_no_word_and_as_a_model_type_alone(kind):
    assert cleaned({kind: "zamba2"}) == {kind: "zamba2"}
    assert cleaned({kind: "zorblax2", "mask": "zamba2"}) == {}
