"""models.yaml names files and pins; a wrong one names file and field."""

from pathlib import Path

import pytest

from engines.sdk import ManifestError
from engines.sdk.models import read_models
from tests.conftest import ROOT

PACKAGE = f"{{npm: 'x@1', sha512: '{'0' * 128}', bytes: 5, files: {{a.onnx: package/a.onnx}}}}"


def document(package: str) -> str:
    return f"models: {{a: {{title: t, license: MIT, packages: [{package}]}}}}"


def test_moonshine_is_pinned() -> None:
    model = read_models(ROOT / "engines" / "transcribe")["moonshine-tiny"]
    assert model.license == "MIT"
    files = [name for package in model.packages for name in package.files]
    assert files == ["encoder_model.onnx", "decoder_model_merged.onnx", "tokenizer.json"]


def test_an_engine_without_models_has_none(tmp_path: Path) -> None:
    assert read_models(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("models: {Big: {title: t, license: MIT, packages: []}}", "'Big' must match"),
        (document(PACKAGE.replace("npm: 'x@1', ", "")), "set either"),
        (document(PACKAGE.replace("a.onnx:", "../a:")), "plain file"),
        (document(PACKAGE.replace("0000", "zz")), "sha512"),
        ("models: {a: {title: t}}", "license"),
    ],
)
def test_a_wrong_one_says_where(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "models.yaml").write_text(text)
    with pytest.raises(ManifestError, match=problem) as caught:
        read_models(tmp_path)
    assert str(tmp_path / "models.yaml") in str(caught.value)
