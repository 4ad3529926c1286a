"""Makes the points of a request small, for slow links. A column of numbers that are whole multiples of a scale goes as
integers, another column as float32. The bytes are shuffled, and compressed with zstd or gzip.

"auto" loses nothing: it sends a column as integers only if they restore every number bit for bit. A resolution rounds,
and the report has the largest error. No point is dropped."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from .encodings import HEADER, encoder_of, fastest
from .points import Points, body_of

AUTO = "auto"
SCALES = tuple(float(f"1e-{digits}") for digits in range(7))  # the coarsest first
LARGEST = 2**31 - 1  # of an int32; the least is not used
DTYPES: Dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2")}
COLUMNS = 4  # the service's default of num_features
RAW = "raw"
DESCRIBED = ("format", "scale", "filter")  # parameters of a body that the caller has packed
SAMPLE = 4096  # consecutive rows: most columns without a scale, and bodies that integers make larger, show there

Uplink = Union[str, float, Sequence[float]]
Floats = NDArray[np.float32]
Columns = NDArray[np.int32]  # [C, N]: integers, or the bits of floats


@dataclass(frozen=True)
class Sent:
    """How points were sent.

    dtype          the type of each column; empty if the body was compressed as it was, such as a PCD file, and for the
                   sum of several requests
    scale          the factor of each column; 1 for floats; empty if all columns are floats
    encoding       zstd or gzip; "" if the body is empty
    plain_bytes    the size of the points as the caller gave them
    sent_bytes     the size of the body
    largest_error  the largest difference between a number that was given and the number that the service restores
    """

    dtype: Tuple[str, ...]
    scale: Tuple[float, ...]
    encoding: str
    plain_bytes: int
    sent_bytes: int
    largest_error: float = 0.0

    @property
    def ratio(self) -> float:
        """sent_bytes as a part of plain_bytes; 1 if there are no points."""
        return self.sent_bytes / self.plain_bytes if self.plain_bytes else 1.0

    def __add__(self, other: Sent) -> Sent:
        sizes = (self.plain_bytes + other.plain_bytes, self.sent_bytes + other.sent_bytes)
        return Sent((), (), other.encoding, *sizes, max(self.largest_error, other.largest_error))


class Packed(NamedTuple):
    body: List[memoryview]
    query: Dict[str, Any]  # parameters that replace those of the same names
    headers: Dict[str, str]
    report: Optional[Sent]  # None if the points are sent as they are


class _Column(NamedTuple):
    values: Columns
    scale: float
    error: float


class Packer:
    """Threads may share a packer. ValueError if `uplink` or `encoding` is not allowed.

    encoding  zstd or gzip
    total     of all points that were packed
    """

    def __init__(self, uplink: Uplink, encoding: Optional[str] = None) -> None:
        self._resolutions = _resolutions_of(uplink)
        self.encoding = encoding or fastest()
        encoder = encoder_of(self.encoding)
        assert encoder is not None
        self._encode = encoder
        self.total = Sent((), (), self.encoding, 0, 0)
        self._lock = threading.Lock()

    def pack(self, body: List[memoryview], given: Mapping[str, Any]) -> Packed:
        """The request for points and the parameters that describe them. ValueError if the points are not rows of
        num_features columns, if there is not one resolution for each column, or if int32 cannot hold a number in units
        of its resolution."""
        plain = sum(piece.nbytes for piece in body)
        if not plain:
            return Packed([], {}, {}, Sent((), (), "", 0, 0))
        dtype = str(given.get("dtype", "float32"))
        if dtype not in DTYPES or any(given.get(name, RAW) != RAW for name in DESCRIBED):
            return self._packed(body, {}, Sent((), (), self.encoding, plain, 0))
        rows = np.frombuffer(body[0] if len(body) == 1 else b"".join(body), np.uint8)
        names = _names(given)
        columns = len(names) or int(given.get("num_features", COLUMNS))
        if plain % (columns * DTYPES[dtype].itemsize):
            raise ValueError(f"the points have {plain} bytes, which are not rows of {columns} columns of {dtype}")
        values = np.ascontiguousarray(rows.view(DTYPES[dtype]).reshape(-1, columns).T)
        if dtype == "float16" and self._resolutions is None:
            packed = self._planes(values, plain, [None] * columns, dtype, "shuffle")
        else:
            times = names.index(given["time_field"]) if given.get("time_field") in names else None
            packed = self._numbers(values.astype("<f4", copy=False), plain, times)
        if not names:  # so that a preset that has changed is noticed
            packed.query["num_features"] = columns
        return packed

    def _numbers(self, floats: Floats, plain: int, times: Optional[int]) -> Packed:
        """`times` is the number of the column of times. "auto" sends it as floats: the service reads times of float32
        rows as float32, but times of integers as double."""
        resolutions = self._of_columns(len(floats))
        columns = [
            None if number == times and resolution is None else _column(number, values, resolution)
            for number, (values, resolution) in enumerate(zip(floats, resolutions))
        ]
        bits = floats.view("<i4")
        values, filters = _filtered(columns, bits)
        if self._resolutions is None and any(columns) and not self._pays(values, bits):
            columns, values, filters = [None] * len(columns), bits, "shuffle"
        return self._planes(values, plain, columns, "float32", filters)

    def _planes(
        self, values: NDArray[Any], plain: int, columns: Sequence[Optional[_Column]], floats: str, filters: str
    ) -> Packed:
        """The request for shuffled values [C, N]. `floats` is the type of the columns that are not integers."""
        dtype = tuple("int32" if column else floats for column in columns)
        scale = tuple(column.scale if column else 1.0 for column in columns) if any(columns) else ()
        error = max(column.error if column else 0.0 for column in columns)
        query: Dict[str, Any] = {"dtype": dtype if len(set(dtype)) > 1 else dtype[0], "filter": filters}
        if scale:
            query["scale"] = scale
        return self._packed([_shuffled(values)], query, Sent(dtype, scale, self.encoding, plain, 0, error))

    def _packed(self, body: List[memoryview], query: Dict[str, Any], sent: Sent) -> Packed:
        coded = self._encode(body)
        sent = replace(sent, sent_bytes=sum(piece.nbytes for piece in coded))
        with self._lock:
            self.total += sent
        return Packed(coded, query, {HEADER: self.encoding}, sent)

    def _of_columns(self, count: int) -> Sequence[Optional[float]]:
        if self._resolutions is None or len(self._resolutions) == 1:
            return (self._resolutions or (None,)) * count
        if len(self._resolutions) != count:
            raise ValueError(f"uplink has {len(self._resolutions)} resolutions for {count} columns")
        return self._resolutions

    def _pays(self, values: Columns, bits: Columns) -> bool:
        """Whether the integers of the sample are smaller than its floats."""
        integers, floats = (self._encode([_shuffled(_sample(kind))]) for kind in (values, bits))
        return sum(piece.nbytes for piece in integers) < sum(piece.nbytes for piece in floats)


def pack(points: Points, uplink: Uplink = AUTO, encoding: Optional[str] = None, **given: Any) -> Packed:
    """The body, parameters and headers of a request for points as Client.voxelize takes them, for programs that send
    requests themselves. `given` has parameters that describe the points, such as num_features."""
    body, described = body_of(points, given)
    packed = Packer(uplink, encoding).pack(body, {**given, **described})
    return packed._replace(query={**described, **packed.query})


def _resolutions_of(uplink: Uplink) -> Optional[Tuple[float, ...]]:
    """None for "auto"."""
    if isinstance(uplink, str) and uplink == AUTO:
        return None
    numbers = np.asarray(uplink)
    sound = numbers.dtype.kind in "iuf" and numbers.ndim <= 1 and numbers.size
    if not sound or not all(0 < number < math.inf for number in numbers.ravel().tolist()):
        raise ValueError(f'uplink is {uplink!r}; expected "auto", or a resolution above 0, or one for each column')
    return tuple(float(number) for number in numbers.ravel())


def _names(given: Mapping[str, Any]) -> List[str]:
    fields = given.get("fields", ())
    return fields.split(",") if isinstance(fields, str) else list(fields)


def _column(number: int, values: Floats, resolution: Optional[float]) -> Optional[_Column]:
    """The integers of a column; None if it goes as floats."""
    if not np.isfinite(values).all():
        return None
    for scale in SCALES:
        if scale >= (resolution or 0.0) and _exact(_sample(values), scale):
            if column := _exact(values, scale):
                return column
    if resolution is None:
        return None
    column = _rounded(values, resolution)
    if column is None:
        worst = float(np.abs(values).max())
        raise ValueError(f"column {number} reaches {worst:g}, which int32 cannot hold in units of {resolution:g}")
    return column


def _sample(values: NDArray[Any]) -> NDArray[Any]:
    start = max(0, (values.shape[-1] - SAMPLE) // 2)
    return values[..., start : start + SAMPLE]


def _exact(values: Floats, scale: float) -> Optional[_Column]:
    """The column if its integers restore every bit."""
    column = _rounded(values, scale)
    same = column and np.array_equal(_restored(column.values, scale).view(np.int32), values.view(np.int32))
    return column if same else None


def _rounded(values: Floats, scale: float) -> Optional[_Column]:
    """None if int32 or, after the service's multiplication, float32 cannot hold a number."""
    with np.errstate(over="ignore"):
        units = np.rint(values.astype(np.float64) / scale)
        if not max(-units.min(), units.max()) <= LARGEST:
            return None
        integers = units.astype("<i4")
        error = float(np.abs(_restored(integers, scale).astype(np.float64) - values).max())
    return _Column(integers, scale, error) if error < math.inf else None


def _restored(integers: Columns, scale: float) -> Floats:
    """The numbers as the service restores them."""
    return (integers.astype(np.float64) * scale).astype(np.float32)


def _filtered(columns: List[Optional[_Column]], bits: Columns) -> Tuple[Columns, str]:
    """The values to shuffle, and the filters. The service takes deltas of integers only."""
    if not any(columns):
        return bits, "shuffle"
    values = np.stack([column.values if column else floats for column, floats in zip(columns, bits)])
    if not all(columns):
        return values, "shuffle"
    deltas = np.diff(values, axis=1, prepend=np.int32(0))  # wraps, as the service's sums do
    return (deltas << 1) ^ (deltas >> 31), "delta,shuffle"


def _shuffled(values: NDArray[Any]) -> memoryview:
    """The bytes of columns [C, N] as planes: first the lowest byte of all numbers of the first column."""
    width = values.dtype.itemsize
    planes = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, width).transpose(0, 2, 1)
    return np.ascontiguousarray(planes).reshape(-1).data
