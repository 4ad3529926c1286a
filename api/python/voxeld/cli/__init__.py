"""The command line client: `voxeld-client`, or `python -m voxeld`.

main.py runs the commands and returns the exit status. options.py and parameters.py define the options. batch.py asks
the service with several threads, scans.py finds and reads scans, answers.py writes answers, watch.py waits for scans
that are still being written, live.py answers the messages of a robot's topic (live_zenoh.py and live_ros.py reach the
robot, live_counts.py counts, live_view.py shows), bag_run.py answers the messages of bags, pages.py prints presets,
models, streams and status, boxes.py prints detections."""
