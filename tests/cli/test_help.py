"""`capsnet --help`, `--version` and completion."""

import subprocess

import pytest

import capsnet
from capsnet.cli import main
from capsnet.cli.app import GROUPS, NESTED, build_app, overview


def printed(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert not stop.value.code
    return capsys.readouterr().out


def test_help_names_every_command_once_in_its_group_and_fits_80_columns(capsys):
    text = printed(capsys, "--help")
    assert [line for line in text.splitlines() if line in GROUPS] == list(GROUPS)
    names = [name for commands in GROUPS.values() for name in commands]
    assert [line.split()[0] for line in text.splitlines() if line.startswith("  ")] == names
    assert max(map(len, text.splitlines())) <= 80
    assert build_app() is not None
    assert set(NESTED) <= set(names)


def test_without_a_command_the_overview_is_printed_and_the_exit_code_is_2(capsys):
    with pytest.raises(SystemExit) as stop:
        main([])
    out, err = capsys.readouterr()
    assert stop.value.code == 2
    assert (out, err.strip()) == ("", overview())


def test_the_version_is_the_package_s(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"capsnet {capsnet.__version__}\n"


def test_the_completion_for_bash_knows_commands_and_options_and_is_bash(capsys, tmp_path):
    script = tmp_path / "capsnet"
    script.write_text(printed(capsys, "--tyro-print-completion", "bash"))
    assert "predict" in script.read_text()
    assert "batch-wait" in script.read_text()
    ask = f"source {script}; complete -p capsnet"
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("capsnet")
