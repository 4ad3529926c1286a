"""Reads the contents of answers. BadAnswer if their form is wrong."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Type, TypeVar

from . import tensors as files
from .connection import Answer
from .errors import BadAnswer
from .result import Result
from .shared import ANSWER_ROOM

R = TypeVar("R", bound=Result)
TENSORS = "application/vnd.safetensors"
SHUFFLED = "application/x-shuffled-safetensors"
JSON = "application/json"
PLAIN = "text/plain"


def tensors(answer: Answer, kind: Type[R]) -> R:
    expect(answer, TENSORS, SHUFFLED)
    return kind(*files.parse(answer.body))


def length(answer: Answer) -> int:
    """The size of the file in shared memory, in bytes."""
    told = document(answer).get("output_region")
    size = told.get("bytes") if isinstance(told, dict) else None
    if not isinstance(size, int) or not 0 <= size <= ANSWER_ROOM:
        raise BadAnswer("the answer does not say what is in shared memory")
    return size


def expect(answer: Answer, *kinds: str) -> None:
    if answer.media_type() not in kinds:
        raise BadAnswer(f"the answer is {answer.media_type()}, not {kinds[0]}")


def plain(answer: Answer) -> str:
    expect(answer, PLAIN)
    try:
        return answer.body.tobytes().decode("utf-8")
    except UnicodeDecodeError as reason:
        raise BadAnswer(f"the answer is not text: {reason}") from None


def listed(answer: Answer, name: str) -> List[Dict[str, Any]]:
    items = document(answer).get(name)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadAnswer(f"the answer is not a list of {name}")
    return items


def document(answer: Answer) -> Dict[str, Any]:
    expect(answer, JSON)
    try:
        read = json.loads(answer.body.tobytes())
    except (ValueError, RecursionError) as reason:
        raise BadAnswer(f"the answer is not JSON: {reason}") from None
    if not isinstance(read, dict):
        raise BadAnswer("the answer is not a JSON object")
    return read
