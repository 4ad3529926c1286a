"""`python -m voxeld` is voxeld-client."""

from .cli.main import program

program()
