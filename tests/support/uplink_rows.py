"""The rows of packed bodies, computed only from the rules of the filters; and points to pack."""

import gzip
import itertools
import math

import numpy as np

from voxeld import Packed, encodings

WIDTHS = {"int32": 4, "float32": 4, "float16": 2}


def turns(rng, lasers, count):
    """Points of a turning sensor between rough walls, in whole millimetres: one turn, laser by laser."""
    azimuths = np.tile(np.linspace(-np.pi, np.pi, count), lasers)
    elevations = np.repeat(np.linspace(-0.4, 0.05, lasers), count)
    distances = rng.uniform(4, 40, azimuths.size).round(-1) + rng.normal(9, 0.03, azimuths.size)
    rows = [distances * np.cos(azimuths), distances * np.sin(azimuths), distances * np.tan(elevations)]
    return (np.rint(1000 * np.column_stack([*rows, rng.integers(0, 9, azimuths.size)])) / 1000 + 0.0).astype(np.float32)


def request(body, query):
    """A Packed request with an uncompressed body. The values of `query` are texts."""
    columns = int(query["num_features"])
    types = tuple(query["dtype"].split(","))
    query = {**query, "num_features": columns, "dtype": types if len(types) > 1 else types * columns}
    if "scale" in query:
        query["scale"] = tuple(map(float, query["scale"].split(",")))
    return Packed([body], query)


def decoded(packed):
    body, decoded = b"".join(packed.body), b""
    if packed.headers.get("Content-Encoding") != "zstd":
        return gzip.decompress(body) if packed.headers else body
    while body:
        decoder = encodings._decompressor("zstd")
        decoded += decoder.decompress(body)
        assert decoder.eof
        body = decoder.unused_data
    return decoded


def wrapped(number):
    return (number + 2**31) % 2**32 - 2**31


def turned(rests):
    """Undoes the filter `direction` on the first three columns."""
    rows = [(0, 0, 0), (0, 0, 0)]
    for number, (first, *others) in enumerate(zip(*rests)):
        older, last = rows[-2:]
        if number % 64 == 0:
            lead = 0 if abs(last[0]) >= abs(last[1]) else 1
        row = [0, 0, 0]
        row[lead] = wrapped(last[lead] + first)
        for column, rest in zip((1 - lead, 2), others):
            try:
                guess = 2 * (last[column] * (row[lead] / last[lead])) - older[column] * (row[lead] / older[lead])
            except ZeroDivisionError:
                guess = math.inf
            guess = round(guess) if abs(guess) < 2**31 else 2**31
            row[column] = wrapped((guess if abs(guess) < 2**31 else last[column]) + rest)
        rows.append(tuple(row))
    return list(zip(*rows[2:])) or [(), (), ()]


def restored(packed):
    """The rows of float32 that the service makes. Slow: some filters go row by row."""
    query, body = packed.query, decoded(packed)
    columns = query["num_features"]
    types = query["dtype"] if isinstance(query["dtype"], tuple) else (query["dtype"],) * columns
    scale = query.get("scale", (1.0,) * columns)
    widths = [WIDTHS[dtype] for dtype in types]
    row = sum(widths)
    count, rest = divmod(len(body), row)
    assert not rest
    rows = np.frombuffer(body, np.uint8).reshape(row, count).T if "shuffle" in query["filter"] else None
    out, start, filters, read = np.empty((count, columns), np.float32), 0, query["filter"].split(","), []
    for column, (dtype, width) in enumerate(zip(types, widths)):
        raw = np.ascontiguousarray(rows[:, start : start + width]).view(np.dtype(dtype).newbyteorder("<"))[:, 0]
        start += width
        if "shuffle" != filters[0]:
            assert dtype == "int32"
            raw = [(value >> 1) ^ -(value & 1) for value in raw.view(np.uint32).tolist()]
            if "delta" in filters or column > 2:
                raw = [wrapped(total) for total in itertools.accumulate(raw)]
        read.append(raw)
    if "direction" in filters:
        read[:3] = turned(read[:3])
    for column, raw in enumerate(read):
        # Without a scale the bits of floats are not touched.
        raw = np.array(raw, np.int32) if filters[0] != "shuffle" else raw
        out[:, column] = raw if scale[column] == 1 else (raw.astype(np.float64) * scale[column]).astype(np.float32)
    return out
