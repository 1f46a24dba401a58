import subprocess
import sys

import capsnet


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_public_names_are_there():
    for name in capsnet.__all__:
        assert getattr(capsnet, name) is not None
    assert {"create_model", "list_models", "load", "save", "convert", "functional", "layers"} <= set(
        capsnet.__all__
    )
    assert callable(capsnet.functional.squash)
    assert callable(capsnet.functional.squash_sabour)
    assert callable(capsnet.functional.self_attention_routing)


def test_importing_the_package_does_not_import_torch():
    result = python("import sys, capsnet; sys.exit('torch' in sys.modules)")
    assert result.returncode == 0, result.stderr


def test_help_does_not_import_torch():
    code = (
        "import sys\nfrom capsnet.cli import main\n"
        "for words in ([], ['train'], ['data'], ['eval'], ['predict'], ['convert'], ['export'], ['models']):\n"
        "    try: main([*words, '--help'])\n"
        "    except SystemExit as stop: assert stop.code in (0, None), words\n"
        "assert 'torch' not in sys.modules\n"
    )
    result = python(code)
    assert result.returncode == 0, result.stderr
