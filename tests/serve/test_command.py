"""`capsnet serve` as a user starts and stops it."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from capsnet.cli import main


@pytest.fixture
def refused(capfd):
    def call(*words):
        with pytest.raises(SystemExit) as stop:
            main(["serve", *words])
        out, err = capfd.readouterr()
        assert stop.value.code == 2
        assert "Traceback" not in err
        assert out == ""
        return re.sub(r"\s+", " ", err)

    return call


def test_a_taken_port_is_one_sentence(refused):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert f"Port {port} of 127.0.0.1 is in use by another program" in refused("--port", str(port))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--port", "70000"], "--port is 0 (any free one) to 65535; got 70000."),
        (["--host", "no.such.host.invalid"], "no address of this machine"),
        (["--host", "192.0.2.1"], "cannot listen at 192.0.2.1"),
        (["--batch-wait", "-1"], "--batch-wait is 0 to 1000"),
        (["--threads", "0"], "--threads is at least 1"),
        (["no_such_weights", "--port", "0"], "no_such_weights"),
        (["--pairs", "no_such_pairs", "--port", "0"], "no_such_pairs"),
    ],
)
def test_a_wrong_option_is_one_sentence(refused, words, sentence):
    assert sentence in refused(*words)


@pytest.mark.parametrize(
    "missing", ["starlette", "uvicorn", "python_multipart", "msgspec", "prometheus_client"]
)
def test_a_missing_extra_is_one_sentence(refused, monkeypatch, missing):
    import capsnet.cli.serve as command

    monkeypatch.setattr(command, "find_spec", lambda name: None if name == missing else object())
    assert "pip install 'capsnet[serve]'" in refused()


def test_help_does_not_import_torch():
    code = (
        "import sys\nfrom capsnet.cli import main\n"
        "try: main(['serve', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'starlette', 'uvicorn'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--batch-wait" in done.stdout


@pytest.mark.parametrize(("stop", "codes"), [(signal.SIGTERM, {0, -signal.SIGTERM}), (signal.SIGINT, {130})])
def test_it_serves_until_a_signal_and_answers_what_had_begun(stop, codes):
    command = [
        sys.executable,
        "-m",
        "capsnet",
        "serve",
        "--port",
        "0",
        "--threads",
        "1",
        "--batch-wait",
        "1000",
    ]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # A shell that runs the tests in the background has them ignore Ctrl-C; a server at a terminal does not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            line = process.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/", line).group()
            answers = []
            body = {"images": [[[0] * 28] * 28]}

            def ask():
                answers.append(httpx.post(f"{address}v1/predict", json=body, timeout=20, trust_env=False))

            asking = threading.Thread(target=ask)
            asking.start()
            time.sleep(0.5)
            process.send_signal(stop)
            asking.join(20)
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert answers[0].status_code == 200
    assert process.returncode in codes, err
    assert "Traceback" not in err
