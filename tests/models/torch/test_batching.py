"""What programs do to a cache between forwards, on real transformers caches."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="no torch: pip install 'mlxdiag[torch]'")

from mlxdiag.errors import UnjudgedError
from mlxdiag.models.torch import batching, zoo

IDS = np.random.default_rng(1).permutation(500)[:40]


@pytest.fixture(scope="module")
def instance():
    return zoo.tiny("gemma3_text", device="cpu")


def run(instance, ids, caches):
    return instance.backend.read(instance.forward(np.atleast_2d(ids), caches))


def alone(instance, ids):
    return run(instance, ids, instance.new_cache())[0]


def close(a, b):
    assert np.abs(a - b).max() < 2e-4


def test_rows_padded_on_the_left_answer_as_they_would_alone_and_one_may_leave(instance):
    caches = batching.merge([instance.new_cache(), instance.new_cache()])
    batching.pad_left(caches, [0, 5])
    batch = np.stack([IDS[:12], np.concatenate([np.zeros(5, int), IDS[20:27]])])
    first = run(instance, batch, caches)
    close(first[0], alone(instance, IDS[:12]))
    close(first[1, 5:], alone(instance, IDS[20:27]))
    batching.keep_rows(caches, [1])
    close(run(instance, IDS[27:28], caches)[0], alone(instance, IDS[20:28])[-1:])


def test_rows_padded_on_the_right_are_hidden_from_what_comes_after(instance):
    """Positions go on from the real ones. A window counts columns, so that only rows below it stay right."""
    caches = instance.new_cache()
    batching.pad_right(caches, [4, 2], [0, 2])
    run(instance, np.stack([IDS[:4], np.concatenate([IDS[20:22], np.zeros(2, int)])]), caches)
    after = run(instance, np.stack([IDS[4:5], IDS[22:23]]), caches)
    close(after[1], alone(instance, IDS[20:23])[-1:])


def test_an_extracted_row_is_a_copy(instance):
    caches = batching.merge([instance.new_cache(), instance.new_cache()])
    run(instance, np.stack([IDS[:10], IDS[20:30]]), caches)
    row = batching.extract(caches, 1)
    close(run(instance, IDS[30:33], row)[0], alone(instance, IDS[20:33])[-3:])
    after = run(instance, np.stack([IDS[10:12], IDS[30:32]]), caches)
    close(after[0], alone(instance, IDS[:12])[-2:])


def test_a_cut_takes_back_tokens_of_layers_and_of_the_mask(instance):
    caches = instance.new_cache()
    run(instance, IDS[:6], caches)
    batching.trim(caches, 2)
    assert caches[0].total == 4
    close(run(instance, IDS[10:14], caches)[0], alone(instance, np.concatenate([IDS[:4], IDS[10:14]]))[-4:])


def test_a_window_that_rolled_over_unrecorded_refuses_and_a_recorded_one_does_not(instance):
    for recorded in (False, True):
        caches = instance.new_cache()
        if recorded:
            instance.backend.expect_drafts(caches)
        run(instance, IDS[:20], caches)
        if not recorded:
            with pytest.raises(RuntimeError, match="activate_past_recording"):
                batching.trim(caches, 2)
            continue
        batching.trim(caches, 2)
        close(
            run(instance, IDS[30:32], caches)[0], alone(instance, np.concatenate([IDS[:18], IDS[30:32]]))[-2:]
        )


def test_layers_may_give_back_less_than_asked(instance):
    caches = instance.new_cache()
    run(instance, IDS[:6], caches)
    batching.trim_some(instance, caches, 3, {"full": 2})
    held = {
        owner.family: caches[0].cache.layers[owner.index].get_seq_length()
        for owner in instance.geometry.owners()
    }
    assert held == {"sliding": 3, "full": 5}


def test_a_copy_and_a_file_go_on_where_the_original_was(instance):
    caches = instance.new_cache()
    run(instance, IDS[:12], caches)
    for other in (batching.fork(caches), batching.through_a_file(caches)):
        close(run(instance, IDS[12:15], other)[0], alone(instance, IDS[:15])[-3:])
    assert caches[0].total == 12


def test_rows_that_hold_keys_are_not_joined(instance):
    one, other = instance.new_cache(), instance.new_cache()
    run(instance, IDS[:3], one)
    with pytest.raises(UnjudgedError, match="joins caches which hold keys"):
        batching.merge([one, other])
    with pytest.raises(UnjudgedError, match="joins caches which hold keys"):
        batching.extend(one, other)
