"""Bodies in formats other than raw rows, and hints for a body whose format the query does not name."""

import bz2
import gzip
import lzma
import struct
import unittest

from client import Raw, counters, head
from daemon import ROOT, wait_until
from http_case import CHUNKED, FORM, JSON, SharedDaemonCase, floats

LIMIT = 1 << 16
VALUES = (1, 2, 3, 0.5, 4, 5, 6, 1)
ROWS = floats(*VALUES)
PCD_HEAD = b"FIELDS x y z intensity\nSIZE 4 4 4 4\nTYPE F F F F\nPOINTS 2\nDATA %b\n"
TEXT_PCD = PCD_HEAD % b"ascii" + b"1 2 3 0.5\n4 5 6 1\n"
BINARY_PCD = PCD_HEAD % b"binary" + ROWS
PLY_HEAD = b"ply\nformat binary_little_endian 1.0\nelement vertex 2\n"
PROPERTIES = b"".join(b"property float %b\n" % name for name in (b"x", b"y", b"z", b"intensity"))
PLY = PLY_HEAD + PROPERTIES + b"end_header\n" + ROWS
PCD_FILE = "the body looks like a PCD file: add format=pcd"
PLY_FILE = "the body looks like a PLY file: add format=ply"
POINTCLOUD2 = "the body looks like a serialized PointCloud2: add format=pointcloud2"
# Files as other programs write them, and {file: its points, their number, or the reason for its refusal}.
WIRES = ROOT.parent / "shared" / "cases" / "wires"
TWO = (1, 2, 3, 4, 5, 6)
RIGHT = {
    "01_pcl_page_tail.pcd": TWO,
    "02_pcl_empty_page.pcd": (),
    "03_count0_padding.pcd": TWO,
    "04_no_size_type.pcd": TWO,
    "05_upper_xyz_pdal.pcd": TWO,
    "07_lzf_stored.pcd": 20,
    "09_cr_ascii.ply": TWO,
    "10_cr_binary.ply": TWO,
    "11_magic_blank.ply": TWO,
    "12_vertex_list.ply": TWO,
    "14_sentinel.pcd": (1, 2, 3, float("inf"), float("inf"), float("inf")),
    "15_same_name_twice.pcd": "the file has 2 fields named x",
    "16_utm_double.pcd": 2,
    "23_pc2_ok.cdr": TWO,
    "24_pc2_xcdr2.cdr": TWO,
    "25_pc2_row_step_0.cdr": TWO,
    "26_pc2_frame_length_0.cdr": TWO,
    "28_ros1.bin": "the body looks like a PointCloud2 of ROS 1",
}
SUFFIXES = {".pcd": "pcd", ".ply": "ply", ".cdr": "pointcloud2", ".bin": "pointcloud2"}


def point_cloud_2():
    out = b"\0\1\0\0" + struct.pack("<2iI", 1, 2, 6) + b"lidar\0\0\0" + struct.pack("<3I", 1, 2, 4)
    for place, name in enumerate((b"x", b"y", b"z", b"intensity")):
        out += bytes(-len(out) % 4) + struct.pack("<I", len(name) + 1) + name + b"\0"
        out += bytes(-len(out) % 4) + struct.pack("<IB3xI", 4 * place, 7, 1)
    return out + struct.pack("<B3x3I", 0, 16, 32, 32) + ROWS + b"\1"


