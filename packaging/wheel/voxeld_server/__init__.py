"""The daemon voxeld as a package: the files of its .tar.gz lie beside this module. voxeld.Server runs the program."""

import os
import pathlib
import sys

PROGRAM = str(pathlib.Path(__file__).resolve().parent / "bin" / "voxeld")


def main() -> None:
    """The command voxeld."""
    os.execv(PROGRAM, ["voxeld", *sys.argv[1:]])
