"""The command line client: `voxeld-client`, or `python -m voxeld`.

main.py runs the commands and gives the exit status; options.py and parameters.py are what they take. batch.py asks the
service with several threads, scans.py finds and reads the scans, answers.py writes what comes back, watch.py waits for
scans that are still written, pages.py prints presets, models and status, boxes.py
prints detections.
"""
