"""Sparse convolution in PyTorch, under mmdetection3d's names, without spconv. kernels/sparse.h defines the same
computation, with sums in another order.

A cell is (cloud, z, y, x). The forward table [output rows, offsets of the kernel] has, for each output row, the input
row at each offset, or the number of input rows if there is none. In the backward table, inputs and outputs swap places.
"""

import itertools

import torch
from torch import nn

EPS, MOMENTUM = 1e-3, 0.05


class Cells:
    """The occupied cells of a level."""

    def __init__(self, at, clouds, shape):
        self.at, self.clouds, self.shape = at, clouds, shape  # [S, 4] int32; z, y, x
        self.rows = torch.full((clouds * shape[0] * shape[1] * shape[2],), len(at), dtype=at.dtype, device=at.device)
        self.rows[self.keys(at).long()] = torch.arange(len(at), dtype=at.dtype, device=at.device)

    def keys(self, at):
        nz, ny, nx = self.shape
        return ((at[..., 0] * nz + at[..., 1]) * ny + at[..., 2]) * nx + at[..., 3]

    def find(self, at, real):
        """The row of each cell; len(self.at) if it is empty, outside or not `real`."""
        real = real & inside(at[..., 1:], self.shape)
        keys = torch.where(real, self.keys(at), 0)
        return torch.where(real, self.rows.index_select(0, keys.flatten()).view_as(keys), len(self.at))


def inside(places, shape):
    z, y, x = places.unbind(-1)
    nz, ny, nx = shape
    return (z >= 0) & (z < nz) & (y >= 0) & (y < ny) & (x >= 0) & (x < nx)


