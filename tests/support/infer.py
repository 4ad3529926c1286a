"""Inference requests of the KServe v2 protocol, built by hand, and the tensors of their answers."""

import json

import numpy as np

DATATYPES = {"FP32": "<f4", "FP16": "<f2", "INT32": "<i4", "INT64": "<i8", "UINT8": "|u1"}
HEAD = "Inference-Header-Content-Length"


def datatype(array):
    return next(name for name, kind in DATATYPES.items() if np.dtype(kind) == array.dtype)


def described(name, array, **members):
    return {"name": name, "shape": list(array.shape), "datatype": datatype(array), **members}


def as_bytes(name, array):
    return described(name, array, parameters={"binary_data_size": array.nbytes})


def as_json(name, array):
    return described(name, array, data=array.ravel().tolist())


def in_region(name, array, region, at):
    terms = {"shared_memory_region": region, "shared_memory_byte_size": array.nbytes, "shared_memory_offset": at}
    return described(name, array, parameters=terms)


def body_of(inputs, arrays=(), **members):
    """The body, with the arrays after its JSON, and the header with the length of the JSON."""
    head = json.dumps({"inputs": inputs, **members}).encode()
    return head + b"".join(array.tobytes() for array in arrays), {HEAD: str(len(head))}


def parse(reply):
    """(tensors, JSON) of an answer. Tensors that went to a region are left out."""
    length = int(reply.headers.get(HEAD, len(reply.body)))
    kind = "application/octet-stream" if HEAD in reply.headers else "application/json"
    assert reply.headers["Content-Type"] == kind, reply
    binary, answer, tensors = reply.body[length:], json.loads(reply.body[:length]), {}
    for output in answer["outputs"]:
        kind, size = np.dtype(DATATYPES[output["datatype"]]), output.get("parameters", {}).get("binary_data_size", 0)
        if "data" not in output and "parameters" not in output:
            continue
        values = np.array(output["data"], kind) if "data" in output else np.frombuffer(binary[:size], kind)
        tensors[output["name"]] = values.reshape(output["shape"])
        binary = binary[size:]
    assert binary == b"", f"{len(binary)} bytes after those of the outputs"
    return tensors, answer
