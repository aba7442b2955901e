"""`perdure.models` costs nothing until a client is used."""

import subprocess
import sys

import pytest

import perdure.models
from perdure.errors import ConfigurationError
from perdure.models import OpenAIChatModel


def loaded_by(statement: str) -> str:
    script = f"import sys\n{statement}\nprint('httpx' in sys.modules)"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    "statement",
    [
        "import perdure.models",
        "from perdure.models import ModelRequest, ScriptedModel",
        "from perdure.models import OpenAIChatModel\nOpenAIChatModel('m')",
    ],
)
def test_httpx_is_not_loaded_before_the_first_call(statement: str) -> None:
    assert loaded_by(statement) == "False"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)

    with pytest.raises(ConfigurationError, match=r"perdure\[http\]"):
        OpenAIChatModel("m")


@pytest.mark.parametrize("name", perdure.models.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(perdure.models, name) is not None


def test_an_unknown_name_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="NoSuchModel"):
        perdure.models.NoSuchModel  # noqa: B018
