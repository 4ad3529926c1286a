"""A PyTorch model on the voxels of a scan, and the boxes of a detector. Points and tensors stay on the GPU.

    voxeld --listen 127.0.0.1:8081 --allow-cuda-shared-memory yes &
    python torch_model.py http://localhost:8081 scan.bin [MODEL]

The scan has rows of x, y, z and intensity. Boxes need a MODEL of the service."""

import sys

import numpy as np
import torch

import voxeld


class Scene(torch.nn.Module):
    """The greatest value of each channel."""

    def __init__(self, columns, channels=64):
        super().__init__()
        self.layer = torch.nn.Linear(columns, channels)

    def forward(self, features):
        return torch.relu(self.layer(features)).amax(0)


def main(url, scan, model=None):
    points = torch.from_numpy(np.fromfile(scan, "<f4").reshape(-1, 4)).cuda()
    scene = Scene(points.shape[1]).cuda()
    with voxeld.Client(url) as client, torch.no_grad():
        with client.voxelize(points, preset="kitti_second", out="cuda") as result:
            features = result.to_torch()["voxel_features"]
            print(len(features), "voxels on", features.device, "give", tuple(scene(features).shape))
        if model:
            with client.detect(points, model, out="cuda") as result:
                found = result.to_torch()
                print(len(found["boxes"]), "boxes on", found["boxes"].device, "the best", found["scores"].amax().item())


if __name__ == "__main__":
    main(*sys.argv[1:])
