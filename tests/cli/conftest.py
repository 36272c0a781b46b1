from __future__ import annotations

import numpy as np
import pytest

from deepnmf.cli.main import main

FEW = ("--max-iter", "5", "--pretrain-iter", "3")


@pytest.fixture
def call(capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def data(low_rank, tmp_path):
    path = tmp_path / "data.npy"
    np.save(path, low_rank.T)
    return path


@pytest.fixture
def model(call, data, tmp_path):
    path = tmp_path / "model.safetensors"
    assert call("fit", data, "-o", path, "--layers", "8,5", *FEW)[0] == 0
    return path
