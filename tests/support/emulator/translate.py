#!/usr/bin/env python3
"""Translates CUDA C to the C++ that the emulator runs.

    translate.py SOURCE TARGET [FILE...]    translates SOURCE/FILE to TARGET/FILE, and X.cu to X.cu.cc

It replaces launches, the declaration of dynamic shared memory, and inline assembly. INSTRUCTIONS has a row for each
instruction that the kernels reach on the emulated device. An instruction without a row, such as a wait for a cluster,
ends the program if it is reached.
"""

import pathlib
import re
import sys

INSTRUCTIONS = {
    "mov.u64 %0, %%globaltimer;": "{0} = emulated_now();",
    "mov.u32 %0, %1;": "{0} = {1};",
    "griddepcontrol.launch_dependents;": "emulated_let_next();",
    "griddepcontrol.wait;": "emulated_wait();",
    "trap;": 'emulated_die("a trap");',
    "st.shared.v2.u32 [%0], {%1, %2};": "*emulated_at<uint2>({0}) = make_uint2({1}, {2});",
    "st.shared.v4.f32 [%0], {%1, %2, %3, %4};": "*emulated_at<float4>({0}) = make_float4({1}, {2}, {3}, {4});",
    "ld.shared.v2.u32 {%0, %1}, [%2];": "{{ uint2 v = *emulated_at<uint2>({2}); {0} = v.x; {1} = v.y; }}",
    "ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];": (
        "{{ float4 v = *emulated_at<float4>({4}); {0} = v.x; {1} = v.y; {2} = v.z; {3} = v.w; }}"
    ),
}
# The emulated device reports an architecture below 900, but the emulator has these instructions.
GUARDED = re.compile(r"#if __CUDA_ARCH__ >= 900\n([^\n]*griddepcontrol[^\n]*\n)#endif\n")
ASSEMBLY = re.compile(r"\basm(?: volatile)?\((.*?)\);", re.DOTALL)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
LAUNCH = re.compile(r"(\w+)<<<(.*?)>>>\((.*?)\);", re.DOTALL)
DYNAMIC = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")


def parts_of(text):
    """Splits at the commas that are outside of all brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def operands_of(text):
    """The expressions in `"r"(a), "=f"(b)`, in order."""
    found = []
    for match in re.finditer(r'"[=+]?[a-z]"\(', text):
        depth, end = 1, match.end()
        while depth > 0:
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        found.append(text[match.end() : end - 1])
    return found


def instruction(match):
    texts = re.match(r'(?:\s*"(?:[^"\\]|\\.)*")*', match[1])[0]
    row = INSTRUCTIONS.get("".join(STRING.findall(texts)))
    if row is None:
        return 'emulated_die("an instruction that the emulator does not know");'
    return row.format(*operands_of(match[1][len(texts) :]))


def launch(match):
    shape = parts_of(match[2])
    shared = shape[2] if len(shape) > 2 else "0"
    kernel = match[1]
    return f'emulated_launch("{kernel}", {shape[0]}, {shape[1]}, {shared}, [&] {{ {kernel}({match[3]}); }});'


def translated(text):
    text = GUARDED.sub(r"\1", text)
    text = ASSEMBLY.sub(instruction, text)
    text = LAUNCH.sub(launch, text)
    return DYNAMIC.sub(r"static \1 *const \2 = (\1 *)emulated_shared;", text)


def main():
    source, target = map(pathlib.Path, sys.argv[1:3])
    for name in sys.argv[3:]:
        place = target / (name + ".cc" if name.endswith(".cu") else name)
        place.parent.mkdir(parents=True, exist_ok=True)
        text = translated((source / name).read_text())
        if not place.exists() or place.read_text() != text:
            place.write_text(text)


if __name__ == "__main__":
    main()