class Rule:
    """The cells of a layer's output, and the forward and the backward table."""

    def __init__(self, cells, kernel, stride=None, padding=(0, 0, 0)):
        options = {"dtype": cells.at.dtype, "device": cells.at.device}
        offsets = torch.tensor(list(itertools.product(*map(range, kernel))), **options)
        if not stride:
            around = offsets - torch.tensor([(side - 1) // 2 for side in kernel], **options)
            taken = self._with_cloud(cells.at, cells.at[:, None, 1:] + around)
            self.outputs, self.forward = cells, cells.find(taken, True)
            self.backward = self.forward.flip(1)
            return
        padding, step = torch.tensor(padding, **options), torch.tensor(stride, **options)
        reached = cells.at[:, None, 1:] + padding - offsets  # [S, K, 3]: the outputs' places, times the stride
        real = (reached % step == 0).all(-1)
        reached = self._with_cloud(cells.at, torch.div(reached, step, rounding_mode="floor"))
        self.outputs = self._outputs(cells, reached, real, kernel, step, padding)
        self.backward = self.outputs.find(reached, real)
        taken = self._with_cloud(self.outputs.at, self.outputs.at[:, None, 1:] * step - padding + offsets)
        self.forward = cells.find(taken, True)

    @staticmethod
    def _with_cloud(at, places):
        return torch.cat((at[:, None, :1].expand(-1, places.shape[1], 1), places), 2)

    @staticmethod
    def _outputs(cells, reached, real, kernel, step, padding):
        sizes = zip(cells.shape, padding.tolist(), kernel, step.tolist())
        shape = [(side + 2 * pad - reach) // jump + 1 for side, pad, reach, jump in sizes]
        nz, ny, nx = shape
        cloud, z, y, x = reached[real & inside(reached[..., 1:], shape)].unbind(1)
        keys = torch.unique(((cloud * nz + z) * ny + y) * nx + x)
        at = torch.stack((keys // (nz * ny * nx), keys // (ny * nx) % nz, keys // nx % ny, keys % nx), 1)
        return Cells(at, cells.clouds, shape)


def gathered(rows, table):
    padded = torch.cat((rows, rows.new_zeros(1, rows.shape[1])))
    return padded.index_select(0, table.flatten()).view(len(table), -1)


class Convolve(torch.autograd.Function):
    """Gathers rows and multiplies them in the type `kind`, also backward. On a CPU this is faster than scattering."""

    @staticmethod
    def forward(ctx, rows, weight, forward, backward, kind):
        taken, weight = gathered(rows.to(kind), forward), weight.to(kind)
        ctx.save_for_backward(taken, weight, backward)
        return (taken @ weight.flatten(0, 1)).float()

    @staticmethod
    def backward(ctx, upstream):
        taken, weight, backward = ctx.saved_tensors
        upstream = upstream.to(taken.dtype)
        of_weight = (taken.T @ upstream).view_as(weight).float()
        if not ctx.needs_input_grad[0]:
            return None, of_weight, None, None, None
        of_rows = gathered(upstream, backward) @ weight.transpose(1, 2).flatten(0, 1)
        return of_rows.float(), of_weight, None, None, None


class SparseConv(nn.Module):
    def __init__(self, inputs, outputs, kernel):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, *kernel, inputs))  # spconv 2's layout
        nn.init.normal_(self.weight, std=(2 / (inputs * 3 ** (sum(side > 1 for side in kernel) - 1))) ** 0.5)

    def forward(self, rows, rule, kind):
        weight = self.weight.permute(1, 2, 3, 4, 0).flatten(0, 2)  # [K, inputs, outputs]
        return Convolve.apply(rows, weight, rule.forward, rule.backward, kind)


def layer(inputs, outputs, kernel):
    return nn.ModuleList([SparseConv(inputs, outputs, kernel), nn.BatchNorm1d(outputs, EPS, MOMENTUM)])


class SparseEncoder(nn.Module):
    """mmdetection3d's SparseEncoder of conv_modules. Makes the dense map [B, C * nz, ny, nx]."""

    def __init__(self, config):
        super().__init__()
        self.shape, base = config["sparse_shape"], config["base_channels"]
        self.paddings = [
            [pad if isinstance(pad, tuple) else (pad,) * 3 for pad in level] for level in config["encoder_paddings"]
        ]
        self.conv_input = layer(config["in_channels"], base, (3, 3, 3))
        self.encoder_layers, inputs = nn.ModuleDict(), base
        for number, widths in enumerate(config["encoder_channels"]):
            level = nn.ModuleList()
            for width in widths:
                level.append(layer(inputs, width, (3, 3, 3)))
                inputs = width
            self.encoder_layers[f"encoder_layer{number + 1}"] = level
        self.conv_out = layer(inputs, config["output_channels"], (3, 1, 1))

    def forward(self, features, at, clouds):
        """features [S, C]; at [S, 4]: (cloud, z, y, x)."""
        device = features.device.type
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32
        with torch.autocast(device, enabled=False):
            return self.levels(features, at, clouds, kind)

    def levels(self, features, at, clouds, kind):
        def run(rows, part, rule, kind=kind):
            return torch.relu(part[1](part[0](rows, rule, kind)))

        rule = Rule(Cells(at, clouds, self.shape), (3, 3, 3))
        rows = run(features, self.conv_input, rule, torch.float32)  # bfloat16 would round 30.05 m to 30 m
        for number, (level, paddings) in enumerate(zip(self.encoder_layers.values(), self.paddings)):
            for place, (part, padding) in enumerate(zip(level, paddings)):
                lowers = number > 0 and place == 0
                if lowers:
                    rule = Rule(rule.outputs, (3, 3, 3), (2, 2, 2), padding)
                rows = run(rows, part, rule)
                if lowers:
                    rule = Rule(rule.outputs, (3, 3, 3))
        rule = Rule(rule.outputs, (3, 1, 1), (2, 1, 1))
        return self.dense(run(rows, self.conv_out, rule), rule.outputs)

    @staticmethod
    def dense(rows, cells):
        nz, ny, nx = cells.shape
        canvas = rows.new_zeros(cells.clouds * nz * ny * nx, rows.shape[1])
        canvas = canvas.index_put((cells.keys(cells.at),), rows)
        return canvas.view(cells.clouds, nz, ny, nx, -1).permute(0, 4, 1, 2, 3).flatten(1, 2)
