"""The mathematics: knows no files, no scikit-learn and no screen.

Everything here has the paper's orientation: X is features x samples, a column is a sample.
Every array may carry leading axes, (…, m, n): a stack of independent runs.
"""
