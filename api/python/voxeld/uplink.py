"""Makes the points of a request small, for slow links. A column whose numbers are whole multiples of a scale is sent as
these multiples, int32 or float32; any other column as floats. The bytes are shuffled, and compressed with zstd or gzip.

"auto" loses nothing: it sends a column as multiples only if they restore every number. A resolution rounds, and the
report has the largest error.

The head of a request has the type and the scale of each column, so the packer finds them before it sends. The bytes of
a large body are made while they are sent."""

from __future__ import annotations

import math
import re
import threading
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from .encodings import HEADER, encoder_of, fastest
from .parameters import text_of
from .points import Points, body_of

AUTO = "auto"
SCALES = tuple(float(f"1e-{digits}") for digits in range(7))  # the coarsest first
LARGEST = 2**31 - 1  # of an int32; -2**31 is not used
DTYPES: Dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2")}
COLUMNS = 4  # the service's default of num_features
XYZ = 3  # columns of a position
RAW = "raw"
DESCRIBED = ("format", "scale", "filter")  # parameters of a body that the caller has packed
ROWS = ("num_features", "dtype", "fields", "time_field", *DESCRIBED)  # parameters that say what a row is
SAMPLE = 4096  # rows that show whether multiples make the body smaller
KEPT = 1 << 25  # bytes of the largest array whose memory a thread keeps
RUN = 64  # rows with the same leading column in the filter `direction`
FIRST = 1 << 8  # rows that are rounded first: they usually show that a scale is too coarse
BLOCK = 1 << 14  # rows that are rounded at a time, to stay in a processor's cache
PIECE = 1 << 16  # bytes to compress at a time, at most: such a piece compresses well, and is decoded fast

Uplink = Union[str, float, Sequence[float]]
Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
INTEGER, FLOAT = np.dtype("<i4"), DTYPES["float32"]
NEGATIVE_ZERO = np.float32(-0.0).view(np.int32)


@dataclass(frozen=True)
class Sent:
    """How points were sent.

    dtype          the type of each column; empty if the body was only compressed, and in Packer.total
    scale          the factor of each column, 1 for a column of floats; empty if all columns are floats
    encoding       zstd or gzip; "" if the body is empty
    plain_bytes    the size of the points as the caller gave them
    sent_bytes     the size of the body
    largest_error  the largest difference between a given number and the number that the service restores
    """

    dtype: Tuple[str, ...]
    scale: Tuple[float, ...]
    encoding: str
    plain_bytes: int
    sent_bytes: int
    largest_error: float = 0.0

    @property
    def ratio(self) -> float:
        """sent_bytes / plain_bytes; 1 if there are no points."""
        return self.sent_bytes / self.plain_bytes if self.plain_bytes else 1.0

    def __add__(self, other: Sent) -> Sent:
        sizes = (self.plain_bytes + other.plain_bytes, self.sent_bytes + other.sent_bytes)
        return Sent((), (), other.encoding, *sizes, max(self.largest_error, other.largest_error))


@dataclass
class Packed:
    """A request for points.

    body     pieces; a list from pack(). A Packer may make pieces while the body is sent, and keeps them for another
             attempt. Until the body is complete, this thread must not pack other points with the same Packer.
    query    parameters that replace those of the same names
    headers  of the body
    report   None if the points are sent as they are; complete as soon as the body is
    """

    body: Iterable[memoryview]
    query: Dict[str, Any] = field(default_factory=dict)
    headers: Dict[str, str] = field(default_factory=dict)
    report: Optional[Sent] = None


class _Repeatable:
    """Keeps the pieces that an iterator gives, so that they can be iterated again, even after a partial iteration."""

    def __init__(self, rest: Iterator[memoryview]) -> None:
        self._made: List[memoryview] = []
        self._rest = rest

    def __iter__(self) -> Iterator[memoryview]:
        yield from self._made
        for piece in self._rest:
            self._made.append(piece)
            yield piece


class _Column(NamedTuple):
    multiples: NDArray[Any]  # int32 or float32
    scale: float
    error: Optional[float]  # None: of rounded multiples, which _shuffled writes

    def largest_error(self, values: Floats) -> float:
        """The multiples must be written."""
        return _error(values, self.scale, self.multiples) if self.error is None else self.error


