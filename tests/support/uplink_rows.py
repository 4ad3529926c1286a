"""What the service makes of small bodies, written only from the rules of the filters. Not fast."""

import gzip
import math

import numpy as np

from voxeld import Packed, encodings

WIDTHS = {"int32": 4, "float32": 4, "float16": 2}


def request(body, query):
    """A request with a body that is not compressed, and a query of texts, as voxeld.pack describes it."""
    columns = int(query["num_features"])
    types = tuple(query["dtype"].split(","))
    query = {**query, "num_features": columns, "dtype": types if len(types) > 1 else types * columns}
    if "scale" in query:
        query["scale"] = tuple(map(float, query["scale"].split(",")))
    return Packed([body], query)


def decoded(packed):
    """The decompressed body."""
    body, decoded = b"".join(packed.body), b""
    if packed.headers.get("Content-Encoding") != "zstd":
        return gzip.decompress(body) if packed.headers else body
    while body:
        decoder = encodings._decompressor("zstd")
        decoded += decoder.decompress(body)
        assert decoder.eof
        body = decoder.unused_data
    return decoded


def summed(rests, before=None):
    """The numbers of an int32 column: the number before plus the rest, or, if `before` has the columns x and y, its
    guess for this row plus the rest."""
    sums, last = [], 0
    distances = [math.sqrt(float(x * x) + float(y * y)) for x, y in zip(*before)] if before else []
    for row, rest in enumerate(rests):
        if row and before and distances[row - 1]:
            guess = last * (distances[row] / distances[row - 1])
            last = round(guess) if abs(guess) < 2**31 else last
        last = (last + rest + 2**31) % 2**32 - 2**31
        sums.append(last)
    return sums


def restored(packed):
    """The rows of float32 that the service makes, written from the rules of the filters: row by row where that is
    slow, since it need not be fast."""
    query, body = packed.query, decoded(packed)
    columns = query["num_features"]
    types = query["dtype"] if isinstance(query["dtype"], tuple) else (query["dtype"],) * columns
    scale = query.get("scale", (1.0,) * columns)
    widths = [WIDTHS[dtype] for dtype in types]
    row = sum(widths)
    count, rest = divmod(len(body), row)
    assert not rest
    rows = np.frombuffer(body, np.uint8).reshape(row, count).T if "shuffle" in query["filter"] else None
    out, start, numbers = np.empty((count, columns), np.float32), 0, []
    for column, (dtype, width) in enumerate(zip(types, widths)):
        raw = np.ascontiguousarray(rows[:, start : start + width]).view(np.dtype(dtype).newbyteorder("<"))[:, 0]
        start += width
        if "delta" in query["filter"] or "elevation" in query["filter"]:
            assert dtype == "int32"
            before = numbers if "elevation" in query["filter"] and column == 2 else None
            numbers.append(summed([(value >> 1) ^ -(value & 1) for value in raw.view(np.uint32).tolist()], before))
            raw = np.array(numbers[-1], np.int32)
        # Without a scale the bits of floats are not touched.
        out[:, column] = raw if scale[column] == 1 else (raw.astype(np.float64) * scale[column]).astype(np.float32)
    return out
