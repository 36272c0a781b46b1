from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def X(low_rank):
    return np.ascontiguousarray(low_rank.T)
