"""Entries one at a time: a file that still grows, a long file, what is known when."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from backports import zstd

from mlxdiag.errors import UnreadableError, UsageError
from mlxdiag.traces import blocks, head, stream
from mlxdiag.traces.reader import open_stream
from mlxdiag.traces.types import Entry, Header
from mlxdiag.traces.writer import Writer

HEAD = b"schema: mlxdiag.trace/1\nsteps:\n"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "POLL_SECONDS", 0.001)


def growing(path: Path, pieces: list[bytes]) -> Callable[[], bool]:
    """A stop condition, asked only when all was read, that each time adds one more piece; then it stops."""
    left: Iterator[bytes] = iter(pieces)

    def stop() -> bool:
        piece = next(left, None)
        with path.open("ab") as file:
            file.write(piece or b"")
        return piece is None

    return stop


def test_follow_survives_lines_that_arrive_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(b"")
    text = HEAD + '- {"step": 1, "note": "größer"}\n- {"step": 2}\n'.encode()
    stop = growing(path, [text[at : at + 3] for at in range(0, len(text), 3)])
    with open_stream(path, follow=True, stop=stop) as following:
        assert list(following) == [Entry(step=1, note="größer"), Entry(step=2)]
        assert not following.truncated


def test_follow_hands_on_each_entry_as_soon_as_its_line_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(HEAD + b'- {"step": 1}\n- {"step"')
    asked = []
    with open_stream(path, follow=True, stop=lambda: bool(asked.append(1))) as following:
        assert next(iter(following)) == Entry(step=1)
        assert asked == []


def test_follow_ends_at_the_end_entry_without_being_stopped(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(HEAD)
    end = b'- {"phase": "end", "exit": 0}\n- {"step": 9}\n'
    stop = growing(path, [b'- {"step": 1}\n', end, b"- never read"])
    with open_stream(path, follow=True, stop=stop) as following:
        assert list(following) == [Entry(step=1), Entry(phase="end", exit=0)]


def test_follow_reads_what_another_thread_writes(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    writer = Writer(path, Header())

    def work() -> None:
        for step in range(50):
            writer.write(Entry(step=step))
            time.sleep(0.0005)
        writer.write(Entry(phase="end"))

    thread = threading.Thread(target=work)
    thread.start()
    with open_stream(path, follow=True) as following:
        assert [entry.step for entry in following] == [*range(50), None]
    thread.join()


def test_follow_stopped_inside_a_line_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(HEAD + b'- {"step": 1}\n- {"ste')
    with open_stream(path, follow=True, stop=lambda: True) as following:
        assert list(following) == [Entry(step=1)]
        assert following.truncated


def test_follow_notices_a_file_that_was_started_anew(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(HEAD + b'- {"step": 1}\n')

    def stop() -> bool:
        path.write_bytes(HEAD)
        return False

    with (
        open_stream(path, follow=True, stop=stop) as following,
        pytest.raises(UnreadableError, match="shorter"),
    ):
        list(following)


def test_follow_does_not_wait_for_a_whole_document(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_bytes(HEAD + b'- {"step": 1}\nnote: late\n')
    with open_stream(tmp_path / "t.yaml", follow=True, stop=lambda: pytest.fail("waited")) as following:
        entries = iter(following)
        assert next(entries) == Entry(step=1)
        with pytest.raises(UnreadableError, match="`note:` after the steps"):
            next(entries)


def test_long_file_is_never_taken_for_a_shorter_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "_LARGEST_DOCUMENT", 2 * blocks.BLOCK)
    count = 5 * blocks.BLOCK // 20
    lines = [b"- {step: 0, rows: &r []}\n", b"- {step: 1, rows: *r}\n"]
    lines += [b'- {"step": %d, "rows": []}\n' % step for step in range(2, count)]
    (tmp_path / "t.yaml").write_bytes(HEAD + b"".join(lines))
    with open_stream(tmp_path / "t.yaml") as entries:
        assert next(iter(entries)).step == 0
        with pytest.raises(UnreadableError, match="undefined alias"):
            next(iter(entries))
    (tmp_path / "t.yaml").write_bytes(HEAD + b"".join(lines[: count // 8]))
    with open_stream(tmp_path / "t.yaml") as entries:
        assert [entry.step for entry in entries] == list(range(count // 8))


def test_follow_of_a_compressed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.yaml.zst").write_bytes(zstd.compress(HEAD))
    with pytest.raises(UsageError, match="does not grow"):
        open_stream(tmp_path / "t.yaml.zst", follow=True)


@pytest.mark.parametrize("name", ["t.yaml", "t.yaml.zst"])
def test_memory_does_not_grow_with_the_file(name: str, tmp_path: Path) -> None:
    def peak(count: int) -> int:
        with Writer(tmp_path / name, Header(), force=True) as writer:
            for step in range(count):
                writer.write(Entry(step=step, note="x" * 100))
        tracemalloc.start()
        with open_stream(tmp_path / name) as long:
            assert sum(1 for _ in long) == count
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(10)  # whatever is imported and cached the first time
    assert peak(40_000) < peak(4_000) * 1.3


def test_endless_line_is_refused_instead_of_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LONGEST_LINE", 1 << 18)
    (tmp_path / "t.yaml").write_bytes(HEAD + b'- {"step": 1}\n' + b"x" * (1 << 20))
    with open_stream(tmp_path / "t.yaml") as long:
        entries = iter(long)
        assert next(entries) == Entry(step=1)
        with pytest.raises(UnreadableError, match=r"entry 2: a line of more than 0 MiB \(line 4\)"):
            next(entries)


def test_entry_longer_than_a_block_is_read(tmp_path: Path) -> None:
    long = Entry(step=1, note="x" * (3 * blocks.BLOCK))
    with Writer(tmp_path / "t.yaml", Header()) as writer:
        for _ in range(3):
            writer.write(long)
    with open_stream(tmp_path / "t.yaml") as entries:
        assert list(entries) == [long] * 3


def test_block_style_entries_that_cross_blocks_are_read(tmp_path: Path) -> None:
    count = 4 * blocks.BLOCK // 30
    (tmp_path / "t.yaml").write_bytes(
        HEAD + b"".join(b"- step: %d\n  note: abcdefghij\n" % step for step in range(count))
    )
    with open_stream(tmp_path / "t.yaml") as entries:
        assert [entry.step for entry in entries] == list(range(count))


def test_styles_alternating_across_blocks_keep_order_and_line_numbers(tmp_path: Path) -> None:
    items = [
        b'- {"step": %d}\n',
        b"- {step: %d}  # yaml\n",
        b"- step: %d\n\n",
        b'# c\n- {"step": %d,\n  "note": "n"}\n',
    ]
    count = 4 * blocks.BLOCK // 20
    body = b"".join(items[step % 4 if step % 100 < 8 else 0] % step for step in range(count))
    (tmp_path / "t.yaml").write_bytes(HEAD + body + b"- {step: x}\n")
    steps: list[int | None] = []
    lines = HEAD.count(b"\n") + body.count(b"\n") + 1
    with open_stream(tmp_path / "t.yaml") as entries, pytest.raises(UnreadableError) as caught:
        steps.extend(entry.step for entry in entries)
    assert steps == list(range(count))
    assert str(caught.value).endswith(f"(line {lines})")


def test_close_before_the_end_closes_the_file(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_bytes(HEAD + b'- {"step": 1}\n' * 10)
    with open_stream(tmp_path / "t.yaml") as entries:
        next(iter(entries))
    assert entries._blocks._file.closed
