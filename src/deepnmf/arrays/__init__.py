"""Array operations on NumPy, SciPy and torch: the only code that knows array libraries."""

from deepnmf.arrays.array import *
from deepnmf.arrays.kinds import *
from deepnmf.arrays.operations import *
from deepnmf.arrays.passes import *
from deepnmf.arrays.spectra import *
