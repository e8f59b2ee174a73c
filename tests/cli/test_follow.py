import json
import signal
import subprocess
import time

import pytest

from tests.cli.program import BROKEN, HEAD, HEALTHY, SCRIPT, SHORT_MASK, call

END = '- {"phase": "end", "exit": 0}\n'


@pytest.fixture
def follower(tmp_path):
    """Starts the program on a growing file and ends it whatever happens."""
    started = []

    def start(*args):
        command = [SCRIPT, "inspect", "--follow", str(tmp_path / "t.yaml"), *args]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_a_finding_is_shown_while_the_trace_still_grows(tmp_path, follower):
    with (tmp_path / "t.yaml").open("w") as file:
        file.write(HEAD + HEALTHY + SHORT_MASK)
        file.flush()
        process = follower()
        assert process.stdout.readline().startswith("error MD101 ")
        assert process.poll() is None
        file.write(END)
        file.flush()
        out, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert out.count("MD101") <= 1  # in its hint; the finding itself is not told twice
    assert "2 steps, 2 attention calls: 2 judged" in out
    assert err == ""


def test_an_interrupt_ends_it_with_the_verdict_so_far(tmp_path, follower):
    (tmp_path / "t.yaml").write_text(HEAD + HEALTHY + SHORT_MASK)
    process = follower("--format", "json")
    assert json.loads(process.stdout.readline())["code"] == "MD101"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert out == ""  # a trace that nobody watched to its end has not ended badly
    assert "stopped following" in err


def test_a_broken_line_ends_it_as_unreadable(trace, capsys):
    ran = call(capsys, "inspect", "--follow", trace(HEALTHY, SHORT_MASK, BROKEN))
    assert ran.code == 3
    assert "MD101" in ran.out


@pytest.mark.parametrize("options", [["--format", "sarif"], ["-o", "out.txt"], ["u.yaml"]])
def test_what_needs_a_finished_trace_is_a_usage_error(trace, capsys, options):
    assert call(capsys, "inspect", "--follow", trace(HEALTHY, END), *options).code == 2
