"""PointPillars and SECOND in PyTorch, with states under the names of OpenPCDet and mmdetection3d."""

import torch
from torch import nn

from convolution import SparseEncoder

EPS, MOMENTUM = 1e-3, 0.05
BOX_VALUES = 7


def norm(channels):
    return nn.BatchNorm2d(channels, EPS, MOMENTUM)


class PillarLayer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.norm = nn.BatchNorm1d(outputs, EPS, MOMENTUM)

    def forward(self, features):
        """[V, P, inputs] -> [V, outputs]. Padding takes part."""
        voxels, points, inputs = features.shape
        values = self.norm(self.linear(features.view(-1, inputs)))
        return torch.relu(values).view(voxels, points, -1).amax(1)


class Encoder(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.pfn_layers = nn.ModuleList([PillarLayer(inputs, width)])

    def forward(self, features):
        return self.pfn_layers[0](features)


class Backbone(nn.Module):
    def __init__(self, config, inputs):
        super().__init__()
        self.blocks, self.deblocks = nn.ModuleList(), nn.ModuleList()
        levels = zip(
            config["LAYER_NUMS"],
            config["LAYER_STRIDES"],
            config["NUM_FILTERS"],
            config["UPSAMPLE_STRIDES"],
            config["NUM_UPSAMPLE_FILTERS"],
        )
        for layers, stride, width, up, up_width in levels:
            block = [nn.ZeroPad2d(1), nn.Conv2d(inputs, width, 3, stride, bias=False), norm(width), nn.ReLU()]
            for _ in range(layers):
                block += [nn.Conv2d(width, width, 3, padding=1, bias=False), norm(width), nn.ReLU()]
            upsample = nn.ConvTranspose2d(width, up_width, up, up, bias=False)
            self.blocks.append(nn.Sequential(*block))
            self.deblocks.append(nn.Sequential(upsample, norm(up_width), nn.ReLU()))
            inputs = width
        self.width = sum(config["NUM_UPSAMPLE_FILTERS"])

    def forward(self, x):
        x, maps = x.contiguous(memory_format=torch.channels_last), []
        for block, deblock in zip(self.blocks, self.deblocks):
            x = block(x)
            maps.append(deblock(x))
        return torch.cat(maps, 1)


class AnchorHead(nn.Module):
    def __init__(self, inputs, anchors, classes, bins):
        super().__init__()
        self.conv_cls = nn.Conv2d(inputs, anchors * classes, 1)
        self.conv_box = nn.Conv2d(inputs, anchors * BOX_VALUES, 1)
        self.conv_dir_cls = nn.Conv2d(inputs, anchors * bins, 1)
        nn.init.constant_(self.conv_cls.bias, -4.595)  # scores begin at 0.01
        nn.init.normal_(self.conv_box.weight, std=0.001)

    def forward(self, x):
        """Maps [B, H, W, channels]: classes, boxes, directions."""
        return [conv(x).permute(0, 2, 3, 1) for conv in (self.conv_cls, self.conv_box, self.conv_dir_cls)]


def head_of(config, inputs):
    head = config["MODEL"]["DENSE_HEAD"]
    groups = head["ANCHOR_GENERATOR_CONFIG"]
    anchors = sum(len(group["anchor_sizes"]) * len(group["anchor_rotations"]) for group in groups)
    return AnchorHead(inputs, anchors, len(config["CLASS_NAMES"]), head["NUM_DIR_BINS"])


class PointPillar(nn.Module):
    def __init__(self, config, grid):
        super().__init__()
        model, width = config["MODEL"], config["MODEL"]["VFE"]["NUM_FILTERS"][0]
        self.grid, self.width = grid, width  # cells along x and y
        self.vfe = Encoder(10, width)
        self.backbone_2d = Backbone(model["BACKBONE_2D"], width)
        self.dense_head = head_of(config, self.backbone_2d.width)

    def forward(self, features, cells, batch):
        """features [V, P, 10]; cells [V]: (cloud * ny + y) * nx + x."""
        nx, ny = self.grid
        encoded = self.vfe(features)
        canvas = encoded.new_zeros(batch * ny * nx, self.width)
        canvas[cells] = encoded
        return self.dense_head(self.backbone_2d(canvas.view(batch, ny, nx, self.width).permute(0, 3, 1, 2)))

    def state(self):
        return self.state_dict()


class Second(nn.Module):
    def __init__(self, config):
        super().__init__()
        encoder = config["MODEL"]["BACKBONE_3D"]
        self.shape, inputs = encoder["sparse_shape"], config["MODEL"]["MAP_TO_BEV"]["NUM_BEV_FEATURES"]
        self.middle_encoder = SparseEncoder(encoder)
        self.backbone_2d = Backbone(config["MODEL"]["BACKBONE_2D"], inputs)
        self.dense_head = head_of(config, self.backbone_2d.width)

    def forward(self, features, cells, batch):
        """features [V, 4]; cells [V]: ((cloud * nz + z) * ny + y) * nx + x, with nz one less than in the shape."""
        nz, ny, nx = self.shape
        nz -= 1
        at = torch.stack((cells // (nx * ny * nz), cells // (nx * ny) % nz, cells // nx % ny, cells % nx), 1).int()
        return self.dense_head(self.backbone_2d(self.middle_encoder(features, at, batch)))

    def state(self):
        """The state under mmdetection3d's names, whose blocks have no layer of padding."""
        return {mmdet3d_name(name): value for name, value in self.state_dict().items()}


def mmdet3d_name(name):
    part, _, rest = name.partition(".")
    if part == "dense_head":
        return f"bbox_head.{rest.replace('conv_box', 'conv_reg')}"
    if part != "backbone_2d":
        return name
    kind, level, number, last = rest.split(".")
    return f"backbone.blocks.{level}.{int(number) - 1}.{last}" if kind == "blocks" else f"neck.{rest}"
