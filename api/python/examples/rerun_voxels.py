"""Shows the voxels of scans in Rerun, scan after scan.

    python rerun_voxels.py http://localhost:8080 kitti_second a.bin b.bin
    python rerun_voxels.py --save voxels.rrd http://localhost:8080 kitti_second a.bin

Needs rerun-sdk 0.34 or later, and voxeld. The files have rows of float32 as the preset describes them, such as KITTI's.
"""

import argparse

import numpy as np
import rerun

import voxeld


def show(name, points, result):
    parameters = result.metadata["parameters"]
    counts = result["voxel_num_points"].astype(np.float32)
    rerun.log("scan/points", rerun.Points3D(points[:, :3]))
    rerun.log(
        "scan/voxels",
        rerun.VoxelGridMap(
            result["voxel_coords"][:, :0:-1],  # batch, z, y, x -> x, y, z
            voxel_size=parameters["voxel_size"],
            translation=parameters["point_cloud_range"][:3],
            values=counts,
            value_range=(0, max(2, counts.max(initial=0))),
        ),
    )
    rerun.log("scan/text", rerun.TextLog(f"{name}: {len(counts)} voxels"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", metavar="FILE", help="write this file instead of opening the viewer")
    parser.add_argument("url")
    parser.add_argument("preset")
    parser.add_argument("scans", nargs="+", metavar="SCAN")
    args = parser.parse_args()

    rerun.init("voxeld", spawn=not args.save)
    if args.save:
        rerun.save(args.save)
    with voxeld.Client(args.url) as client:
        columns = client.preset(args.preset)["parameters"]["num_features"]
        for number, scan in enumerate(args.scans):
            points = np.fromfile(scan, "<f4").reshape(-1, columns)
            rerun.set_time("scan", sequence=number)
            show(scan, points, client.voxelize(points, args.preset))


if __name__ == "__main__":
    main()
