"""The methods that deep NMF is compared with and builds on, each a scikit-learn estimator."""

from deepnmf.models.baselines import *
from deepnmf.models.baselines import __all__ as __all__
