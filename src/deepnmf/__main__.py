"""`python -m deepnmf`: the command line."""

from deepnmf.cli.main import run

run()
