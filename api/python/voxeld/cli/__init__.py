"""The command line client: `voxeld-client`, or `python -m voxeld`. main.py runs the commands and returns the exit
status."""
