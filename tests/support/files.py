"""Writes numpy's structured arrays as PCD, PLY and serialized PointCloud2 messages."""

import struct

import numpy as np

PCD_TYPES = {"i": "I", "u": "U", "f": "F"}
PLY_TYPES = {
    "i1": "char",
    "u1": "uint8",
    "i2": "short",
    "u2": "ushort",
    "i4": "int",
    "u4": "uint32",
    "f4": "float",
    "f8": "double",
}
ROS_TYPES = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8}


def structured(columns, types=None, offsets=None, size=None):
    """One array of points from columns by name."""
    types = types or {}
    formats = [types.get(name, "<f4") for name in columns]
    layout = {"names": list(columns), "formats": formats}
    if offsets:
        layout |= {"offsets": offsets, "itemsize": size}
    count = len(next(iter(columns.values())))
    points = np.zeros(count, np.dtype(layout))
    for name, values in columns.items():
        points[name] = values
    return points


def _fields(points):
    """Yields (name, kind with size, number of values of one point) of each field."""
    for name in points.dtype.names:
        kind = points.dtype[name]
        yield name, kind.base.str[1:], int(np.prod(kind.shape, dtype=int))


def _lines(points):
    return "".join(
        " ".join(repr(value.item()) for name in points.dtype.names for value in np.ravel(point[name])) + "\n"
        for point in points
    ).encode()


def lzf_literal(data):
    return b"".join(bytes([len(data[at : at + 32]) - 1]) + data[at : at + 32] for at in range(0, len(data), 32))


def lzf(data):
    """LZF with references to earlier bytes."""
    out, literal, seen, at = bytearray(), bytearray(), {}, 0

    def flush():
        for begin in range(0, len(literal), 32):
            out.append(len(literal[begin : begin + 32]) - 1)
            out.extend(literal[begin : begin + 32])
        literal.clear()

    while at < len(data):
        key = data[at : at + 3]
        before = seen.get(key)
        seen[key] = at
        if len(key) < 3 or before is None or at - before > 8192:
            literal.append(data[at])
            at += 1
            continue
        length = 3
        while length < 264 and at + length < len(data) and data[before + length] == data[at + length]:
            length += 1
        flush()
        distance = at - before - 1
        if length - 2 < 7:
            out.append((length - 2) << 5 | distance >> 8)
        else:
            out += bytes([7 << 5 | distance >> 8, length - 9])
        out.append(distance & 255)
        at += length
    flush()
    return bytes(out)


def paged(body):
    """The file with zeros up to the end of its last page."""
    return body + bytes(-len(body) % 4096)


def pcd(points, data="binary", height=1, pack=lzf, **header):
    """A PCD file. `header` replaces lines of its header; None leaves a line out."""
    fields = list(_fields(points))
    lines = {
        "VERSION": "0.7",
        "FIELDS": " ".join(name if not name.startswith("_") else "_" for name, _, _ in fields),
        "SIZE": " ".join(kind[1:] for _, kind, _ in fields),
        "TYPE": " ".join(PCD_TYPES[kind[0]] for _, kind, _ in fields),
        "COUNT": " ".join(str(count) for _, _, count in fields),
        "WIDTH": len(points) // height,
        "HEIGHT": height,
        "VIEWPOINT": "0 0 0 1 0 0 0",
        "POINTS": len(points),
        "DATA": data,
    } | header
    head = "# .PCD v0.7 - Point Cloud Data file format\n" + "".join(
        f"{key} {value}\n" for key, value in lines.items() if value is not None
    )
    body = _lines(points) if data == "ascii" else points.tobytes()
    if data == "binary_compressed":
        body = b"".join(np.ascontiguousarray(points[name]).tobytes() for name, _, _ in fields if name[0] != "_")
        packed = pack(body)
        body = struct.pack("<II", len(packed), len(body)) + packed
    return head.encode() + body


def ply(points, data="binary_little_endian", before=b"", before_head="", behind_head="", behind=b"", ends="\n"):
    """A PLY file, with the points in the array's own byte order."""
    head = f"ply\nformat {data} 1.0\ncomment by hand\n{before_head}element vertex {len(points)}\n"
    head += "".join(f"property {PLY_TYPES[kind]} {name}\n" for name, kind, _ in _fields(points))
    head += behind_head + "end_header\n"
    body = _lines(points) if data == "ascii" else points.tobytes()
    return head.replace("\n", ends).encode() + before + body + behind


def pointcloud2(
    points,
    height=1,
    padding=0,
    big_header=False,
    big_points=0,
    frame="lidar",
    tail=b"",
    xcdr2=False,
    stamp=(1700000000, 5),
    packed=None,
    **numbers,
):
    """A serialized PointCloud2; a CompressedPointCloud2 if `packed` is given, which is a pair: format, function that
    compresses the data. `padding` bytes follow each row; `numbers` replace numbers of the message."""
    order = ">" if big_header else "<"
    out = bytearray([0, (6 if xcdr2 else 0) + (not big_header), 0, 0])

    def put(code, *values):
        align = struct.calcsize(code)
        out.extend(bytes(-(len(out) - 4) % align))
        for value in values:
            out.extend(struct.pack(order + code, value))

    def text(value):
        put("I", len(value) + 1)
        out.extend(value.encode() + b"\0")

    width, step = len(points) // height, points.dtype.itemsize
    rows = np.frombuffer(points.tobytes(), np.uint8).reshape(height, width * step)
    data = np.pad(rows, ((0, 0), (0, padding)), constant_values=0xAA).tobytes()
    if packed:
        data = packed[1](data)
    put("I", *stamp)
    text(frame)
    put("I", numbers.get("height", height), numbers.get("width", width))
    begin = len(out)
    put("I", len(points.dtype.names))
    for name, kind, count in _fields(points):
        text(name)
        put("I", numbers.get("offset", points.dtype.fields[name][1]))
        put("B", numbers.get("datatype", ROS_TYPES[kind]))
        put("I", numbers.get("count", count))
    if xcdr2:  # the size of the list of fields comes before the list
        out[begin:begin] = struct.pack(order + "I", len(out) - begin)
    put("B", big_points)
    put("I", numbers.get("point_step", step), numbers.get("row_step", width * step + padding))
    put("I", numbers.get("data", len(data)))
    out.extend(data)
    put("B", 1)
    if packed:
        text(packed[0])
    return bytes(out) + tail
