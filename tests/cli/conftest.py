from __future__ import annotations

import numpy as np
import pytest

from deepnmf.cli.main import main


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
