"""Writes blobs in the formats 2 to 5 of cloudini, a compressor of point clouds, and gives the points that a reader must
find in them."""

import struct

import numpy as np

import codings

CHUNK = 32768
ENCODINGS, COMPRESSORS = ("NONE", "LOSSY", "LOSSLESS"), ("NONE", "LZ4", "ZSTD")
TYPES = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8, "i8": 9, "u8": 10}
WORDS = dict(zip(TYPES, ("INT8 UINT8 INT16 UINT16 INT32 UINT32 FLOAT32 FLOAT64 INT64 UINT64").split()))
MODES = ("deltas", "palette", "runs", "delta runs")


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def delta(number):
    """The difference, wrapped to int64, as a varint of its zigzag code + 1."""
    number = (number + 2**63) % 2**64 - 2**63
    return varint(((number << 1) ^ (number >> 63)) + 1)


def deltas(values):
    return [delta(value - before) for before, value in zip([0, *values], values)]


def window(values):
    """Gorilla coding of the bits of float64 numbers: XORs with the number before, without the zeros at both ends."""
    out, before, leading, length = [struct.pack("<Q", values[0])], values[0], None, None
    for value in values[1:]:
        bits, place, differs = 0, 0, value ^ before

        def put(number, count):
            nonlocal bits, place
            bits |= number << place
            place += count

        put(bool(differs), 1)
        if differs:
            begins, ends = min(64 - differs.bit_length(), 31), (differs & -differs).bit_length() - 1
            reused = leading is not None and begins >= leading and 64 - leading - length <= ends
            put(not reused, 1)
            if not reused:
                leading, length = begins, 64 - begins - ends
                put(leading, 5)
                put(length - 1, 6)
            put(differs >> (64 - leading - length), length)
        out.append(bits.to_bytes((place + 7) // 8, "little"))
        before = value
    return out


def multiples(values, resolution):
    return [None if np.isnan(value) else int(np.rint(float(value) / float(resolution))) for value in values]


def rounded(values, resolution):
    out, before = [], 0
    for number in multiples(values, resolution):
        out.append(b"\0" if number is None else delta(number - before))
        before = number or 0
    return out


def xored(values, size):
    return [(value ^ before).to_bytes(size, "little") for before, value in zip([0, *values], values)]


def runs_of(values):
    runs = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return runs


def behind(column, mode):
    """A column of integers that is written after the points instead of in each point."""
    values, size = [int(value) for value in column], column.dtype.itemsize
    raw = lambda value: (value % 2 ** (8 * size)).to_bytes(size, "little")
    head = bytes([MODES.index(mode)])
    if mode == "deltas":
        return head + b"".join(deltas(values))
    if mode == "palette":
        palette = sorted(set(values))
        width, bits = (len(palette) - 1).bit_length(), 0
        for place, value in enumerate(values):
            bits |= palette.index(value) << place * width
        indexes = bits.to_bytes((width * len(values) + 7) // 8, "little")
        return head + struct.pack("<H", len(palette)) + b"".join(map(raw, palette)) + indexes
    if mode == "runs":
        runs = runs_of(values)
        body = b"".join(raw(value) + varint(count) for value, count in runs)
    else:
        runs = runs_of([value - before for before, value in zip([0, *values], values)])
        body = b"".join(delta(step) + varint(count) for step, count in runs)
    return head + struct.pack("<I", len(runs)) + body


def is_behind(kind, version, encoding):
    return version >= 5 and encoding == "LOSSY" and kind[0] in "iu" and kind[1] != "1"


def pieces(column, version, encoding, resolution):
    """The bytes of each value of a column that is written in each point."""
    kind, size = column.dtype.str[1:], column.dtype.itemsize
    bits = [int(value) for value in column.view(f"<u{size}")]
    if kind == "f4" and encoding == "LOSSY" and resolution:
        return rounded(column, resolution)
    if kind == "f8" and encoding != "NONE":
        if resolution and encoding == "LOSSY":
            return rounded(column, resolution)
        return window(bits) if version >= 4 and not resolution else xored(bits, 8)
    if kind == "f4" and encoding == "LOSSLESS":
        return xored(bits, 4)
    if kind[0] in "iu" and size > 1 and encoding != "NONE":
        return deltas([int(value) for value in column])
    return [value.to_bytes(size, "little") for value in bits]


def chunk(points, version, encoding, resolutions, mode):
    columns = [np.ascontiguousarray(points[name]) for name in points.dtype.names]
    last = [is_behind(column.dtype.str[1:], version, encoding) for column in columns]
    first = [
        pieces(column, version, encoding, resolutions.get(name))
        for name, column, later in zip(points.dtype.names, columns, last)
        if not later
    ]
    out = b"".join(value for point in zip(*first) for value in point)
    return out + b"".join(behind(column, mode) for column, later in zip(columns, last) if later)


def lz4_block(data):
    """A block of one run of literals."""
    count = len(data) - 15
    more = b"\xff" * (count // 255) + bytes([count % 255]) if count >= 0 else b""
    return bytes([min(len(data), 15) << 4]) + more + data


PACKERS = {"NONE": bytes, "LZ4": lz4_block, "ZSTD": codings.zstd}


def text_head(dtype, version, encoding, compressor, resolutions, width, height):
    lines = [f"version: {version}", f"width: {width}", f"height: {height}", f"point_step: {dtype.itemsize}"]
    lines += [f"encoding_opt: {encoding}", f"compression_opt: {compressor}", "fields:"]
    for name in dtype.names:
        kind, offset = dtype.fields[name]
        lines += [f"  - name: {name}", f"    offset: {offset}", f"    type: {WORDS[kind.str[1:]]}"]
        lines.append(f"    resolution: {resolutions.get(name) or 'null'}")
    return b"\n" + "\n".join(lines).encode() + b"\n\0"


def binary_head(dtype, encoding, compressor, resolutions, width, height):
    out = struct.pack("<3I", width, height, dtype.itemsize)
    out += bytes([ENCODINGS.index(encoding), COMPRESSORS.index(compressor)]) + struct.pack("<H", len(dtype.names))
    for name in dtype.names:
        kind, offset = dtype.fields[name]
        out += struct.pack("<H", len(name)) + name.encode()
        out += struct.pack("<IBf", offset, TYPES[kind.str[1:]], resolutions.get(name) or 0)
    return out


def blob(points, version=5, encoding="LOSSY", compressor="ZSTD", resolutions=None, mode="deltas", text=True, height=1):
    resolutions = resolutions or {}
    width = len(points) // height
    out = b"CLOUDINI_V%02d" % version
    if text and version > 2:
        out += text_head(points.dtype, version, encoding, compressor, resolutions, width, height)
    else:
        out += binary_head(points.dtype, encoding, compressor, resolutions, width, height)
    step = CHUNK if version > 2 else max(len(points), 1)
    for begin in range(0, len(points), step):
        packed = PACKERS[compressor](chunk(points[begin : begin + step], version, encoding, resolutions, mode))
        out += packed if version == 2 else struct.pack("<I", len(packed)) + packed
    return out


def wraps(points, resolutions):
    """The names of the rounded float32 columns at the start of a point, if there are exactly 3 or 4: a reader sums
    their differences in 32 bits, which wrap."""
    names = list(points.dtype.names)
    count = 0
    while count < len(names) and points.dtype[names[count]] == "<f4" and resolutions.get(names[count]):
        count += 1
    return names[:count] if count in (3, 4) else []


def read(points, encoding, resolutions):
    """The points that a reader must find: with LOSSY, floats with a resolution are multiples of it."""
    out, wrapping = points.copy(), wraps(points, resolutions)
    for name, resolution in resolutions.items():
        kind = points[name].dtype
        if kind.kind != "f" or encoding != "LOSSY" or not resolution:
            continue
        numbers = multiples(points[name], resolution)
        if name in wrapping:
            numbers = [number if number is None else (number + 2**31) % 2**32 - 2**31 for number in numbers]
        unit = np.float32(resolution).astype(kind)
        out[name] = [np.nan if number is None else kind.type(number) * unit for number in numbers]
    return out