MESSAGE = point_cloud_2()
# (beginning of a body that the service cannot read, a part of the hint)
FOREIGN = (
    (b"1.5 2.5 0.5 0.2\n" * 10, "text"),
    (b"x,y,z,intensity\r\n" * 8, "text"),
    (b"\xef\xbb\xbf" + b"1;2;3;0.5\n" * 14, "text"),
    (b'{"points": [[1, 2, 3]]}' * 4, "JSON"),
    (b" [[1, 2, 3], " * 6, "JSON"),
    ("höhe;x;y\n".encode() + b"1;2;3\n" * 20, "text"),
    (b"#ROSBAG V2.0\n", "ROS 1"),
    (b"SQLite format 3\0", ".db3"),
    (b"\x89MCAP0\r\n", "MCAP"),
    (b"ASTM-E57", "E57"),
    (b"LASF", "LAS or LAZ"),
    (b"DRACO\2\2", "Draco"),
    (gzip.compress(ROWS), "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (lzma.compress(ROWS), "xz"),
    (bz2.compress(ROWS), "bzip2"),
    (b"PK\3\4", ".npz"),
    (b"\x93NUMPY", ".npy"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"\xd4\xc3\xb2\xa1", "pcap"),
    (b"\n\r\r\n", "pcapng"),
    (b"PAR1", "Parquet"),
    (b"ARROW1\0\0", "Arrow"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"glTF\2\0\0\0", "glTF"),
)



class Formats(SharedDaemonCase):
    ARGS = ("--max-body-bytes", str(LIMIT))

    def move(self, query, body, *lines):
        """A transform without parameters, which returns the points unchanged."""
        return self.post(f"/v1/transform?{query}", body, *lines)

    def bad_body(self, reply, parameter="", reason=""):
        self.problem(reply, 400, "bad-body", parameter, reason)

    def await_memory(self):
        given_back = lambda: counters(self.daemon, "voxeld_buffer_bytes")['state="in_use"'] == 0
        wait_until(given_back, "all memory given back")

    def tearDown(self):
        self.await_memory()

    def test_every_format_gives_the_points_of_the_raw_rows(self):
        for body, query in (
            (ROWS, ""),
            (ROWS, "format=raw"),
            (TEXT_PCD, "format=pcd"),
            (BINARY_PCD, "format=pcd"),
            (PLY, "format=ply"),
            (MESSAGE, "format=pointcloud2"),
        ):
            for lines in ((FORM,), (CHUNKED, "Content-Type: application/octet-stream")):
                with self.subTest(query=query, lines=lines):
                    answer = self.tensors(self.move(query, body, *lines))
                    self.assertEqual(answer.values("points"), VALUES)
                    if CHUNKED in lines:
                        self.assertEqual(answer.metadata["warnings"], [])

    def test_a_named_format_is_read_whatever_type_a_library_sends(self):
        kinds = ("text/plain;charset=UTF-8", "text/plain", "image/x-photo-cd", "application/json", "model/ply", "x")
        for kind in kinds:
            for body, query in ((TEXT_PCD, "format=pcd"), (PLY, "format=ply"), (ROWS, "format=raw")):
                with self.subTest(kind, query=query):
                    answer = self.tensors(self.move(query, body, f"Content-Type: {kind}"))
                    self.assertEqual(answer.values("points"), VALUES)
            self.problem(self.move("", ROWS, f"Content-Type: {kind}"), 415, "unsupported-media-type")
        for kind in ("multipart/form-data; boundary=x", "Multipart/Mixed"):
            reply = self.move("format=pcd", TEXT_PCD, f"Content-Type: {kind}")
            self.problem(reply, 415, "unsupported-media-type")

    def test_the_metadata_names_what_was_given_and_nothing_else(self):
        query = "format=pcd&fields=x,y,intensity&intensity_scale=0.25"
        parameters = self.json(self.move(query, TEXT_PCD, JSON))["parameters"]
        given = [parameters[name] for name in ("num_features", "format", "fields", "intensity_scale")]
        self.assertEqual(given, [3, "pcd", ["x", "y", "intensity"], 0.25])
        parameters = self.json(self.move("", ROWS, JSON))["parameters"]
        self.assertEqual(set(parameters), {"crop", "cut", "distance", "dtype", "num_features", "outputs", "timeout_ms"})

    def test_columns_are_chosen_and_intensity_is_scaled(self):
        query = "format=pointcloud2&fields=x,y,z,intensity&intensity_scale=0.5"
        answer = self.tensors(self.move(query, MESSAGE))
        self.assertEqual(answer.values("points"), (1, 2, 3, 0.25, 4, 5, 6, 0.5))
        answer = self.tensors(self.move("fields=x,y,z,intensity&intensity_scale=-2", ROWS))
        self.assertEqual(answer.values("points"), (1, 2, 3, -1, 4, 5, 6, -2))

    def test_what_a_file_lacks_is_refused(self):
        reason = "num_features is 5, but the points of the file have only 4 columns; its fields are x, y, z, intensity"
        self.bad_body(self.move("format=pcd&num_features=5", TEXT_PCD), "num_features", reason)
        self.bad_body(self.move("format=pcd&fields=x,y,z,ring", TEXT_PCD), "fields")
        self.bad_body(self.move("format=pcd&num_features=3&intensity_scale=2", TEXT_PCD), "intensity_scale")
        self.bad_body(self.move("format=pcd&point_counts=1,2", TEXT_PCD), "point_counts")
        wrong = TEXT_PCD.replace(b"4 5 6", b"4 five 6")
        self.bad_body(self.move("format=pcd", wrong), reason="line 7, field y: 'five' is not a number")
        none = TEXT_PCD.replace(b"POINTS 2", b"POINTS 0")
        reason = "line 6 comes after the 0 points that were promised"
        self.bad_body(self.move("format=pcd", none), reason=reason)
        self.bad_body(self.move("format=ply", b""))
        lists = b"ply\nformat binary_little_endian 1.0\nelement vertex 99\n"
        lists += b"property float x\nproperty float y\nproperty float z\nproperty list uchar float d\nend_header\n"
        # This error names no field, since rows have overwritten the file's header.
        reason = "the body ends within point 99 of 99"
        short = lists + (bytes(12) + b"\0") * 98 + bytes(12) + b"\1"
        self.assertEqual(self.problem(self.move("format=ply&num_features=3", short), 400, "bad-body")["detail"], reason)
        three = b"ply\nformat ascii 1.0\nelement vertex 1\n" + b"".join(b"property float %c\n" % c for c in b"xyz")
        reason = "num_features is 4, but the points of the file have only 3 columns; its fields are x, y, z"
        reply = self.move("format=ply", three + b"end_header\n1 2 3\n", FORM)  # with line ends, which -d strips
        self.assertEqual(self.problem(reply, 400, "bad-body", "num_features")["detail"], reason)
        stripped = TEXT_PCD.replace(b"\n", b"")
        reason = "if curl -d sent it, use --data-binary"
        self.bad_body(self.move("format=pcd", stripped, FORM), reason=reason)

    def test_a_body_of_another_format_is_reported(self):
        self.bad_body(self.move("num_features=7", TEXT_PCD), reason=PCD_FILE)
        self.bad_body(self.move("num_features=7", TEXT_PCD, CHUNKED), reason=PCD_FILE)
        self.bad_body(self.move("num_features=64", PLY), reason=PLY_FILE)
        self.bad_body(self.move("num_features=64", MESSAGE), reason=POINTCLOUD2)
        self.bad_body(self.move("format=ply", MESSAGE), reason=POINTCLOUD2)
        reason = "the body looks compressed by gzip: add the header Content-Encoding: gzip"
        self.bad_body(self.move("format=pcd", gzip.compress(TEXT_PCD)), reason=reason)

    def test_before_the_body_has_come_the_reason_names_every_format(self):
        with Raw(self.daemon) as connection:
            lines = (f"Content-Length: {len(PLY)}", "Expect: 100-continue")
            reply = connection.send(head("POST", "/v1/transform?num_features=64", *lines)).read()
            reason = "; a PCD or PLY file, or a PointCloud2, needs format=pcd, ply or pointcloud2"
            self.bad_body(reply, reason=reason)

    def test_a_body_of_another_format_that_could_be_rows_gets_a_warning(self):
        answer = self.json(self.move("", TEXT_PCD.ljust(160), JSON))
        details = [warning["detail"] for warning in answer["warnings"] if warning["kind"] == "format"]
        self.assertEqual(details, [PCD_FILE])
        self.assertEqual(counters(self.daemon, "voxeld_warnings_total")['kind="format"'], 1)

    def test_coordinates_that_float32_does_not_have_get_a_warning(self):
        """Coordinates that move by up to 5 mm get no warning, nor does another column whose values are all equal."""
        point = (289814.15, 4320978.61, 170.76, 1700000000.123)
        doubles = b"FIELDS x y z t\nSIZE 8 8 8 8\nTYPE F F F F\nPOINTS 1\nDATA binary\n"
        text = b"FIELDS x y z t\nPOINTS 1\nDATA ascii\n"
        reason = "float32 has steps of 0.5 m near 4320978.61, so rounding moved a coordinate by 0.11 m"
        for body in (doubles + struct.pack("<4d", *point), text + b"%.2f %.2f %.2f %.3f\n" % point):
            (warning,) = self.json(self.move("format=pcd", body, JSON))["warnings"]
            self.assertEqual(warning["kind"], "rounded")
            self.assertIn(reason, warning["detail"])
        for exact in ((289814.15625, 4320978.5, 170.75, 1700000000.123), (1234.567, -9876.543, 0.1, 0.3)):
            answer = self.json(self.move("format=pcd", doubles + struct.pack("<4d", *exact), JSON))
            self.assertEqual(answer["warnings"], [])

    @unittest.skipUnless(WIRES.is_dir(), f"no files of other programs in {WIRES}")
    def test_files_of_other_programs(self):
        for name, right in RIGHT.items():
            path = WIRES / name
            with self.subTest(file=name):
                reply = self.move(f"num_features=3&format={SUFFIXES[path.suffix]}", path.read_bytes())
                if isinstance(right, str):
                    self.bad_body(reply, "fields" if "fields" in right else "", right)
                    continue
                answer = self.tensors(reply)
                if isinstance(right, tuple):
                    self.assertEqual(answer.values("points"), tuple(v for v in right if v != float("inf")))
                    self.assertEqual(answer.metadata["points"]["received"], len(right) // 3)
                else:
                    self.assertEqual(answer.metadata["points"]["kept"], right)
                told = [warning["kind"] for warning in answer.metadata["warnings"]]
                self.assertEqual(told, ["rounded"] if "utm" in name else ["empty"] if "empty" in name else [])

    def test_a_file_that_is_no_format_is_reported(self):
        for body, word in FOREIGN:
            body = body.ljust(160, body[-1:])
            with self.subTest(body[:16]):
                answer = self.json(self.move("", body, JSON))
                (detail,) = [each["detail"] for each in answer["warnings"] if each["kind"] == "format"]
                self.assertIn(word, detail)
                self.bad_body(self.move("num_features=7", body), reason=detail)

    def test_a_file_that_widens_to_more_than_a_body_may_have_is_refused(self):
        body = b"FIELDS x y z\nSIZE 1 1 1\nTYPE U U U\nPOINTS 6000\nDATA binary\n" + bytes(18000)
        reason = "the body's points have 72000 bytes; allowed: up to 65536"
        self.problem(self.move("format=pcd&num_features=3", body), 413, "body-too-large", reason=reason)

    def test_rows_that_the_budget_does_not_hold_beside_their_body_are_refused(self):
        budget = ("--max-response-bytes", "65536", "--memory-budget-bytes", "1572864")
        self.start("--max-body-bytes", "1048576", *budget)
        body = b"FIELDS x y z\nSIZE 2 2 2\nTYPE U U U\nPOINTS 87381\nDATA binary\n" + bytes(524286)
        reply = self.move("format=pcd&num_features=3", body)
        reason = "the body's points need 1048572 bytes; memory_budget_bytes leaves 524288 beside the body"
        self.problem(reply, 422, "impossible", reason=reason)
        self.await_memory()


if __name__ == "__main__":
    unittest.main()