class _Rooms(threading.local):
    """Memory that a thread keeps for its next points, because fresh memory takes longer than writing the numbers."""

    def __init__(self) -> None:
        self._kept: Dict[str, NDArray[np.uint8]] = {}

    def take(self, name: str, shape: Tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An uninitialized array, in the kept memory of this name if it fits."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        room = self._kept.get(name)
        if room is None or room.nbytes < size:
            room = np.empty(size, np.uint8)
            if size <= KEPT:
                self._kept[name] = room
        array: NDArray[Any] = room[:size].view(dtype).reshape(shape)
        return array


class Packer:
    """Packs the points of requests. Any thread. ValueError if `uplink` or `encoding` is not allowed.

    encoding  zstd or gzip
    total     the sum of the reports of all requests
    """

    def __init__(self, uplink: Uplink, encoding: Optional[str] = None) -> None:
        self._resolutions = _resolutions_of(uplink)
        self.encoding = encoding or fastest()
        encoder = encoder_of(self.encoding)
        assert encoder is not None
        self._encode = encoder
        self.total = Sent((), (), self.encoding, 0, 0)
        self._lock = threading.Lock()
        self._rooms = _Rooms()

    def pack(self, body: List[memoryview], given: Optional[Mapping[str, Any]]) -> Packed:
        """The request for points. `given`: all parameters that describe the points; if it is None, the body is only
        compressed. ValueError if the points are not rows of num_features columns, if `uplink` has another number of
        resolutions, or if int32 cannot hold a number in units of its resolution."""
        plain = sum(piece.nbytes for piece in body)
        if not plain:
            return Packed([], report=Sent((), (), "", 0, 0))
        if given is None or (dtype := _dtype_of(given)) is None or not (columns := _columns_of(given)):
            packed = Packed([], {}, {HEADER: self.encoding}, Sent((), (), self.encoding, plain, 0))
            packed.body = list(self._coded(packed, [body]))
            return packed
        rows = np.frombuffer(body[0] if len(body) == 1 else b"".join(body), np.uint8)
        names = _names(given)
        if plain % (columns * DTYPES[dtype].itemsize):
            raise ValueError(f"the points have {plain} bytes, which are not rows of {columns} columns of {dtype}")
        table = rows.view(DTYPES[dtype]).reshape(-1, columns).T
        values = self._rooms.take("values", table.shape, table.dtype)
        values[:] = table
        if dtype == "float16" and self._resolutions is None:
            packed = self._planes(values, plain, [None] * columns)
        else:
            times = names.index(given["time_field"]) if given.get("time_field") in names else None
            packed = self._numbers(values.astype("<f4", copy=False), plain, times)
        if not names:  # so that the service notices if the preset's num_features has changed
            packed.query["num_features"] = columns
        return packed

    def _numbers(self, floats: Floats, plain: int, times: Optional[int]) -> Packed:
        """`times`: the number of the column of times, or None. "auto" sends times as floats, since the service reads
        integer times as double, but float32 times as float32."""
        resolutions = self._of_columns(len(floats))
        rooms = self._rooms.take("multiples", floats.shape, INTEGER)
        columns = [
            None if number == times and resolution is None else _column(number, values, resolution, room)
            for number, (values, resolution, room) in enumerate(zip(floats, resolutions, rooms))
        ]
        if self._resolutions is None and any(columns) and not self._pays(floats, columns):
            columns = [None] * len(columns)
        return self._planes(floats, plain, columns)

    def _planes(self, floats: NDArray[Any], plain: int, columns: Sequence[Optional[_Column]]) -> Packed:
        """The request for shuffled columns. A column that is None in `columns` is sent as it is in `floats` [C,N]."""
        kinds = [column.multiples.dtype if column else floats.dtype for column in columns]
        dtype = tuple(kind.name for kind in kinds)
        scale = tuple(column.scale if column else 1.0 for column in columns) if any(columns) else ()
        query: Dict[str, Any] = {"filter": "shuffle"}
        if set(kinds) == {INTEGER}:  # the service takes deltas only of integers
            query["filter"] = "direction,shuffle" if _turns(floats, columns) else "delta,shuffle"
        query["dtype"] = dtype if len(set(dtype)) > 1 else dtype[0]
        if scale:
            query["scale"] = scale
        packed = Packed([], query, {HEADER: self.encoding}, Sent(dtype, scale, self.encoding, plain, 0))
        pieces = self._coded(packed, _pieces(self._shuffled(packed, floats, columns)))
        packed.body = _Repeatable(pieces) if plain > PIECE else list(pieces)
        return packed

    def _shuffled(
        self, packed: Packed, floats: NDArray[Any], columns: Sequence[Optional[_Column]]
    ) -> Iterator[NDArray[np.uint8]]:
        """Yields the planes of the columns. Sets the report's largest error at the end."""
        planes = self._rooms.take("planes", (len(floats), floats.dtype.itemsize, floats.shape[1]), np.uint8)

        columns_of = list(zip(floats, columns))
        chosen = _FILTERS[packed.query["filter"]]
        sent: List[NDArray[Any]] = []
        for number, place in enumerate(planes):
            # Only the columns that these planes need, so that the first bytes leave early.
            for values, column in columns_of[len(sent) : max(number + 1, 2 if chosen is _direction else 1)]:
                if column and column.error is None:
                    _round(values, column.scale, column.multiples)
                sent.append(column.multiples if column else values)
            for start in range(0, len(sent[number]), BLOCK):
                _shuffle(chosen(sent, number, start, start + BLOCK), place[:, start : start + BLOCK])
            yield from place
        assert packed.report is not None
        error = max(column.largest_error(values) if column else 0.0 for values, column in zip(floats, columns))
        packed.report = replace(packed.report, largest_error=error)

    def _coded(self, packed: Packed, pieces: Iterable[List[memoryview]]) -> Iterator[memoryview]:
        """Yields each piece as a frame of zstd or a member of gzip. Completes the report at the end."""
        size = 0
        for piece in pieces:
            for coded in self._encode(piece):
                size += coded.nbytes
                yield coded
        assert packed.report is not None
        packed.report = replace(packed.report, sent_bytes=size)
        with self._lock:
            self.total += packed.report

    def _of_columns(self, count: int) -> Sequence[Optional[float]]:
        if self._resolutions is None or len(self._resolutions) == 1:
            return (self._resolutions or (None,)) * count
        if len(self._resolutions) != count:
            raise ValueError(f"uplink has {len(self._resolutions)} resolutions for {count} columns")
        return self._resolutions

    def _pays(self, floats: Floats, columns: Sequence[Optional[_Column]]) -> bool:
        """Whether the multiples of a sample are smaller than its floats."""
        part = _sample(floats, SAMPLE)
        planes = np.empty((len(floats), floats.dtype.itemsize, floats[:, part].shape[1]), np.uint8)
        sizes = []
        for chosen in (columns, [None] * len(columns)):
            deltas = all(column and column.multiples.dtype == INTEGER for column in chosen)
            for place, values, column in zip(planes, floats[:, part], chosen):
                sent = column.multiples[part] if column else values
                _shuffle(_delta([sent], 0, 0, len(sent)) if deltas else sent, place)
            sizes.append(sum(piece.nbytes for piece in self._encode([planes.reshape(-1).data])))
        return sizes[0] < sizes[1]


def pack(points: Points, uplink: Uplink = AUTO, encoding: Optional[str] = None, **given: Any) -> Packed:
    """The body, parameters and headers of a request, for programs that send requests themselves. `points`: as for
    Client.voxelize. `given`: all parameters that describe the points, such as num_features, also those of a preset or
    model."""
    body, described = body_of(points, given)
    packed = Packer(uplink, encoding).pack(body, {**given, **described})
    packed.body, packed.query = list(packed.body), {**described, **packed.query}
    return packed


def _resolutions_of(uplink: Uplink) -> Optional[Tuple[float, ...]]:
    """None for "auto"."""
    if isinstance(uplink, str) and uplink == AUTO:
        return None
    numbers = np.asarray(uplink)
    sound = numbers.dtype.kind in "iuf" and numbers.ndim <= 1 and numbers.size
    if not sound or not all(0 < number < math.inf for number in numbers.ravel().tolist()):
        raise ValueError(f'uplink is {uplink!r}; expected "auto", or a resolution above 0, or one for each column')
    return tuple(float(number) for number in numbers.ravel())


def _dtype_of(given: Mapping[str, Any]) -> Optional[str]:
    """The type of the rows if they are plain floats, else None."""
    dtype = str(given.get("dtype", "float32"))
    described = any(given.get(name, RAW) != RAW for name in DESCRIBED)
    return None if described or dtype not in DTYPES else dtype


def _columns_of(given: Mapping[str, Any]) -> int:
    """The number of columns; 0 if num_features is no number, which the service then refuses."""
    count = text_of(given.get("num_features", COLUMNS))
    return len(_names(given)) or (int(count) if re.fullmatch("[0-9]{1,4}", count) else 0)


def _names(given: Mapping[str, Any]) -> List[str]:
    """The names of the columns; empty if they have none."""
    fields = text_of(given.get("fields", ()))
    return re.split(", *", fields) if fields else []


def _column(number: int, values: Floats, resolution: Optional[float], room: Integers) -> Optional[_Column]:
    """The column as multiples, not yet written into `room` if they are rounded. None if it is sent as floats."""
    kind = _kind(values, resolution is None)
    for scale in SCALES:
        if resolution is None or scale > resolution:
            if _is_exact(values, scale, room.view(kind)):
                return _Column(room.view(kind), scale, 0.0)
    if resolution is None:
        return None
    finite = values if kind == INTEGER else values[np.isfinite(values)]
    extremes = np.array([finite.min(), finite.max()] if finite.size else [], FLOAT)
    units = np.empty(len(extremes), kind)
    if not _round(extremes, resolution, units) or _error(extremes, resolution, units) == math.inf:
        worst = float(np.abs(extremes).max())
        raise ValueError(f"column {number} reaches {worst:g}, which int32 cannot hold in units of {resolution:g}")
    return _Column(room.view(kind), resolution, None)


def _kind(values: Floats, signs: bool) -> np.dtype[Any]:
    """The type of multiples. An integer has no NaN and no infinity; if `signs`, it must not replace a -0.0 either."""
    negative_zeros = signs and (values.view(np.int32) == NEGATIVE_ZERO).any()
    return INTEGER if np.isfinite(values).all() and not negative_zeros else FLOAT


def _blocks(*arrays: NDArray[Any]) -> Iterator[Tuple[NDArray[Any], ...]]:
    starts = [0, *range(FIRST, len(arrays[0]), BLOCK)]
    for start, end in zip(starts, [*starts[1:], len(arrays[0])]):
        yield tuple(array[start:end] for array in arrays)


def _round(values: Floats, scale: float, multiples: NDArray[Any]) -> bool:
    """Writes the nearest multiples of the scale. False if int32 cannot hold a finite number."""
    for given, part in _blocks(values, multiples):
        with np.errstate(over="ignore", invalid="ignore"):
            units = np.rint(np.divide(given, scale, dtype=np.float64))
        if part.dtype == INTEGER:
            units += 0.0  # integers have no -0.0
        finite: Any = slice(None) if part.dtype == INTEGER else np.isfinite(given)
        if not np.abs(units[finite]).max(initial=0) <= LARGEST:
            return False
        part[:] = units
    return True


def _restored(multiples: NDArray[Any], scale: float) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        restored: Floats = np.multiply(multiples, scale, dtype=np.float64).astype(np.float32)
        return restored


def _is_exact(values: Floats, scale: float, multiples: NDArray[Any]) -> bool:
    """Whether the nearest multiples restore every bit, except that integers may restore -0.0 as 0.0. Writes the
    multiples until a block is not exact."""
    for given, part in _blocks(values, multiples):
        if not _round(given, scale, part):
            return False
        restored = _restored(part, scale)
        if part.dtype == INTEGER:
            same = np.array_equal(restored, given)
        else:
            restored[np.isnan(restored)] = np.nan  # a service may change other bits of a NaN
            same = np.array_equal(restored.view(np.int32), given.view(np.int32))
        if not same:
            return False
    return True


def _error(values: Floats, scale: float, multiples: NDArray[Any]) -> float:
    """The largest error of a finite number; infinity if float32 cannot hold a restored number."""
    error = 0.0
    for given, part in _blocks(values, multiples):
        finite: Any = slice(None) if part.dtype == INTEGER else np.isfinite(given)
        differences = np.abs(np.subtract(_restored(part, scale)[finite], given[finite], dtype=np.float64))
        error = max(error, float(differences.max(initial=0)))
    return error


def _sample(floats: Floats, rows: int) -> slice:
    start = max(0, (floats.shape[1] - rows) // 2)
    return slice(start, start + rows)


def _turns(floats: Floats, columns: Sequence[Optional[_Column]]) -> bool:
    """Whether the direction filter makes a sample's numbers smaller than the delta filter does."""
    if len(columns) < XYZ:
        return False
    part, bits = _sample(floats, SAMPLE // 4), []
    xyz = [
        np.rint(values[part] / np.float64(column.scale)).astype(np.int32)
        for values, column in zip(floats, columns[:XYZ])
        if column
    ]
    for chosen in (_direction, _delta):
        sent = [chosen(xyz, number, 0, len(xyz[number])) for number in range(XYZ)]
        bits.append(sum(float(np.log2(numbers.view(np.uint32) + 1.0).sum()) for numbers in sent))
    return bits[0] < bits[1]


def _shuffle(sent: NDArray[Any], place: NDArray[np.uint8]) -> None:
    """Writes numbers as planes [width,N]: first the lowest byte of all numbers."""
    place[:] = sent.view(np.uint8).reshape(-1, len(place)).T


def _pieces(planes: Iterable[NDArray[np.uint8]]) -> Iterator[List[memoryview]]:
    """Planes in pieces of at most PIECE bytes: small planes together, a large plane in parts."""
    piece: List[memoryview] = []
    size = 0
    for plane in planes:
        for start in range(0, len(plane), PIECE):
            part = plane[start : start + PIECE].data
            if size + len(part) > PIECE:
                yield piece
                piece, size = [], 0
            piece.append(part)
            size += len(part)
    yield piece


# --- filters ---
#
# A filter returns what is sent for rows `start` to `end` of a column. It gets one block of rows at a time, because
# fresh memory for all rows takes longer than the arithmetic. Differences wrap, as the service's sums do.


def _zigzag(integers: Integers) -> Integers:
    """Moves the sign to the lowest bit, in place."""
    signs = integers >> 31
    integers <<= 1
    integers ^= signs
    return integers


def _above(column: Integers, start: int, end: int, count: int) -> Integers:
    """The numbers `count` rows above; 0 where there is no row."""
    if start:
        return column[start - count : min(end, len(column)) - count]
    return np.concatenate((np.zeros(count, column.dtype), column[:end]))[: len(column[:end])]


def _plain(columns: Sequence[NDArray[Any]], number: int, start: int, end: int) -> NDArray[Any]:
    return columns[number][start:end]


def _delta(columns: Sequence[Integers], number: int, start: int, end: int) -> Integers:
    return _zigzag(columns[number][start:end] - _above(columns[number], start, end, 1))


def _direction(columns: Sequence[Integers], number: int, start: int, end: int) -> Integers:
    """In each run of RUN rows, one column leads, x or y: it is sent as differences to the row above. The other one and
    z are sent as differences to guesses, which assume that the direction from the origin to the row turns evenly. The
    service computes the same guesses, bit for bit."""
    if number >= XYZ:
        return _delta(columns, number, start, end)
    x, y = columns[:2]
    above = np.arange(start, min(end, len(x)), RUN) - 1
    y_leads = (above >= 0) & (np.abs(x[above]) < np.abs(y[above]))
    swaps = np.repeat(y_leads, RUN)[: len(x[start:end])]
    leads = (np.where(swaps, _above(y, start, end, count), _above(x, start, end, count)) for count in range(3))
    lead, lead_before = next(leads), next(leads)
    if number == 0:
        return _zigzag(lead - lead_before)
    now, last, older = (_above(columns[number], start, end, count) for count in range(3))
    if number == 1 and swaps.any():
        others = (np.where(swaps, _above(x, start, end, count), _above(y, start, end, count)) for count in range(3))
        now, last, older = others
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        guesses = np.rint(2 * (last * (lead / lead_before)) - older * (lead / next(leads)))
        lost = ~(np.abs(guesses) <= LARGEST)
    if lost.any():
        guesses[lost] = last[lost]
    return _zigzag(now - guesses.astype(np.int32))


_FILTERS: Dict[str, Callable[[Sequence[NDArray[Any]], int, int, int], NDArray[Any]]] = {
    "shuffle": _plain,
    "delta,shuffle": _delta,
    "direction,shuffle": _direction,
}
